-- The queue in figures, for the metrics of a worker. What view queue_health says to people, bounded for a machine that asks every few
-- seconds: nothing is counted beyond p_limit, and each count is a walk over the head of an index.

CREATE OR REPLACE FUNCTION queue_figures(p_apps text[], p_limit integer DEFAULT 100000)
    RETURNS TABLE (app text, due_count bigint, oldest_due_age double precision, sending_count bigint, ready_batches bigint,
                   leased_batches bigint, parked_batches bigint, oldest_ready_age double precision, live_workers bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    FOREACH app IN ARRAY coalesce(p_apps, '{}') LOOP
        due_count := (SELECT count(*) FROM (
            SELECT FROM scheduled_notifications n WHERE n.app = queue_figures.app AND n.status = 'pending' AND NOT n.broadcast
               AND n.scheduled_at <= v_now LIMIT p_limit) x);
        due_count := least(p_limit, due_count + (SELECT count(*) FROM (
            SELECT FROM scheduled_notifications n WHERE n.app = queue_figures.app AND n.status = 'pending' AND n.broadcast
               AND n.scheduled_at <= v_now LIMIT p_limit) x));
        -- The head of each index; never an age of what is still to come. Rows that came past the triggers may have a time without end.
        oldest_due_age := greatest(0, extract(epoch FROM v_now - greatest('2000-01-01', least(
            (SELECT n.scheduled_at FROM scheduled_notifications n WHERE n.app = queue_figures.app AND n.status = 'pending'
               AND NOT n.broadcast ORDER BY n.scheduled_at LIMIT 1),
            (SELECT n.scheduled_at FROM scheduled_notifications n WHERE n.app = queue_figures.app AND n.status = 'pending'
               AND n.broadcast ORDER BY n.scheduled_at LIMIT 1), v_now))));
        sending_count := (SELECT count(*) FROM (
            SELECT FROM scheduled_notifications n WHERE n.app = queue_figures.app AND n.status IN ('sending', 'cancelling')
            LIMIT p_limit) x);
        ready_batches := (SELECT count(*) FROM (
            SELECT FROM notification_batches b WHERE b.app = queue_figures.app AND b.state = 'ready' LIMIT p_limit) x);
        leased_batches := (SELECT count(*) FROM (
            SELECT FROM notification_batches b WHERE b.app = queue_figures.app AND b.state = 'leased' LIMIT p_limit) x);
        parked_batches := (SELECT count(*) FROM (
            SELECT FROM notification_batches b WHERE b.app = queue_figures.app AND b.state = 'parked' LIMIT p_limit) x);
        oldest_ready_age := greatest(0, extract(epoch FROM v_now - greatest('2000-01-01', least(
            (SELECT b.not_before FROM notification_batches b WHERE b.app = queue_figures.app AND b.state = 'ready'
             ORDER BY b.not_before LIMIT 1), v_now))));
        live_workers := (SELECT count(*) FROM pgpush_workers w
                         WHERE queue_figures.app = ANY (w.apps) AND w.last_seen_at > v_now - interval '3 minutes');
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION queue_figures(text[], integer) IS
    'Worker: for each app how much is due and for how long (seconds), what is in work and waits, and how many workers serve it; counts end at p_limit.';
