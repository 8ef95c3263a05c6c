-- Settle: what became of leased units, in one statement and one transaction.
--
-- Measured (PostgreSQL 15, two busy cores): 500 singles 12 ms, 100 batches 7 ms, 8,000 ledger rows 90 ms, 8,000 deactivations 580 ms.
--
-- Arrays by prefix: u_ one element a unit, l_ a ledger row, d_ a deactivation, b_ a batch of devices to be sent again (later,
-- when a pause ends, or never), r_ a device of such a batch, p_ a scope to pause, s_ a scope that was sent to, w_ what Apple answered
-- to a unit there, g_ a deactivation that is only proposed. …_unit and …_scope count from 1.
-- Fence: a unit is applied only for the owner and epoch that hold its lease; the second time it is 'already'; otherwise 'fenced',
-- and nothing of it is applied but its deactivations, which are facts.
-- Locks: notifications, then batches, then devices, then windows, then pauses, each ascending. Finishing what has batches is finalise's,
-- in a transaction of its own: here the last two batches of a notification would not see each other.
-- Whether a row is leased is asked of lease_until, not of its state: a condition on the state would offer the planner the index of
-- what is open, and without statistics it takes that instead of the key.

DROP FUNCTION IF EXISTS settle(uuid, bigint[], integer[], integer[], boolean[], bigint[], integer[], integer[], integer[], integer[],
    text[], integer[], bigint[], text[], text[], integer[], text[], boolean[], integer[], integer[], bigint[], text[], timestamptz[],
    integer[], integer[], text[], boolean[], integer[], text[], text[], integer[], bigint[], text[], text[], text[], text[]);
CREATE OR REPLACE FUNCTION settle(
    p_owner uuid,
    u_notification bigint[], u_batch integer[], u_epoch integer[], u_done boolean[], u_done_through bigint[],
    u_accepted integer[], u_rejected integer[], u_unknown integer[], u_accepted_age_ms integer[], u_error text[],
    l_unit integer[] DEFAULT '{}', l_device bigint[] DEFAULT '{}', l_token text[] DEFAULT '{}', l_environment text[] DEFAULT '{}',
    l_status integer[] DEFAULT '{}', l_reason text[] DEFAULT '{}', l_final boolean[] DEFAULT '{}', l_age_ms integer[] DEFAULT '{}',
    d_unit integer[] DEFAULT '{}', d_device bigint[] DEFAULT '{}', d_reason text[] DEFAULT '{}',
    d_before timestamptz[] DEFAULT '{}', d_age_ms integer[] DEFAULT '{}',
    b_unit integer[] DEFAULT '{}', b_state text[] DEFAULT '{}', b_charged boolean[] DEFAULT '{}', b_delay_ms integer[] DEFAULT '{}',
    b_environment text[] DEFAULT '{}', b_topic text[] DEFAULT '{}',
    r_batch integer[] DEFAULT '{}', r_device bigint[] DEFAULT '{}',
    p_pause_app text[] DEFAULT '{}', p_pause_environment text[] DEFAULT '{}', p_pause_topic text[] DEFAULT '{}',
    p_pause_reason text[] DEFAULT '{}',
    s_app text[] DEFAULT '{}', s_environment text[] DEFAULT '{}', s_topic text[] DEFAULT '{}',
    w_unit integer[] DEFAULT '{}', w_scope integer[] DEFAULT '{}', w_accepted integer[] DEFAULT '{}', w_answered integer[] DEFAULT '{}',
    g_unit integer[] DEFAULT '{}', g_scope integer[] DEFAULT '{}', g_device bigint[] DEFAULT '{}', g_reason text[] DEFAULT '{}',
    g_age_ms integer[] DEFAULT '{}')
    RETURNS TABLE (unit integer, result text, status text) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    units    constant int := coalesce(cardinality(u_notification), 0);
    results  text[] := array_fill(NULL::text, ARRAY[units]);   -- by unit
    statuses text[] := array_fill(NULL::text, ARRAY[units]);
    apps     text[] := array_fill(NULL::text, ARRAY[units]);
    attempts int[]  := array_fill(NULL::int, ARRAY[units]);
    numbers  int[]  := '{}';                                   -- by b_: the number of the new batch
    storm    token_windows;
    r record;
BEGIN
    IF b_unit <> '{}' OR 0 > ANY (l_device) THEN
        -- Numbers lock notifications, and so do direct units below: where both are at hand, all of them in one ascending pass.
        IF 0 = ANY (u_batch) AND (b_unit <> '{}' OR 0 < ANY (u_batch)) THEN
            PERFORM pgpush_settle_locks(u_notification, u_batch, b_unit, l_unit, l_device);
        END IF;
        numbers := pgpush_settle_numbers(p_owner, u_notification, u_batch, u_epoch, b_unit, l_unit, l_device);
    END IF;

    -- Direct units. Without devices to send again, the notification is finished in the same UPDATE; one whose tokens are only
    -- proposed as dead is finalise's, since in a storm they are sent to again.
    FOR r IN
        UPDATE scheduled_notifications n
        SET lease_until = CASE WHEN NOT u.done THEN greatest(n.lease_until, now() + interval '75 s') END,
            status = CASE WHEN NOT u.done OR u.again THEN n.status WHEN n.status = 'cancelling' THEN 'cancelled'
                          WHEN u.accepted > 0 THEN 'sent' WHEN u.rejected + u.unknown > 0 THEN 'failed'
                          WHEN n.expires_at < now() THEN 'expired' ELSE 'skipped' END,
            sent_at = CASE WHEN u.done AND NOT u.again AND u.accepted > 0 AND n.status = 'sending'
                           THEN now() - u.accepted_age * interval '1 ms' ELSE n.sent_at END,
            finished_at = CASE WHEN u.done AND NOT u.again THEN now() END,
            error = CASE WHEN u.accepted > 0 THEN NULL ELSE u.error END,
            -- with one that is more than 0 it has rows in notification_batches
            batch_seq = CASE WHEN u.done AND u.again THEN greatest(n.batch_seq, 1) ELSE n.batch_seq END,
            device_count = n.device_count + CASE WHEN u.done THEN u.accepted + u.rejected + u.unknown ELSE 0 END,
            accepted_count = n.accepted_count + CASE WHEN u.done THEN u.accepted ELSE 0 END,
            rejected_count = n.rejected_count + CASE WHEN u.done THEN u.rejected ELSE 0 END,
            unknown_count = n.unknown_count + CASE WHEN u.done THEN u.unknown ELSE 0 END,
            updated_at = now()
        FROM (SELECT x.o::int AS o, x.notification, x.epoch, x.done, x.o = ANY (b_unit) OR x.o = ANY (g_unit) AS again, x.error,
                     coalesce(x.accepted, 0) AS accepted, coalesce(x.rejected, 0) AS rejected,
                     coalesce(x.unknown, 0) AS unknown, coalesce(x.accepted_age, 0) AS accepted_age
              FROM unnest(u_notification, u_batch, u_epoch, u_done, u_accepted, u_rejected, u_unknown, u_accepted_age_ms, u_error)
                   WITH ORDINALITY x(notification, batch, epoch, done, accepted, rejected, unknown, accepted_age, error, o)
              WHERE x.batch = 0 ORDER BY x.notification) u
        WHERE n.id = u.notification AND n.owner = p_owner AND n.epoch = u.epoch AND n.lease_until IS NOT NULL
        RETURNING u.o, n.app, n.status
    LOOP
        results[r.o] := 'applied'; apps[r.o] := r.app; attempts[r.o] := 1; statuses[r.o] := r.status;
    END LOOP;

    -- Batches. Counts are increments; a checkpoint must move the watermark on, or it has been applied already.
    FOR r IN
        UPDATE notification_batches b
        SET state = CASE WHEN u.done THEN 'done' ELSE 'leased' END,
            done_through = CASE WHEN u.done THEN coalesce(u.done_through, b.done_through) ELSE u.done_through END,
            lease_until = CASE WHEN NOT u.done THEN greatest(b.lease_until, now() + interval '75 s') END,
            accepted_count = b.accepted_count + u.accepted, rejected_count = b.rejected_count + u.rejected,
            unknown_count = b.unknown_count + u.unknown,
            device_count = CASE WHEN u.done THEN b.accepted_count + b.rejected_count + b.unknown_count
                                                 + u.accepted + u.rejected + u.unknown ELSE b.device_count END,
            last_accepted_at = CASE WHEN u.accepted > 0
                THEN greatest(b.last_accepted_at, now() - u.accepted_age * interval '1 ms') ELSE b.last_accepted_at END,
            error = coalesce(u.error, b.error), finished_at = CASE WHEN u.done THEN now() END
        FROM (SELECT x.o::int AS o, x.notification, x.batch, x.epoch, x.done, x.done_through, x.error,
                     coalesce(x.accepted, 0) AS accepted, coalesce(x.rejected, 0) AS rejected,
                     coalesce(x.unknown, 0) AS unknown, coalesce(x.accepted_age, 0) AS accepted_age
              FROM unnest(u_notification, u_batch, u_epoch, u_done, u_done_through, u_accepted, u_rejected, u_unknown,
                          u_accepted_age_ms, u_error) WITH ORDINALITY
                   x(notification, batch, epoch, done, done_through, accepted, rejected, unknown, accepted_age, error, o)
              WHERE x.batch > 0 ORDER BY x.notification, x.batch) u
        WHERE b.notification_id = u.notification AND b.batch_no = u.batch AND b.owner = p_owner AND b.epoch = u.epoch
          AND b.lease_until IS NOT NULL AND (u.done OR abs(u.done_through) > abs(b.done_through))
        RETURNING u.o, b.app, b.attempts
    LOOP
        results[r.o] := 'applied'; apps[r.o] := r.app; attempts[r.o] := r.attempts;
    END LOOP;

    -- Parents' statuses for all, and for what was not applied: done before by the same lease, or fenced off.
    FOR r IN
        SELECT x.o::int AS o, n.status, CASE WHEN x.batch = 0 THEN n.owner = p_owner AND n.epoch = x.epoch
                                             ELSE b.owner = p_owner AND b.epoch = x.epoch END AS mine
        FROM unnest(u_notification, u_batch, u_epoch) WITH ORDINALITY x(notification, batch, epoch, o)
        LEFT JOIN scheduled_notifications n ON n.id = x.notification
        LEFT JOIN notification_batches b ON x.batch > 0 AND b.notification_id = x.notification AND b.batch_no = x.batch
        WHERE x.batch > 0 OR results[x.o] IS NULL
    LOOP
        statuses[r.o] := r.status;
        results[r.o] := coalesce(results[r.o], CASE WHEN r.mine THEN 'already' ELSE 'fenced' END);
    END LOOP;

    IF b_unit <> '{}' OR g_unit <> '{}' THEN
        PERFORM pgpush_settle_again(u_notification, u_batch, u_epoch, u_accepted, u_rejected, u_unknown, u_accepted_age_ms,
            u_done, p_owner, results, statuses, apps, attempts, numbers,
            b_unit, b_state, b_charged, b_delay_ms, b_environment, b_topic, r_batch, r_device, g_unit);
    END IF;
    IF l_unit <> '{}' OR g_unit <> '{}' THEN
        PERFORM pgpush_settle_ledger(u_notification, u_batch, results, apps, attempts,
            l_unit, l_device, l_token, l_environment, l_status, l_reason, l_final, l_age_ms, d_unit, d_device, g_unit, g_device);
    END IF;
    IF d_device <> '{}' THEN
        PERFORM pgpush_deactivate(u_notification, d_unit, d_device, d_reason, d_before, d_age_ms);
    END IF;
    -- What Apple answers is counted only while something is proposed in its scope: as a rule nothing is locked or written here.
    IF g_unit <> '{}' OR (w_unit <> '{}' AND EXISTS (SELECT FROM token_windows t WHERE t.app = ANY (s_app))) THEN
        FOR storm IN SELECT * FROM pgpush_settle_windows(u_notification, u_batch, results, s_app, s_environment, s_topic,
            w_unit, w_scope, w_accepted, w_answered, g_unit, g_scope, g_device, g_reason, g_age_ms)
        LOOP
            p_pause_app := p_pause_app || storm.app; p_pause_environment := p_pause_environment || storm.environment;
            p_pause_topic := p_pause_topic || storm.topic; p_pause_reason := p_pause_reason || storm.reason;
        END LOOP;
    END IF;
    IF p_pause_app <> '{}' THEN
        PERFORM pgpush_pause(p_pause_app, p_pause_environment, p_pause_topic, p_pause_reason);
    END IF;
    RETURN QUERY SELECT i, results[i], statuses[i] FROM generate_series(1, units) i;
END
$$;
COMMENT ON FUNCTION settle IS
    'Worker: books the outcome of leased units. Returns for each unit applied, already (the same report came before) or fenced (the lease was lost), and the status of its notification.';
