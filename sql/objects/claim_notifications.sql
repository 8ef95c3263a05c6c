-- Claim: single users, lists and channels that are due. One short transaction hands out up to p_limit of them under a lease; of
-- each app at most p_limits, so that one with a million due rows leaves something to the others.
--
-- The walk over the due index is bounded below: by the lateness at which rows expire anyway, and by p_since and p_since_id, due time
-- and id of the first row of the caller's last full claim. Without it each claim walks over the dead entries that earlier claims
-- left at the head, which a held snapshot keeps from being cleaned away. The id matters where thousands are due at one instant.
-- Measured (PostgreSQL 15, two busy cores): 500 rows 11 ms, with their expand 5 ms and their settle 12 ms 21,000 rows/s by one client;
-- under a held snapshot, in a drain of 200,000 rows due at one instant, 13 ms with the bound and 45 ms without.
-- The plan must not depend on statistics: with a sort or a bitmap a claim reads everything that is due. Hence the settings.

DROP FUNCTION IF EXISTS claim_notifications(uuid, text[], interval[], integer, integer, interval, timestamptz[], bigint[]);
CREATE OR REPLACE FUNCTION claim_notifications(
    p_owner uuid, p_apps text[], p_max_lateness interval[], p_limit integer, p_batch_size integer, p_lease interval,
    p_since timestamptz[] DEFAULT NULL, p_since_id bigint[] DEFAULT NULL, p_limits integer[] DEFAULT NULL)
    RETURNS SETOF pgpush_unit LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    apps  constant int := coalesce(cardinality(p_apps), 0);
    first constant int := floor(random() * apps);  -- so that no app is always served last
    room  int := p_limit;
    part  int;  -- what this app may take of it
    i     int;
    bound timestamptz; bound_id bigint;
    found_ids bigint[]; late bigint[]; plain bigint[]; lists bigint[];
BEGIN
    FOR turn IN 0 .. apps - 1 LOOP
        i := (first + turn) % apps + 1;
        part := least(room, p_limits[i]);
        CONTINUE WHEN pgpush_is_paused(p_apps[i]);
        PERFORM pgpush_expire_late(p_apps[i], p_max_lateness[i], 2000);
        bound := now() - coalesce(p_max_lateness[i], interval '24 hours');
        bound_id := 0;
        IF p_since[i] > bound THEN
            bound := p_since[i];
            bound_id := coalesce(p_since_id[i], 0);
        END IF;
        -- An empty answer means that nothing is due: expired rows in front are no reason to stop.
        FOR round IN 1 .. 20 LOOP
            EXIT WHEN part <= 0;
            SELECT array_agg(id), array_agg(id) FILTER (WHERE expired),
                   array_agg(id) FILTER (WHERE NOT expired AND NOT list), array_agg(id) FILTER (WHERE NOT expired AND list)
            INTO found_ids, late, plain, lists
            FROM (SELECT n.id, coalesce(n.expires_at < now(), false) AS expired,
                         n.user_ids <> '{}' OR n.device_tokens <> '{}' AS list
                  FROM scheduled_notifications n
                  WHERE n.app = p_apps[i] AND n.status = 'pending' AND NOT n.broadcast AND n.scheduled_at <= now()
                    AND (n.scheduled_at, n.id) >= (bound, bound_id)
                  ORDER BY n.scheduled_at, n.id LIMIT part
                  FOR NO KEY UPDATE SKIP LOCKED) due;
            EXIT WHEN found_ids IS NULL;
            part := part - cardinality(found_ids); room := room - cardinality(found_ids);
            IF lists IS NOT NULL THEN
                plain := plain || pgpush_split_lists(p_owner, lists, p_batch_size);
            END IF;
            RETURN QUERY
                UPDATE scheduled_notifications n
                SET status = 'sending', owner = p_owner, epoch = n.epoch + 1, lease_until = now() + p_lease,
                    started_at = now(), updated_at = now()
                WHERE n.id = ANY (plain)
                RETURNING n.id, 0, n.epoch, 1, n.app, n.environment, n.push_type,
                    coalesce(n.priority, CASE n.push_type WHEN 'background' THEN 5 ELSE 10 END)::smallint, n.topic,
                    coalesce(n.collapse_id, CASE n.push_type WHEN 'alert' THEN 'pgpush-' || n.id END),
                    n.expires_at, n.store_if_offline, n.delivery = 'at_most_once', n.channel_id, n.payload,
                    NULL::int, n.scheduled_at;
            EXIT WHEN late IS NULL;
            PERFORM pgpush_expire(late);
            part := part + cardinality(late); room := room + cardinality(late);
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION claim_notifications(uuid, text[], interval[], integer, integer, interval, timestamptz[], bigint[], integer[]) IS
    'Worker: leases due single-user, list and channel notifications of the given apps, of each at most its part of p_limits, and returns what to send. Lists larger than a batch become ready batches instead.';

CREATE OR REPLACE FUNCTION pgpush_is_paused(app text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT count(p.environment) = 2 OR count(*) > count(p.environment)
    FROM app_pauses p WHERE p.app = pgpush_is_paused.app AND p.topic IS NULL
$$;
COMMENT ON FUNCTION pgpush_is_paused(text) IS 'Internal: whether the whole app is paused, by one pause or by one for each environment.';
