-- What Apple asks of the aps dictionary, push type by push type. Apple refuses some of it, and takes the rest and never delivers
-- it: both are refused to the one who writes it. Keys that Apple does not know are let through; so is what stands beside aps.

CREATE OR REPLACE FUNCTION pgpush_check_aps(n scheduled_notifications, aps jsonb, field text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    bad text;
BEGIN
    IF coalesce(jsonb_typeof(aps), 'object') <> 'object' THEN
        PERFORM pgpush_refuse('PN043', field, format('aps is a JSON %s, not an object', jsonb_typeof(aps)),
            'Leave aps out, or give it as an object.');
    END IF;
    PERFORM pgpush_check_aps_forms(n, aps, field);
    IF aps -> 'mutable-content' = '1' AND NOT pgpush_shows(aps -> 'alert') THEN
        PERFORM pgpush_refuse('PN042', CASE WHEN n.mutable_content THEN 'mutable_content' ELSE field END,
            'mutable-content without an alert', 'Apple calls the extension only for what is shown: give a title or body too.');
    END IF;

    CASE n.push_type
    WHEN 'background' THEN
        SELECT key INTO bad FROM jsonb_each(aps) WHERE key <> 'content-available' AND value <> 'null' ORDER BY key LIMIT 1;
        IF FOUND THEN
            PERFORM pgpush_refuse('PN039', CASE
                    WHEN field = 'raw_payload' OR n.aps ? bad THEN field
                    WHEN bad = 'alert' THEN 'title'
                    ELSE replace(bad, '-', '_') END,
                format('a background push with %s in aps', bad),
                'It only wakes the app: put values into data, or set push_type to alert and content_available to true.');
        ELSIF coalesce(aps -> 'content-available', 'null') <> '1' THEN
            PERFORM pgpush_refuse('PN039', field, 'a background push without content-available 1 in aps',
                'Leave the key out of aps: it is set. In a raw_payload it must stand.');
        END IF;
    WHEN 'liveactivity' THEN
        PERFORM pgpush_check_activity(n, aps, field);
    WHEN 'widgets', 'controls' THEN
        IF coalesce(aps -> 'content-changed', 'null') <> 'true' THEN
            PERFORM pgpush_refuse('PN040', field, format('push_type %s without content-changed true in aps', n.push_type),
                'Leave the key out of aps: it is set. In a raw_payload it must stand.');
        END IF;
    WHEN 'accessory' THEN
        SELECT string_agg(k, ', ') INTO bad FROM unnest('{encryptedData,sessionIdentifier,keyID,messageIndex}'::text[]) k
        WHERE coalesce(aps -> k, 'null') = 'null';
        IF bad IS NOT NULL THEN
            PERFORM pgpush_refuse('PN041', field, 'push_type accessory without ' || bad || ' in aps',
                'Give encryptedData, sessionIdentifier, keyID and messageIndex, as the accessory''s session has them.');
        END IF;
    ELSE
        NULL;
    END CASE;
END
$$;
COMMENT ON FUNCTION pgpush_check_aps(scheduled_notifications, jsonb, text) IS
    'Internal: checks the aps dictionary against Apple''s rules for the push type; the last argument is the column to name.';

-- aps of a raw payload, which is sent byte for byte: what jsonb cannot hold (\u0000, half a surrogate pair) is not looked into.
CREATE OR REPLACE FUNCTION pgpush_check_raw(n scheduled_notifications) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    aps jsonb;
BEGIN
    IF n.push_type = 'mdm' THEN
        IF n.raw_payload -> 'aps' IS NOT NULL OR coalesce(json_typeof(n.raw_payload -> 'mdm'), '') <> 'string' THEN
            PERFORM pgpush_refuse('PN033', 'raw_payload', 'raw_payload of an MDM push needs a text in mdm, and no aps',
                'It is {"mdm": "<push magic>"}, the value that the device sent in its TokenUpdate.');
        END IF;
        RETURN;
    END IF;
    BEGIN
        aps := (n.raw_payload -> 'aps')::jsonb;
    EXCEPTION WHEN data_exception THEN
        RETURN;
    END;
    -- An empty object updates a wallet pass.
    IF n.push_type <> 'alert' OR aps IS NOT NULL THEN
        PERFORM pgpush_check_aps(n, coalesce(aps, '{}'), 'raw_payload');
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_check_raw(scheduled_notifications) IS 'Internal: checks a raw payload against Apple''s rules.';

CREATE OR REPLACE FUNCTION pgpush_shows(alert jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE jsonb_typeof(alert) WHEN 'object' THEN alert <> '{}' WHEN 'string' THEN alert <> '""' ELSE false END
$$;
COMMENT ON FUNCTION pgpush_shows(jsonb) IS 'Internal: whether an alert has something to show.';

CREATE OR REPLACE FUNCTION pgpush_check_aps_forms(n scheduled_notifications, aps jsonb, field text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    k text; v jsonb; kind text; fault text;
BEGIN
    FOR k, v IN SELECT key, value FROM jsonb_each(aps) WHERE value <> 'null' LOOP
        kind := jsonb_typeof(v);
        fault := NULL;
        CASE k
        WHEN 'interruption-level' THEN
            IF v NOT IN ('"passive"', '"active"', '"time-sensitive"', '"critical"') THEN
                PERFORM pgpush_refuse('PN026', field, format('interruption-level %s is unknown', v),
                    'It is passive, active, time-sensitive or critical.');
            END IF;
        WHEN 'relevance-score' THEN
            IF kind <> 'number' OR (n.push_type <> 'liveactivity' AND NOT v BETWEEN '0' AND '1') THEN
                PERFORM pgpush_refuse('PN027', field, format('relevance-score %s is out of range', v),
                    'It is a number from 0 to 1; for a Live Activity any finite number.');
            END IF;
        WHEN 'badge' THEN
            IF kind <> 'number' OR v < '0' OR v::text::numeric <> trunc(v::text::numeric) THEN
                PERFORM pgpush_refuse('PN028', field, format('badge %s is not a whole number from 0', left(v::text, 40)),
                    'Use 0 to clear the badge; leave it out to leave the badge alone.');
            END IF;
        WHEN 'alert' THEN fault := CASE WHEN kind NOT IN ('object', 'string') THEN 'is neither an object nor a text' END;
            IF kind = 'object' THEN
                SELECT format('.%s is a JSON %s', e.key, jsonb_typeof(e.value)) INTO fault FROM jsonb_each(v) e
                WHERE e.value <> 'null' AND NOT CASE
                    WHEN e.key IN ('title-loc-args', 'subtitle-loc-args', 'loc-args') THEN jsonb_typeof(e.value) = 'array'
                    WHEN e.key IN ('subtitle', 'launch-image', 'title-loc-key', 'subtitle-loc-key', 'loc-key')
                        THEN jsonb_typeof(e.value) = 'string'
                    -- A Live Activity's title and body may be localised by an object.
                    WHEN e.key IN ('title', 'body') THEN jsonb_typeof(e.value) = 'string'
                        OR (n.push_type = 'liveactivity' AND jsonb_typeof(e.value) = 'object')
                    ELSE true END
                ORDER BY e.key LIMIT 1;
            END IF;
        WHEN 'sound' THEN fault := CASE
            WHEN kind NOT IN ('object', 'string') THEN 'is neither an object nor a text'
            WHEN kind = 'string' THEN NULL
            WHEN coalesce(v -> 'critical', '0') NOT IN ('0', '1') THEN '.critical is neither 0 nor 1'
            WHEN coalesce(jsonb_typeof(v -> 'name'), 'string') <> 'string' THEN '.name is not a text'
            WHEN v -> 'volume' IS NOT NULL AND (jsonb_typeof(v -> 'volume') <> 'number' OR NOT v -> 'volume' BETWEEN '0' AND '1')
                THEN '.volume is not a number from 0 to 1' END;
        WHEN 'content-available', 'mutable-content' THEN fault := CASE WHEN v NOT IN ('0', '1') THEN 'is not the number 1' END;
        WHEN 'thread-id', 'category', 'target-content-id', 'filter-criteria' THEN
            fault := CASE WHEN kind <> 'string' THEN 'is not a text' END;
        ELSE NULL;
        END CASE;
        IF fault IS NOT NULL THEN
            PERFORM pgpush_refuse('PN043', field,
                'aps.' || k || CASE WHEN left(fault, 1) = '.' THEN '' ELSE ' ' END || fault,
                'See Apple''s table of the keys of aps; leave out what you do not need.');
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION pgpush_check_aps_forms(scheduled_notifications, jsonb, text) IS
    'Internal: checks that the values of the aps dictionary have the forms that Apple documents.';

CREATE OR REPLACE FUNCTION pgpush_check_activity(n scheduled_notifications, aps jsonb, field text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    bad text;
BEGIN
    IF coalesce(aps ->> 'event', '') NOT IN ('start', 'update', 'end') THEN
        PERFORM pgpush_refuse('PN037', field, 'a Live Activity without event start, update or end in aps',
            'Set aps to, for example, {"event": "update", "content-state": {…}}.');
    END IF;
    IF jsonb_typeof(aps -> 'content-state') <> 'object' OR (NOT aps ? 'content-state' AND aps ->> 'event' <> 'end') THEN
        PERFORM pgpush_refuse('PN037', field, 'a Live Activity whose content-state is not an object',
            'content-state is what the app''s ContentState is decoded from; only an end may do without.');
    END IF;
    SELECT k INTO bad FROM unnest('{timestamp,stale-date,dismissal-date}'::text[]) k
    WHERE jsonb_typeof(aps -> k) <> 'number' OR (k = 'timestamp' AND NOT aps ? k);
    IF FOUND THEN
        PERFORM pgpush_refuse('PN037', field, format('a Live Activity whose %s is not a number', bad),
            'It is a time in seconds since 1970. Without a timestamp in aps the due time is taken; a raw_payload needs its own.');
    END IF;

    IF aps ->> 'event' = 'start' THEN
        IF n.channel_id IS NOT NULL THEN
            PERFORM pgpush_refuse('PN038', 'channel_id', 'a channel cannot start a Live Activity',
                'Start it by a push-to-start token in device_tokens, with input-push-channel in aps.');
        ELSIF coalesce(jsonb_typeof(aps -> 'attributes-type'), '') <> 'string'
            OR coalesce(jsonb_typeof(aps -> 'attributes'), '') <> 'object' THEN
            PERFORM pgpush_refuse('PN038', field, 'a start of a Live Activity without attributes-type and attributes',
                'They are the name of the app''s ActivityAttributes type, and an object that it is decoded from.');
        ELSIF NOT pgpush_shows(aps -> 'alert') THEN
            PERFORM pgpush_refuse('PN038', CASE WHEN field = 'aps' THEN 'title' ELSE field END,
                'a start of a Live Activity without an alert', 'Give title and body: the person is told of the new activity.');
        ELSIF aps ? 'input-push-token' AND aps ? 'input-push-channel' THEN
            PERFORM pgpush_refuse('PN038', field, 'a start of a Live Activity with input-push-token and input-push-channel',
                'The activity gets its updates by one of them: give that one.');
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_check_activity(scheduled_notifications, jsonb, text) IS
    'Internal: checks the aps dictionary of a Live Activity.';
