-- How long a worker may sleep, by the clock of the database.

CREATE OR REPLACE FUNCTION next_due(p_apps text[]) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
AS $$
DECLARE
    v_app text;
    due timestamptz;
BEGIN
    -- Each is one probe of the head of an index.
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
               AND NOT EXISTS (SELECT FROM app_pauses p WHERE p.app = v_app) LIMIT 1));
    END LOOP;
    -- Whole milliseconds, rounded up: waking a moment too early would only find nothing. A time without end, which only rows that
    -- came past the triggers have, cannot be counted.
    RETURN CASE WHEN due = '-infinity' THEN 0 WHEN due = 'infinity' THEN NULL WHEN due IS NOT NULL THEN greatest(ceil(extract(epoch FROM due - clock_timestamp()) * 1000), 0)::bigint END;
END
$$;
COMMENT ON FUNCTION next_due(text[]) IS
    'Worker: milliseconds until something of these apps is due, 0 = now, null = nothing is planned. Paused apps do not count.';

CREATE OR REPLACE FUNCTION next_lost(p_apps text[], p_grace interval DEFAULT '15 seconds') RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_app text;
    ends  timestamptz;
BEGIN
    -- No index holds lease_until, so all that is leased is read: as much as is in work, once a minute and process.
    FOREACH v_app IN ARRAY coalesce(p_apps, '{}') LOOP
        CONTINUE WHEN pgpush_is_paused(v_app);
        ends := least(ends,
            (SELECT min(b.lease_until) FROM notification_batches b WHERE b.app = v_app AND b.state = 'leased'),
            (SELECT min(n.lease_until) FROM scheduled_notifications n WHERE n.app = v_app AND n.status = 'sending'));
    END LOOP;
    RETURN CASE WHEN ends IS NOT NULL THEN greatest(ceil(extract(epoch FROM ends + p_grace - clock_timestamp()) * 1000), 0)::bigint END;
END
$$;
COMMENT ON FUNCTION next_lost(text[], interval) IS
    'Worker: milliseconds until the first lease of these apps, unless it is renewed, has been over for p_grace and its unit can be rescued; 0 = now, null = nothing is leased.';
