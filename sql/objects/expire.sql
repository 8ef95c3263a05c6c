-- Expiry of what is still pending: past its expires_at, or later than the app allows.

CREATE OR REPLACE FUNCTION pgpush_expire(ids bigint[]) RETURNS void
    LANGUAGE sql SET search_path = @schema@, pg_temp
AS $$
    UPDATE scheduled_notifications n
    SET status = 'expired', finished_at = now(), updated_at = now(),
        error = CASE WHEN n.expires_at < now() THEN 'expires_at passed before it could be sent'
                     ELSE 'later than the app''s max_lateness' END
    WHERE n.id = ANY (ids) AND n.status = 'pending'
$$;
COMMENT ON FUNCTION pgpush_expire(bigint[]) IS 'Internal: pending notifications become expired.';

CREATE OR REPLACE FUNCTION pgpush_expire_late(app text, max_lateness interval, most integer) RETURNS bigint
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
AS $$
DECLARE
    -- Computed from now(): scheduled_at plus an interval could overflow for a row at the end of time.
    bound constant timestamptz := now() - coalesce(max_lateness, interval '24 hours');
    late  bigint[];
BEGIN
    late := ARRAY(SELECT n.id FROM scheduled_notifications n
                  WHERE n.app = pgpush_expire_late.app AND n.status = 'pending' AND NOT n.broadcast AND n.scheduled_at < bound
                  ORDER BY n.scheduled_at, n.id LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
    IF late <> '{}' THEN
        PERFORM pgpush_expire(late);
    END IF;
    RETURN cardinality(late);
END
$$;
COMMENT ON FUNCTION pgpush_expire_late(text, interval, integer) IS
    'Internal: expires pending notifications (no broadcasts) that are due for longer than max_lateness; returns how many.';
