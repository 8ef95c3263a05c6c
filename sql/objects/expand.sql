-- Expand: from leased units to device tokens. One row for each unit and environment, ids ascending (positions of tokens likewise),
-- only active devices that still belong to the audience, and only those above what the unit has settled already. A blank in a token
-- that came past the triggers would shift all that follow: it becomes a line, and the worker refuses that one device.

CREATE OR REPLACE FUNCTION expand(p_notifications bigint[], p_batches integer[], p_limit integer)
    RETURNS TABLE (unit integer, environment text, device_ids bigint[], device_tokens text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    users int[]; lists int[]; ranges int[]; arrays int[]; channels int[];
    apps text[]; user_ids text[]; environments text[];
    u int;
BEGIN
    SELECT array_agg(x.o) FILTER (WHERE x.batch = 0 AND n.user_id IS NOT NULL),
           array_agg(x.o) FILTER (WHERE x.batch = 0 AND (n.user_ids <> '{}' OR n.device_tokens <> '{}')),
           array_agg(x.o) FILTER (WHERE x.batch = 0 AND n.channel_id IS NOT NULL),
           array_agg(x.o) FILTER (WHERE b.through_id IS NOT NULL),
           array_agg(x.o) FILTER (WHERE b.device_ids IS NOT NULL),
           array_agg(n.app ORDER BY x.o), array_agg(n.user_id ORDER BY x.o), array_agg(n.environment ORDER BY x.o)
    INTO users, lists, channels, ranges, arrays, apps, user_ids, environments
    FROM unnest(p_notifications, p_batches) WITH ORDINALITY x(notification, batch, o)
    LEFT JOIN scheduled_notifications n ON n.id = x.notification
    LEFT JOIN notification_batches b ON x.batch > 0 AND b.notification_id = x.notification AND b.batch_no = x.batch;

    IF users IS NOT NULL THEN
        RETURN QUERY
            SELECT x.o, d.environment, array_agg(d.id ORDER BY d.id), string_agg(replace(d.device_token, ' ', '_'), ' ' ORDER BY d.id)
            FROM unnest(users) x(o), LATERAL (
                SELECT d.id, d.environment, d.device_token FROM devices d
                WHERE d.user_id = user_ids[x.o] AND d.app = apps[x.o] AND coalesce(d.is_active, false)
                  AND (environments[x.o] IS NULL OR d.environment = environments[x.o])
                ORDER BY d.id + 0 LIMIT p_limit) d  -- + 0: not by walking the primary key in search of this user
            GROUP BY 1, 2;
    END IF;
    IF ranges IS NOT NULL THEN
        RETURN QUERY
            SELECT x.o, e.environment, array_agg(d.id ORDER BY d.id), string_agg(replace(d.device_token, ' ', '_'), ' ' ORDER BY d.id)
            FROM unnest(ranges) x(o)
            JOIN notification_batches b ON b.notification_id = p_notifications[x.o] AND b.batch_no = p_batches[x.o]
            JOIN (VALUES ('production'), ('sandbox')) e(environment)
                ON environments[x.o] IS NULL OR e.environment = environments[x.o],
            LATERAL (
                SELECT d.id, d.device_token FROM devices d  -- id + 0: by the index of the walk, see there
                WHERE d.app = apps[x.o] AND d.environment = e.environment AND d.is_active
                  AND d.id + 0 > greatest(b.after_id, b.done_through) AND d.id + 0 <= b.through_id
                ORDER BY d.id + 0) d
            GROUP BY 1, 2;
    END IF;
    IF channels IS NOT NULL THEN
        RETURN QUERY
            SELECT x.o, coalesce(environments[x.o], pgpush_default_environment()), '{0}'::bigint[], ''
            FROM unnest(channels) x(o);
    END IF;
    FOREACH u IN ARRAY coalesce(lists, '{}') || coalesce(arrays, '{}') LOOP
        RETURN QUERY
            SELECT u, p.environment, array_agg(p.device ORDER BY abs(p.device)), string_agg(replace(p.token, ' ', '_'), ' ' ORDER BY abs(p.device))
            FROM pgpush_expand_list(p_notifications[u], p_batches[u], CASE p_batches[u] WHEN 0 THEN p_limit END) p
            GROUP BY 2;
    END LOOP;
END
$$;
COMMENT ON FUNCTION expand(bigint[], integer[], integer) IS
    'Worker: the devices of leased units: for each unit (numbered from 1) and environment the device numbers and, in the same order and joined by one blank, the tokens. At most p_limit devices of a notification that was claimed as a whole; a batch is read to its end.';

CREATE OR REPLACE FUNCTION pgpush_expand_list(p_notification bigint, p_batch integer, p_limit integer)
    RETURNS TABLE (device bigint, environment text, token text)
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    n      scheduled_notifications;
    ids    bigint[];
    done   bigint := 0;
    tokens text[];
BEGIN
    SELECT * INTO n FROM scheduled_notifications s WHERE s.id = p_notification;
    IF p_batch = 0 THEN
        ids := pgpush_audience(n);
    ELSE
        SELECT b.device_ids, abs(b.done_through) INTO ids, done FROM notification_batches b
        WHERE b.notification_id = p_notification AND b.batch_no = p_batch;
    END IF;

    IF ids = '{0}' THEN  -- a channel, to be tried again
        RETURN QUERY SELECT 0::bigint, coalesce(n.environment, pgpush_default_environment()), '';
        RETURN;
    END IF;
    IF ids[1] < 0 THEN
        tokens := n.device_tokens;
        RETURN QUERY
            SELECT x.id, coalesce(d.environment, n.environment, pgpush_default_environment()), tokens[-x.id]
            FROM unnest(ids) x(id) LEFT JOIN devices d ON d.app = n.app AND d.device_token = tokens[-x.id]
            WHERE -x.id > done AND tokens[-x.id] <> '' AND (d.id IS NULL OR
                  (d.is_active AND (n.environment IS NULL OR d.environment = n.environment)))
            ORDER BY -x.id LIMIT p_limit;
        RETURN;
    END IF;
    -- A device that has changed hands since the array was made no longer belongs to a person's audience.
    RETURN QUERY
        SELECT d.id, d.environment, d.device_token
        FROM unnest(ids) x(id) JOIN devices d ON d.id = x.id
        WHERE x.id > done AND d.app || '' = n.app AND coalesce(d.is_active, false)
          AND (n.environment IS NULL OR d.environment = n.environment)
          AND (n.user_id IS NULL OR d.user_id = n.user_id)
          AND (n.user_ids = '{}' OR d.user_id IN (SELECT unnest(n.user_ids)))
        ORDER BY x.id + 0 LIMIT p_limit;
END
$$;
COMMENT ON FUNCTION pgpush_expand_list(bigint, integer, integer) IS
    'Internal: the devices of one unit that is a list: a notification by user_ids or device_tokens, or a batch with an array of numbers.';
