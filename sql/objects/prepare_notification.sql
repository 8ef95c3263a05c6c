-- What happens to a notification before it is stored: defaults for NULLs, normal forms, every check, and the payload.
-- A plain function over the row, so that enqueue_notification can compare a repeat with what is stored.

CREATE OR REPLACE FUNCTION pgpush_prepare(n scheduled_notifications) RETURNS scheduled_notifications
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    -- An explicit NULL means the default: ORMs send one for every field that is not set.
    n.app               := coalesce(n.app, 'default');
    n.user_ids          := coalesce(n.user_ids, '{}');
    n.device_tokens     := coalesce(n.device_tokens, '{}');
    n.broadcast         := coalesce(n.broadcast, false);
    n.mutable_content   := coalesce(n.mutable_content, false);
    n.content_available := coalesce(n.content_available, false);
    n.push_type         := coalesce(n.push_type, 'alert');
    n.store_if_offline  := coalesce(n.store_if_offline, true);
    n.scheduled_at      := coalesce(n.scheduled_at, now());
    n.delivery          := coalesce(n.delivery, 'at_least_once');
    n.topic             := nullif(n.topic, '');
    n.collapse_id       := nullif(n.collapse_id, '');

    IF n.app = '' OR length(n.app) > 100 OR n.app ~ '[[:cntrl:]]' THEN
        PERFORM pgpush_refuse('PN030', 'app', 'app must be a name of 1 to 100 characters',
            'Give the name that the app has in the worker''s configuration, or leave it out for ''default''.');
    END IF;
    IF n.environment IS NOT NULL AND n.environment NOT IN ('production', 'sandbox') THEN
        IF pgpush_environment(n.environment) IS NULL THEN
            PERFORM pgpush_refuse('PN018', 'environment', format('environment %L is unknown', n.environment),
                'It is production or sandbox; leave it out to reach devices of both.');
        END IF;
        n.environment := pgpush_environment(n.environment);
    END IF;

    -- Each of these returns at once for the plainest row: a single user, no header of its own.
    IF n.user_id IS NULL OR n.broadcast OR n.channel_id IS NOT NULL OR n.user_id = '' OR length(n.user_id) > 512
        OR n.user_ids <> '{}' OR n.device_tokens <> '{}' THEN
        n := pgpush_prepare_target(n);
    END IF;
    PERFORM pgpush_check_headers(n);
    n.payload := pgpush_render(n);
    RETURN n;
END
$$;
COMMENT ON FUNCTION pgpush_prepare(scheduled_notifications) IS
    'Internal: a notification with defaults, normal forms and payload filled in, or an error of class PN.';

CREATE OR REPLACE FUNCTION pgpush_prepare_target(n scheduled_notifications) RETURNS scheduled_notifications
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    list_limit constant int := 100000;  -- a larger list would outlast the statement timeout of the claim that splits it
    targets    text[];
    bad        text;
BEGIN
    targets := array_remove(ARRAY[
        CASE WHEN n.user_id IS NOT NULL THEN 'user_id' END, CASE WHEN n.user_ids <> '{}' THEN 'user_ids' END,
        CASE WHEN n.device_tokens <> '{}' THEN 'device_tokens' END, CASE WHEN n.broadcast THEN 'broadcast' END,
        CASE WHEN n.channel_id IS NOT NULL THEN 'channel_id' END], NULL);
    IF cardinality(targets) = 0 THEN
        PERFORM pgpush_refuse('PN001', 'user_id', 'user_id: the notification has no target',
            'Set exactly one of user_id, user_ids, device_tokens, broadcast, channel_id.');
    ELSIF cardinality(targets) > 1 THEN
        PERFORM pgpush_refuse('PN002', targets[2],
            'the notification has several targets: ' || array_to_string(targets, ', '),
            'Set exactly one of user_id, user_ids, device_tokens, broadcast, channel_id.');
    END IF;

    CASE targets[1]
    WHEN 'user_id' THEN
        IF n.user_id = '' OR length(n.user_id) > 512 THEN
            PERFORM pgpush_refuse('PN030', 'user_id', 'user_id must have 1 to 512 characters',
                'Give the id that the devices were registered with.');
        END IF;
    WHEN 'user_ids' THEN
        IF cardinality(n.user_ids) > list_limit THEN
            PERFORM pgpush_refuse('PN031', 'user_ids', format('user_ids has %s elements, more than %s',
                cardinality(n.user_ids), list_limit), 'Insert several notifications, or a broadcast.');
        END IF;
        IF EXISTS (SELECT FROM unnest(n.user_ids) u WHERE u IS NULL OR u = '' OR length(u) > 512) THEN
            PERFORM pgpush_refuse('PN031', 'user_ids', 'user_ids holds an element that is null, empty or over 512 characters',
                'Leave out what is no user id.');
        END IF;
        n.user_ids := ARRAY(SELECT u FROM unnest(n.user_ids) WITH ORDINALITY x(u, o) GROUP BY u ORDER BY min(o));
    WHEN 'device_tokens' THEN
        IF cardinality(n.device_tokens) > list_limit THEN
            PERFORM pgpush_refuse('PN031', 'device_tokens', format('device_tokens has %s elements, more than %s',
                cardinality(n.device_tokens), list_limit), 'Insert several notifications, or register the devices.');
        END IF;
        n.device_tokens := ARRAY(SELECT pgpush_token(coalesce(t, '')) FROM unnest(n.device_tokens) WITH ORDINALITY x(t, o)
                                 GROUP BY 1 ORDER BY min(o));
        SELECT t INTO bad FROM unnest(n.device_tokens) t WHERE pgpush_token_fault(t) IS NOT NULL LIMIT 1;
        IF FOUND THEN
            PERFORM pgpush_refuse_token('device_tokens', bad, pgpush_token_fault(bad));
        END IF;
    WHEN 'channel_id' THEN
        IF n.channel_id !~ '^[A-Za-z0-9+/=_-]+$' OR length(n.channel_id) > 512 THEN
            PERFORM pgpush_refuse('PN025', 'channel_id', 'channel_id is not a channel of Apple''s',
                'Give the base64 text that creating the channel returned.');
        END IF;
        IF n.push_type <> 'liveactivity' THEN
            PERFORM pgpush_refuse('PN032', 'push_type', format('push_type %s cannot go to a channel', n.push_type),
                'Channels carry Live Activities only: set push_type to liveactivity.');
        END IF;
    ELSE
        NULL;
    END CASE;
    RETURN n;
END
$$;
COMMENT ON FUNCTION pgpush_prepare_target(scheduled_notifications) IS
    'Internal: checks that there is exactly one target and brings lists of users and tokens into normal form.';

CREATE OR REPLACE FUNCTION pgpush_check_headers(n scheduled_notifications) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF n.push_type NOT IN ('alert', 'background', 'voip', 'complication', 'fileprovider', 'mdm', 'location', 'liveactivity',
                           'pushtotalk', 'widgets', 'controls', 'accessory') THEN
        PERFORM pgpush_refuse('PN004', 'push_type', format('push_type %L is unknown', n.push_type),
            'It is one of alert, background, voip, complication, fileprovider, mdm, location, liveactivity, pushtotalk, '
            'widgets, controls, accessory.');
    END IF;
    IF n.priority NOT IN (10, 5, 1) THEN
        PERFORM pgpush_refuse('PN005', 'priority', format('priority %s is not one of Apple''s', n.priority),
            'It is 10 (at once), 5 (when convenient for the battery) or 1 (never wakes the device), or null.');
    ELSIF n.priority = 10 AND n.push_type = 'background' THEN
        PERFORM pgpush_refuse('PN006', 'priority', 'priority 10 is not allowed on a background push',
            'Leave priority out (it is then 5), or set it to 5 or 1.');
    ELSIF n.priority = 1 AND n.push_type IN ('liveactivity', 'location') THEN
        PERFORM pgpush_refuse('PN006', 'priority', format('priority 1 is not allowed on push_type %s', n.push_type),
            'Leave priority out (it is then 10), or set it to 5.');
    END IF;
    IF octet_length(n.collapse_id) > 64 THEN
        PERFORM pgpush_refuse('PN007', 'collapse_id', format('collapse_id has %s bytes, more than 64',
            octet_length(n.collapse_id)), 'Shorten it, or use a hash of it.');
    ELSIF n.collapse_id ~ '[[:cntrl:]]|^\s|\s$' THEN
        PERFORM pgpush_refuse('PN025', 'collapse_id', 'collapse_id holds a control character, or a blank at an end',
            'It is sent as a header: use printable characters.');
    END IF;
    IF n.topic !~ '^[A-Za-z0-9._-]{1,255}$' THEN
        PERFORM pgpush_refuse('PN025', 'topic', 'topic is not a bundle id',
            'It is made of letters, digits, dots and hyphens, for example com.example.app.voip.');
    ELSIF n.topic IS NULL AND n.push_type = 'mdm' THEN
        PERFORM pgpush_refuse('PN014', 'topic', 'topic is required for push_type mdm',
            'It is the UID in the subject of the MDM push certificate.');
    END IF;
    IF n.delivery NOT IN ('at_least_once', 'at_most_once') THEN
        PERFORM pgpush_refuse('PN029', 'delivery', format('delivery %L is unknown', n.delivery),
            'It is at_least_once (the default) or at_most_once.');
    END IF;
    IF n.idempotency_key = '' OR length(n.idempotency_key) > 512 THEN
        PERFORM pgpush_refuse('PN020', 'idempotency_key', 'idempotency_key must have 1 to 512 characters',
            'Leave it out (null) when repeats need not be recognised.');
    END IF;

    IF NOT isfinite(n.scheduled_at) THEN
        PERFORM pgpush_refuse('PN012', 'scheduled_at', 'scheduled_at is infinite', 'Give a time; leave it out for now.');
    ELSIF NOT isfinite(n.expires_at) THEN
        PERFORM pgpush_refuse('PN012', 'expires_at', 'expires_at is infinite',
            'Leave it out: without it Apple keeps a push for up to 30 days.');
    ELSIF n.expires_at < n.scheduled_at THEN
        PERFORM pgpush_refuse('PN011', 'expires_at', 'expires_at is before scheduled_at',
            'A push is not sent after expires_at: give a later time, or leave it out.',
            format('scheduled_at is %s, expires_at is %s.', n.scheduled_at, n.expires_at));
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_check_headers(scheduled_notifications) IS
    'Internal: checks everything that decides how and when a notification is sent.';
