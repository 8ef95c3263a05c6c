-- Rescue: units whose lease ended without being settled. Their worker is dead, frozen or cut off.

DROP FUNCTION IF EXISTS pgpush_rescue_direct(uuid, text, integer, interval, interval);
DROP FUNCTION IF EXISTS pgpush_lost_batches(text, integer, interval);

CREATE OR REPLACE FUNCTION pgpush_rescue_direct(
    p_owner uuid, p_app text, p_limit integer, p_lease interval, p_before timestamptz, p_spared uuid[])
    RETURNS SETOF pgpush_unit LANGUAGE plpgsql
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
AS $$
DECLARE
    lost  bigint[]; once bigint[]; late bigint[];
    lone  bigint;
BEGIN
    SELECT array_agg(x.id) FILTER (WHERE NOT x.once AND NOT x.late), array_agg(x.id) FILTER (WHERE x.once),
           array_agg(x.id) FILTER (WHERE x.late AND NOT x.once) INTO lost, once, late
    FROM (SELECT n.id, n.delivery = 'at_most_once' AS once, n.given_up OR coalesce(n.expires_at < now(), false) AS late
          FROM scheduled_notifications n
          WHERE n.app = p_app AND n.status = 'sending' AND n.lease_until < p_before AND n.owner <> ALL (p_spared)
          ORDER BY n.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED) x;
    -- At most once: what may have been sent is not sent again.
    FOREACH lone IN ARRAY coalesce(once, '{}') LOOP
        PERFORM pgpush_book_unknown(lone, 0, 'Worker lost');
    END LOOP;
    -- Past expires_at, or given up, nothing is sent any more.
    FOREACH lone IN ARRAY coalesce(late, '{}') LOOP
        UPDATE scheduled_notifications n SET epoch = n.epoch + 1, lease_until = NULL, updated_at = now()
        WHERE n.id = lone;
        PERFORM pgpush_finish(lone);
    END LOOP;
    RETURN QUERY
        UPDATE scheduled_notifications n
        SET owner = p_owner, epoch = n.epoch + 1, lease_until = now() + p_lease, updated_at = now()
        WHERE n.id = ANY (lost)
        RETURNING n.id, 0, n.epoch, 1, n.app, n.environment, n.push_type,
            coalesce(n.priority, CASE n.push_type WHEN 'background' THEN 5 ELSE 10 END)::smallint, n.topic,
            coalesce(n.collapse_id, CASE n.push_type WHEN 'alert' THEN 'pgpush-' || n.id END),
            n.expires_at, n.store_if_offline, n.delivery = 'at_most_once', n.channel_id, n.payload,
            NULL::int, n.scheduled_at;
END
$$;
COMMENT ON FUNCTION pgpush_rescue_direct(uuid, text, integer, interval, timestamptz, uuid[]) IS
    'Internal: takes over directly leased notifications whose lease ended before the given time, unless their owner is spared; those to be sent at most once are booked as unknown, expired and given up ones end.';

CREATE OR REPLACE FUNCTION pgpush_lost_batches(
    p_app text, p_limit integer, p_before timestamptz, p_spared uuid[], OUT picked bigint[], OUT numbers integer[])
    LANGUAGE plpgsql
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    r record;
BEGIN
    picked := '{}'; numbers := '{}';
    FOR r IN
        SELECT b.notification_id, b.batch_no, n.delivery, n.given_up OR coalesce(n.expires_at < now(), false) AS late
        FROM notification_batches b JOIN scheduled_notifications n ON n.id = b.notification_id
        WHERE b.app = p_app AND b.state = 'leased' AND b.lease_until < p_before AND b.owner <> ALL (p_spared)
          AND n.status || '' = 'sending'  -- hidden from the planner, see claim_batches
        LIMIT p_limit FOR NO KEY UPDATE OF b SKIP LOCKED FOR SHARE OF n SKIP LOCKED
    LOOP
        IF r.delivery = 'at_most_once' THEN
            PERFORM pgpush_book_unknown(r.notification_id, r.batch_no, 'Worker lost');
        ELSIF r.late THEN
            -- Given up; the sweep ends the notification.
            UPDATE notification_batches b SET state = 'abandoned', epoch = b.epoch + 1, lease_until = NULL, finished_at = now()
            WHERE b.notification_id = r.notification_id AND b.batch_no = r.batch_no;
        ELSE
            picked := picked || r.notification_id; numbers := numbers || r.batch_no;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION pgpush_lost_batches(text, integer, timestamptz, uuid[]) IS
    'Internal: locks batches whose lease ended before the given time, for the caller to take, unless their owner is spared; those to be sent at most once are booked as unknown, expired ones and what Apple refuses for everybody given up.';

CREATE OR REPLACE FUNCTION pgpush_book_unknown(p_notification bigint, p_batch integer, p_reason text) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
DECLARE
    me      constant uuid := gen_random_uuid();
    unit    int;
    ids     bigint[] := '{}'; tokens text[] := '{}'; environments text[] := '{}';
    r       record;
BEGIN
    -- A lease of our own first: it fences the lost worker off, and the books are kept by settle alone.
    IF p_batch = 0 THEN
        UPDATE scheduled_notifications n SET owner = me, epoch = n.epoch + 1, lease_until = now()
        WHERE n.id = p_notification RETURNING n.epoch INTO unit;
    ELSE
        UPDATE notification_batches b SET owner = me, epoch = b.epoch + 1, lease_until = now()
        WHERE b.notification_id = p_notification AND b.batch_no = p_batch RETURNING b.epoch INTO unit;
    END IF;
    FOR r IN SELECT * FROM expand(ARRAY[p_notification], ARRAY[p_batch], 2147483647) LOOP
        ids := ids || r.device_ids;
        tokens := tokens || CASE WHEN r.device_ids = '{0}' THEN ARRAY[''] ELSE string_to_array(r.device_tokens, ' ') END;
        environments := environments || array_fill(r.environment, ARRAY[cardinality(r.device_ids)]);
    END LOOP;
    PERFORM settle(me, ARRAY[p_notification], ARRAY[p_batch], ARRAY[unit], '{true}', '{null}', '{0}', '{0}',
        ARRAY[cardinality(ids)], '{0}', ARRAY[p_reason],
        l_unit => array_fill(1, ARRAY[cardinality(ids)]), l_device => ids, l_token => tokens, l_environment => environments,
        l_status => array_fill(0, ARRAY[cardinality(ids)]), l_reason => array_fill(p_reason, ARRAY[cardinality(ids)]),
        l_final => array_fill(true, ARRAY[cardinality(ids)]), l_age_ms => array_fill(0, ARRAY[cardinality(ids)]));
END
$$;
COMMENT ON FUNCTION pgpush_book_unknown(bigint, integer, text) IS
    'Internal: ends a unit whose worker is gone without sending it again: its devices may have been sent to, and are booked as unknown.';
