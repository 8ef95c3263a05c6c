-- Finalise: a notification with batches is finished when none is open any more. Called after settle has committed, and by sweep.

CREATE OR REPLACE FUNCTION finalise(p_notifications bigint[]) RETURNS TABLE (id bigint, status text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    candidate record;
BEGIN
    FOR candidate IN
        SELECT n.id, n.status,
               n.status = 'cancelling' OR coalesce(n.expires_at < now(), false) OR (NOT n.walking AND NOT pgpush_has_open_batch(n.id)) AS complete
        FROM (SELECT DISTINCT unnest(p_notifications) AS id) x JOIN scheduled_notifications n ON n.id = x.id
        WHERE n.started_at IS NOT NULL AND n.finished_at IS NULL AND n.lease_until IS NULL
        ORDER BY n.id
    LOOP
        IF candidate.complete THEN
            RETURN QUERY SELECT candidate.id, f FROM pgpush_finish(candidate.id) f WHERE f IS NOT NULL;
        ELSE
            PERFORM pgpush_refresh_counts(candidate.id);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION finalise(bigint[]) IS
    'Worker: finishes those of the given notifications whose batches are all done, and brings the counts of the others up to date. Returns the finished ones.';

DROP FUNCTION IF EXISTS pgpush_finish(bigint);
CREATE OR REPLACE FUNCTION pgpush_finish(p_id bigint, p_late boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    n      scheduled_notifications;
    t      record;
    final  text;
BEGIN
    SELECT * INTO n FROM scheduled_notifications s WHERE s.id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND OR n.status NOT IN ('sending', 'cancelling') OR n.lease_until IS NOT NULL
        OR (n.walking AND NOT coalesce(n.expires_at < now(), false)) THEN
        RETURN NULL;
    END IF;
    IF n.status = 'sending' AND NOT n.given_up AND (n.expires_at IS NULL OR n.expires_at >= now()) AND pgpush_awaits_verdict(p_id) THEN
        RETURN NULL;
    END IF;
    IF n.status = 'cancelling' OR n.expires_at < now() THEN
        -- Nobody holds these; with the notification locked nobody can claim them either.
        UPDATE notification_batches b SET state = 'abandoned', finished_at = now()
        WHERE b.notification_id = p_id AND b.state IN ('ready', 'parked');
    END IF;
    -- Under the lock and in a snapshot of its own: what settled meanwhile is seen here.
    IF pgpush_has_open_batch(p_id) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO t FROM pgpush_batch_totals(p_id);

    final := CASE WHEN n.status = 'cancelling' THEN 'cancelled'
                  WHEN (n.expires_at < now() OR p_late) AND (t.unreached > 0 OR n.cursor_id < n.upper_id) THEN 'expired'
                  WHEN t.accepted > 0 THEN 'sent'
                  WHEN t.rejected + t.unknown > 0 OR n.given_up THEN 'failed'
                  WHEN n.expires_at < now() THEN 'expired'
                  ELSE 'skipped' END;
    UPDATE scheduled_notifications s
    SET status = final, walking = false, device_count = t.devices, accepted_count = t.accepted, rejected_count = t.rejected, unknown_count = t.unknown,
        sent_at = CASE WHEN final = 'sent' THEN coalesce(s.sent_at, t.last_accepted_at, now()) ELSE s.sent_at END,
        error = CASE final WHEN 'failed' THEN CASE WHEN n.given_up THEN n.error ELSE pgpush_leading_reason(p_id) END
                           WHEN 'expired' THEN CASE WHEN n.expires_at < now() THEN 'expires_at passed before all devices were reached'
                                                ELSE 'later than the app''s max_lateness before all devices were reached' END END,
        finished_at = now(), updated_at = now()
    WHERE s.id = p_id;
    RETURN final;
END
$$;
COMMENT ON FUNCTION pgpush_finish(bigint, boolean) IS
    'Internal: finishes one notification if nothing of it is open, with p_late as expired when something was left; returns the final status, or null.';

CREATE OR REPLACE FUNCTION pgpush_batch_totals(
    notification_id bigint, OUT devices bigint, OUT accepted bigint, OUT rejected bigint, OUT unknown bigint,
    OUT unreached bigint, OUT last_accepted_at timestamptz)
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT coalesce(sum(b.device_count), 0), coalesce(sum(b.accepted_count), 0), coalesce(sum(b.rejected_count), 0),
           coalesce(sum(b.unknown_count), 0),
           coalesce(sum(b.device_count - b.accepted_count - b.rejected_count - b.unknown_count) FILTER (WHERE b.state = 'abandoned'), 0),
           max(b.last_accepted_at)
    FROM notification_batches b WHERE b.notification_id = pgpush_batch_totals.notification_id
$$;
COMMENT ON FUNCTION pgpush_batch_totals(bigint) IS 'Internal: the sums over the batches of a notification.';

CREATE OR REPLACE FUNCTION pgpush_refresh_counts(p_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
BEGIN
    -- Summing 20,000 batches costs some 10 ms, so it is done every few seconds only, and never waits for the row.
    PERFORM FROM scheduled_notifications n WHERE n.id = p_id
        AND coalesce(n.counted_at, '-infinity') < now() - interval '5 s' FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE scheduled_notifications n
        SET device_count = t.devices, accepted_count = t.accepted, rejected_count = t.rejected, unknown_count = t.unknown,
            counted_at = now(), updated_at = now()
        FROM pgpush_batch_totals(p_id) t WHERE n.id = p_id;
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_refresh_counts(bigint) IS
    'Internal: writes the sums over the batches into an unfinished notification, at most every five seconds.';

CREATE OR REPLACE FUNCTION pgpush_leading_reason(notification_id bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    -- The most frequent of the first ten thousand: a failed broadcast may have millions.
    SELECT f.reason FROM (SELECT f.reason FROM delivery_failures f
                          WHERE f.notification_id = pgpush_leading_reason.notification_id AND f.is_final LIMIT 10000) f
    GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1
$$;
COMMENT ON FUNCTION pgpush_leading_reason(bigint) IS 'Internal: the reason that most devices of a notification were refused with.';
