-- How long a worker may sleep, by the clock of the database.

CREATE OR REPLACE FUNCTION next_due(p_apps text[]) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
AS $$
DECLARE
    v_app text;
    due timestamptz;
BEGIN
    -- Each is a probe of the head of an index.
    FOREACH v_app IN ARRAY coalesce(p_apps, '{}') LOOP
        due := least(due, (SELECT min(p.next_probe_at) FROM app_pauses p WHERE p.app = v_app AND p.automatic
                           AND NOT pgpush_is_held(p.app, p.environment, p.topic)));
        CONTINUE WHEN pgpush_is_paused(v_app);
        IF EXISTS (SELECT FROM scheduled_notifications n WHERE n.app = v_app AND n.walking) THEN
            RETURN 0;
        END IF;
        due := least(due,
            (SELECT n.scheduled_at FROM scheduled_notifications n WHERE n.app = v_app AND n.status = 'pending' AND NOT n.broadcast
             ORDER BY n.scheduled_at LIMIT 1),
            (SELECT n.scheduled_at FROM scheduled_notifications n WHERE n.app = v_app AND n.status = 'pending' AND n.broadcast
             ORDER BY n.scheduled_at LIMIT 1),
            (SELECT b.not_before FROM notification_batches b WHERE b.app = v_app AND b.state = 'ready'
             ORDER BY b.not_before LIMIT 1),
            -- left parked by a resume, which frees them in lots
            (SELECT now() FROM notification_batches b WHERE b.app = v_app AND b.state = 'parked'
               AND NOT EXISTS (SELECT FROM app_pauses p WHERE p.app = v_app) LIMIT 1),
            -- Leases that will be lost, with the grace of a rescue, unless they are renewed before. A hundred of each tell: of what
            -- one worker held, the first are as old as the rest.
            (SELECT min(x.lease_until) + interval '15 s'
             FROM (SELECT n.lease_until FROM scheduled_notifications n
                   WHERE n.app = v_app AND n.status = 'sending' AND n.lease_until IS NOT NULL ORDER BY n.id LIMIT 100) x),
            (SELECT min(x.lease_until) + interval '15 s'
             FROM (SELECT b.lease_until FROM notification_batches b
                   WHERE b.app = v_app AND b.state = 'leased'
                     AND (SELECT n.status FROM scheduled_notifications n WHERE n.id = b.notification_id) = 'sending' LIMIT 100) x));
    END LOOP;
    -- Whole milliseconds, rounded up: waking a moment too early would only find nothing. A time without end, which only rows that
    -- came past the triggers have, cannot be counted.
    RETURN CASE WHEN due = '-infinity' THEN 0 WHEN due = 'infinity' THEN NULL WHEN due IS NOT NULL THEN greatest(ceil(extract(epoch FROM due - clock_timestamp()) * 1000), 0)::bigint END;
END
$$;
COMMENT ON FUNCTION next_due(text[]) IS
    'Worker: milliseconds until something of these apps is due or a lease is lost unless it is renewed, 0 = now, null = nothing is planned. Paused apps do not count.';
