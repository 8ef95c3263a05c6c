-- Claim: batches that are ready (lists, retries, freed by a resume), and the rescue of units whose worker is gone.
--
-- The notification is locked FOR SHARE with the batch, so that no batch is handed out after a cancel has returned. Both locks
-- skip what is locked: this call never waits. A rescue takes a new epoch, which fences the former owner off.
--
-- A notification is looked up by its id alone: n.status || '' hides the status from the planner, which would otherwise, planned
-- while there was little in work, walk the small index of what is open once for every batch.
--
-- Lateness (p_max_lateness) counts from the due time, or from when a broadcast was last cut or the notification was opened again: a batch
-- that is too late by that stays where it is until the sweep closes it. That time is returned as scheduled_at.

DROP FUNCTION IF EXISTS claim_batches(uuid, text[], integer, interval, boolean, interval);
CREATE OR REPLACE FUNCTION claim_batches(
    p_owner uuid, p_apps text[], p_limit integer, p_lease interval, p_rescue boolean DEFAULT false,
    p_grace interval DEFAULT '15 seconds', p_limits integer[] DEFAULT NULL, p_max_lateness interval[] DEFAULT NULL)
    RETURNS SETOF pgpush_unit LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    room    int := p_limit;
    part    int;                      -- what this app may take of it
    taken   int;
    bound   timestamptz;              -- due before: too late; null: nothing is
    picked  bigint[]; numbers int[];  -- notification and batch number, pairwise
    more    record;
    v_app   text;
    born    timestamptz;              -- when the caller first gave a sign of life
    lost    timestamptz;              -- leases that ended before are lost; null: none is looked for
    spared  uuid[] := '{}';           -- owners that are known to live
BEGIN
    IF p_rescue THEN
        lost := now() - p_grace;
    ELSE
        -- Whoever may not rescue, because its connection is young, may still take what is certainly lost; else a worker that is
        -- started, drains and ends would never rescue anything. A worker that was there when the lease ended is not meant: for
        -- it this could be the end of an outage that the owner is about to come back from. The same goes for a young server.
        born := coalesce((SELECT min(w.started_at) FROM pgpush_workers w WHERE w.owner = p_owner OR p_owner = ANY (w.owners)), now());
        IF born > now() - interval '2 minutes' AND pgpush_server_started() < now() - interval '2 minutes' THEN
            lost := least(now() - interval '5 minutes', born);
            spared := ARRAY(SELECT unnest(w.owner || coalesce(w.owners, '{}')) FROM pgpush_workers w
                            WHERE w.last_seen_at > now() - interval '3 minutes');
        END IF;
    END IF;
    FOR i IN 1 .. coalesce(cardinality(p_apps), 0) LOOP
        v_app := p_apps[i];
        part := least(room, p_limits[i]);
        bound := now() - p_max_lateness[i];
        CONTINUE WHEN part <= 0 OR pgpush_is_paused(v_app);
        picked := '{}'; numbers := '{}';
        IF lost IS NOT NULL THEN
            RETURN QUERY SELECT * FROM pgpush_rescue_direct(p_owner, v_app, (part + 1) / 2, p_lease, lost, spared);
            GET DIAGNOSTICS taken = ROW_COUNT;
            part := part - taken; room := room - taken;
            SELECT * INTO more FROM pgpush_lost_batches(v_app, (part + 1) / 2, lost, spared);
            picked := more.picked; numbers := more.numbers;
        END IF;
        -- What a resume has left parked, a lot at a time. Not while a narrower pause stands: that is for the sweep to look through.
        PERFORM pgpush_unpark(v_app) WHERE NOT EXISTS (SELECT FROM app_pauses p WHERE p.app = v_app);
        SELECT array_agg(x.notification_id) AS picked, array_agg(x.batch_no) AS numbers INTO more
        FROM (SELECT b.notification_id, b.batch_no
              FROM notification_batches b JOIN scheduled_notifications n ON n.id = b.notification_id
              WHERE b.app = v_app AND b.state = 'ready' AND b.not_before <= now()
                AND n.status || '' = 'sending' AND NOT n.given_up AND (n.expires_at IS NULL OR n.expires_at >= now())
                AND (bound IS NULL OR greatest(n.scheduled_at, n.served_at) >= bound)
              ORDER BY b.not_before LIMIT part - cardinality(picked)
              FOR NO KEY UPDATE OF b SKIP LOCKED FOR SHARE OF n SKIP LOCKED) x;
        picked := picked || more.picked; numbers := numbers || more.numbers;
        room := room - cardinality(picked);
        RETURN QUERY
            WITH b AS (
                UPDATE notification_batches y
                SET state = 'leased', owner = p_owner, epoch = y.epoch + 1, lease_until = now() + p_lease,
                    not_before = NULL, claimed_at = now()
                FROM unnest(picked, numbers) x(notification, number)
                WHERE y.notification_id = x.notification AND y.batch_no = x.number
                RETURNING y.notification_id, y.batch_no, y.epoch, y.attempts,
                    y.device_count - y.accepted_count - y.rejected_count - y.unknown_count AS remaining)
            SELECT n.id, b.batch_no, b.epoch, b.attempts, n.app, n.environment, n.push_type,
                coalesce(n.priority, CASE n.push_type WHEN 'background' THEN 5 ELSE 10 END)::smallint, n.topic,
                coalesce(n.collapse_id, CASE n.push_type WHEN 'alert' THEN 'pgpush-' || n.id END),
                n.expires_at, n.store_if_offline, n.delivery = 'at_most_once', n.channel_id, n.payload, b.remaining,
                greatest(n.scheduled_at, n.served_at)
            FROM b JOIN scheduled_notifications n ON n.id = b.notification_id;
    END LOOP;
END
$$;
COMMENT ON FUNCTION claim_batches(uuid, text[], integer, interval, boolean, interval, integer[], interval[]) IS
    'Worker: leases batches that are ready and due and not later than p_max_lateness, of each app at most its part of p_limits; with p_rescue also units whose lease ended more than p_grace ago, under a new epoch; without it, for a young worker, those whose lease ended more than five minutes ago and whose owner gave no sign of life for three.';

CREATE OR REPLACE FUNCTION pgpush_server_started() RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT pg_postmaster_start_time()
$$;
COMMENT ON FUNCTION pgpush_server_started() IS 'Internal: since when the server has been up.';
