-- Retention: finished notifications go with their batches when the time of keeping is over.
--
-- A lot at a time and about a second a call, whatever has piled up: the sweep comes again in a minute. The index on finished_at costs
-- a settle of 500 singles 0.4 ms of 8.6 (PostgreSQL 15, two busy cores) and 8 bytes a row, since rows settled together share a time.

CREATE OR REPLACE FUNCTION pgpush_keep_notifications() RETURNS interval
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    RETURN coalesce(nullif(current_setting('pgpush.keep_notifications', true), '')::interval, interval '30 days');
EXCEPTION WHEN data_exception THEN
    RETURN interval '30 days';  -- a setting that is no interval must not stop the sweep
END
$$;
COMMENT ON FUNCTION pgpush_keep_notifications() IS
    'Internal: how long finished notifications are kept: the setting pgpush.keep_notifications, or 30 days.';

CREATE OR REPLACE FUNCTION pgpush_prune(p_lot integer DEFAULT 1000, p_time interval DEFAULT '1 s') RETURNS bigint
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    bound  constant timestamptz := now() - pgpush_keep_notifications();
    finish constant timestamptz := clock_timestamp() + p_time;
    ids    bigint[];
    lot    int := least(p_lot, 100);  -- grows: where deleting is slow, the first must not take all of the statement's time
    result bigint := 0;
BEGIN
    LOOP
        -- Not more than about 20,000 batches at once, which is what the greatest broadcast has.
        SELECT array_agg(x.id) INTO ids
        FROM (SELECT o.id, sum(o.batch_seq) OVER (ORDER BY o.finished_at, o.id) - o.batch_seq AS batches
              FROM (SELECT n.id, n.finished_at, n.batch_seq FROM scheduled_notifications n WHERE n.finished_at < bound
                    ORDER BY n.finished_at LIMIT lot FOR UPDATE SKIP LOCKED) o) x
        WHERE x.batches < 20000;
        EXIT WHEN ids IS NULL;
        DELETE FROM scheduled_notifications n WHERE n.id = ANY (ids);
        result := result + cardinality(ids);
        EXIT WHEN clock_timestamp() >= finish;
        lot := least(p_lot, lot * 2);
    END LOOP;
    RETURN result;
END
$$;
COMMENT ON FUNCTION pgpush_prune(integer, interval) IS
    'Internal: deletes finished notifications that are older than is kept, a lot at a time until the time is over; returns how many.';
