-- The exact bytes that will be sent. Rendered and measured once, when the row is written, so that what cannot be sent is refused
-- to the one who wrote it.

CREATE OR REPLACE FUNCTION pgpush_render(n scheduled_notifications) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    size_limit constant int := CASE WHEN n.push_type = 'voip' OR n.channel_id IS NOT NULL THEN 5120 ELSE 4096 END;
    result     text;
    size       int;
BEGIN
    IF n.raw_payload IS NOT NULL THEN
        IF num_nonnulls(n.title, n.subtitle, n.body, n.badge, n.sound, n.category, n.thread_id, n.target_content_id,
                        n.interruption_level, n.relevance_score, n.data, n.aps) > 0
            OR n.mutable_content OR n.content_available THEN
            PERFORM pgpush_refuse('PN016', 'raw_payload', 'raw_payload stands beside other content columns',
                'raw_payload is sent byte for byte: leave title, body, data, aps and the like out, or leave it out.');
        ELSIF json_typeof(n.raw_payload) <> 'object' THEN
            PERFORM pgpush_refuse('PN017', 'raw_payload', 'raw_payload is not a JSON object',
                'Apple takes an object, usually with a key aps.');
        END IF;
        PERFORM pgpush_check_raw(n);
        result := n.raw_payload::text;
    ELSIF n.push_type = 'mdm' THEN
        result := pgpush_compact(pgpush_render_mdm(n));
    ELSE
        PERFORM pgpush_check_content(n);
        result := pgpush_compact(jsonb_build_object('aps', pgpush_render_aps(n)) || coalesce(n.data, '{}'));
    END IF;

    size := octet_length(result);
    IF size > size_limit THEN
        PERFORM pgpush_refuse('PN003', 'payload', format('payload has %s bytes, more than the %s that Apple takes', size, size_limit),
            'Shorten title, body or data. Bytes count as they go out: UTF-8, with JSON''s escapes.');
    END IF;
    RETURN result;
END
$$;
COMMENT ON FUNCTION pgpush_render(scheduled_notifications) IS
    'Internal: the payload of a notification as compact JSON, or an error of class PN.';

CREATE OR REPLACE FUNCTION pgpush_check_content(n scheduled_notifications) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(n.data) <> 'object' THEN
        PERFORM pgpush_refuse('PN008', 'data', format('data is a JSON %s, not an object', jsonb_typeof(n.data)),
            'Its keys are placed beside aps: wrap the value, for example {"value": …}.');
    ELSIF n.data ? 'aps' THEN
        PERFORM pgpush_refuse('PN010', 'data', 'data holds a key aps',
            'Put keys of the aps dictionary into the column aps; the payload can have only one.');
    ELSIF jsonb_typeof(n.aps) <> 'object' THEN
        PERFORM pgpush_refuse('PN009', 'aps', format('aps is a JSON %s, not an object', jsonb_typeof(n.aps)),
            'It holds further keys of the aps dictionary, for example {"alert": {"loc-key": "GREETING"}}.');
    ELSIF n.badge < 0 THEN
        PERFORM pgpush_refuse('PN028', 'badge', 'badge is negative', 'Use 0 to clear the badge, null to leave it alone.');
    ELSIF n.interruption_level NOT IN ('passive', 'active', 'time-sensitive', 'critical', '') THEN
        PERFORM pgpush_refuse('PN026', 'interruption_level', format('interruption_level %L is unknown', n.interruption_level),
            'It is passive, active, time-sensitive or critical.');
    ELSIF n.relevance_score IN ('NaN', 'Infinity', '-Infinity')
        OR (n.push_type <> 'liveactivity' AND n.relevance_score NOT BETWEEN 0 AND 1) THEN
        PERFORM pgpush_refuse('PN027', 'relevance_score', format('relevance_score %s is out of range', n.relevance_score),
            'It is a number from 0 to 1; for a Live Activity any finite number.');
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_check_content(scheduled_notifications) IS 'Internal: checks the content columns one by one.';

CREATE OR REPLACE FUNCTION pgpush_render_aps(n scheduled_notifications) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    -- Empty text is as good as none, except that sound '' says silent. Badge 0 is a value.
    aps jsonb := jsonb_strip_nulls(jsonb_build_object(
        'alert', CASE WHEN n.title <> '' OR n.subtitle <> '' OR n.body <> '' THEN jsonb_build_object(
                     'title', nullif(n.title, ''), 'subtitle', nullif(n.subtitle, ''), 'body', nullif(n.body, '')) END,
        'badge', n.badge,
        'sound', nullif(n.sound, ''),
        'category', nullif(n.category, ''),
        'thread-id', nullif(n.thread_id, ''),
        'target-content-id', nullif(n.target_content_id, ''),
        'interruption-level', nullif(n.interruption_level, ''),
        'relevance-score', n.relevance_score,
        'mutable-content', CASE WHEN n.mutable_content THEN 1 END,
        'content-available', CASE WHEN n.content_available OR n.push_type = 'background' THEN 1 END,
        -- A widget's or control's push says nothing else than that there is something new.
        'content-changed', CASE WHEN n.push_type IN ('widgets', 'controls') THEN true END));
    shows boolean;
BEGIN
    IF n.aps IS NOT NULL THEN
        aps := pgpush_merge(aps, n.aps);
    END IF;
    IF n.push_type = 'alert' THEN
        -- As pgpush_shows has it, without the call.
        shows := CASE jsonb_typeof(aps -> 'alert') WHEN 'object' THEN aps -> 'alert' <> '{}'
                                                   WHEN 'string' THEN aps ->> 'alert' <> '' ELSE false END;
        IF shows AND n.sound IS NULL AND NOT aps ? 'sound' THEN
            aps := aps || '{"sound": "default"}';
        END IF;
        IF NOT shows AND coalesce(aps -> 'badge', 'null') = 'null' AND coalesce(aps -> 'sound', 'null') IN ('null', '""') THEN
            PERFORM pgpush_refuse('PN013', 'title', 'title: an alert with nothing to show, play or count',
                'Give title, subtitle, body, badge or sound; for a silent push set push_type to background.');
        END IF;
    ELSIF n.push_type = 'liveactivity' AND NOT aps ? 'timestamp' THEN
        aps := aps || jsonb_build_object('timestamp', floor(extract(epoch FROM n.scheduled_at))::bigint);
    END IF;
    -- The columns alone cannot make a bad alert, but for this one.
    IF n.aps IS NOT NULL OR n.mutable_content OR n.push_type <> 'alert' THEN
        PERFORM pgpush_check_aps(n, aps, 'aps');
    END IF;
    RETURN aps;
END
$$;
COMMENT ON FUNCTION pgpush_render_aps(scheduled_notifications) IS
    'Internal: the aps dictionary: the content columns with the column aps laid over them.';

CREATE OR REPLACE FUNCTION pgpush_render_mdm(n scheduled_notifications) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    PERFORM pgpush_check_content(n);
    IF num_nonnulls(n.title, n.subtitle, n.body, n.badge, n.sound, n.category, n.thread_id, n.target_content_id,
                    n.interruption_level, n.relevance_score, n.aps) > 0 OR n.mutable_content OR n.content_available THEN
        PERFORM pgpush_refuse('PN033', 'push_type', 'push_type mdm takes no content but data',
            'The payload of an MDM push has no aps: set data to {"mdm": "<push magic>"} and leave the rest out.');
    ELSIF coalesce(jsonb_typeof(n.data -> 'mdm'), '') <> 'string' THEN
        PERFORM pgpush_refuse('PN033', 'data', 'data needs a key mdm for push_type mdm',
            'Set data to {"mdm": "<push magic>"}, the value that the device sent in its TokenUpdate.');
    END IF;
    RETURN n.data;
END
$$;
COMMENT ON FUNCTION pgpush_render_mdm(scheduled_notifications) IS 'Internal: the payload of an MDM push, which has no aps.';
