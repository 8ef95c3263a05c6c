-- The ledger's partitions: one for each day, made ahead, dropped when the time of keeping is over.

CREATE OR REPLACE FUNCTION pgpush_keep_failures() RETURNS interval
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    RETURN coalesce(nullif(current_setting('pgpush.keep_failures', true), '')::interval, interval '30 days');
EXCEPTION WHEN data_exception THEN
    RETURN interval '30 days';  -- a setting that is no interval must not stop the sweep
END
$$;
COMMENT ON FUNCTION pgpush_keep_failures() IS 'Internal: how long the ledger is kept: the setting pgpush.keep_failures, or 30 days.';

CREATE OR REPLACE FUNCTION pgpush_maintain_failures(p_keep interval DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    keep  constant interval := coalesce(p_keep, pgpush_keep_failures());
    today constant date := (now() AT TIME ZONE 'UTC')::date;
    old   text[];
    due   int[];
    part  text;
    i     int;
BEGIN
    due := ARRAY(SELECT d FROM generate_series(0, 2) d
                 WHERE to_regclass('delivery_failures_' || to_char(today + d, 'YYYYMMDD')) IS NULL);
    old := ARRAY(SELECT c.relname FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
                 WHERE h.inhparent = 'delivery_failures'::regclass AND c.relname ~ '^delivery_failures_\d{8}$'
                   AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 < (now() - keep) AT TIME ZONE 'UTC');
    -- One at a time, and nobody waits: the others have found it done in a minute.
    IF (due = '{}' AND old = '{}')
        OR NOT pg_try_advisory_xact_lock(hashtext('delivery_failures'), 'delivery_failures'::regclass::oid::int) THEN
        RETURN false;
    END IF;
    FOREACH i IN ARRAY due LOOP
        part := 'delivery_failures_' || to_char(today + i, 'YYYYMMDD');
        PERFORM pgpush_add_failures_day(part, today + i) WHERE to_regclass(part) IS NULL;
    END LOOP;
    FOREACH part IN ARRAY old LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', part);
    END LOOP;
    DELETE FROM delivery_failures_default WHERE occurred_at < now() - keep;
    RETURN true;
END
$$;
COMMENT ON FUNCTION pgpush_maintain_failures(interval) IS
    'Makes the partitions of delivery_failures for the days to come and drops those older than p_keep (else the setting pgpush.keep_failures, else 30 days). True if there was something to do.';

CREATE OR REPLACE FUNCTION pgpush_add_failures_day(part text, day date) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
DECLARE
    first constant timestamptz := day::timestamp AT TIME ZONE 'UTC';
    next  constant timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    -- Made apart and then attached: that does not block those who write, as CREATE … PARTITION OF would. Rows of that day that
    -- landed in the default partition move over.
    EXECUTE format('CREATE TABLE %I (LIKE delivery_failures INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    EXECUTE format('WITH moved AS (DELETE FROM delivery_failures_default WHERE occurred_at >= %L AND occurred_at < %L RETURNING *)
                    INSERT INTO %I SELECT * FROM moved', first, next, part);
    EXECUTE format('ALTER TABLE %I ADD CHECK (occurred_at >= %L AND occurred_at < %L)', part, first, next);
    EXECUTE format('ALTER TABLE delivery_failures ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, first, next);
END
$$;
COMMENT ON FUNCTION pgpush_add_failures_day(text, date) IS 'Internal: makes and attaches one day of delivery_failures.';

DO $$ BEGIN PERFORM pgpush_maintain_failures(); END $$;
