-- Retry: a finished notification is opened again for the devices that did not accept it.

CREATE OR REPLACE FUNCTION retry_notification(id bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    n        scheduled_notifications;
    requeued bigint := 0;
    unmet    bigint;
BEGIN
    SELECT * INTO n FROM scheduled_notifications s WHERE s.id = retry_notification.id FOR NO KEY UPDATE;
    IF NOT FOUND OR n.status IN ('pending', 'sending', 'cancelling') THEN
        RETURN 0;
    ELSIF n.expires_at < now() THEN
        PERFORM pgpush_refuse('PN035', 'expires_at', format('notification %s cannot be retried: its expires_at has passed', n.id),
            'Enqueue a new notification.');
    END IF;
    IF n.started_at IS NULL THEN
        -- Cancelled or expired before anybody took it: nobody was reached.
        UPDATE scheduled_notifications s
        SET status = 'pending', epoch = s.epoch + 1, finished_at = NULL, cancelled_at = NULL, cancelled_by = NULL, error = NULL,
            scheduled_at = greatest(s.scheduled_at, now())
        WHERE s.id = n.id;
        RETURN pgpush_audience_count(n);
    END IF;

    -- What was never sent: batches given up when it was cancelled or expired, and the part of a broadcast not cut yet.
    UPDATE notification_batches b SET state = 'ready', not_before = now(), finished_at = NULL
    WHERE b.notification_id = n.id AND b.state = 'abandoned'
      AND b.device_count > b.accepted_count + b.rejected_count + b.unknown_count;
    SELECT coalesce(sum(b.device_count - b.accepted_count - b.rejected_count - b.unknown_count), 0) INTO requeued
    FROM notification_batches b WHERE b.notification_id = n.id AND b.state = 'ready';
    IF n.broadcast AND n.cursor_id < n.upper_id THEN
        unmet := pgpush_audience_count(n);
        n.walking := unmet > 0;
        requeued := requeued + unmet;
    END IF;
    unmet := pgpush_requeue(n.id);
    requeued := requeued + unmet;
    IF requeued > 0 THEN
        UPDATE scheduled_notifications s
        SET status = 'sending', walking = n.walking, epoch = s.epoch + 1, finished_at = NULL, cancelled_at = NULL, cancelled_by = NULL,
            error = NULL, given_up = false, served_at = now(), updated_at = now()  -- served_at: not late, see sweep
        WHERE s.id = n.id;
        PERFORM pgpush_notify_due(now());
    END IF;
    RETURN requeued;
END
$$;
COMMENT ON FUNCTION retry_notification(bigint) IS
    'Sends a finished notification again to the devices that did not accept it: rejected, unknown or not reached. Returns how many were requeued; 0 if there are none, or it is not finished. sent_at stays.';

DROP FUNCTION IF EXISTS pgpush_requeue_failures(scheduled_notifications);
CREATE OR REPLACE FUNCTION pgpush_requeue(
    p_notification bigint, p_batches integer[] DEFAULT NULL, p_devices bigint[] DEFAULT NULL, p_since timestamptz DEFAULT NULL,
    p_environment text DEFAULT NULL, p_topic text DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    batch_size constant int := 500;
    parked     constant boolean := p_devices IS NOT NULL;
    n        scheduled_notifications;
    devices  bigint[];
    attempt  int := 1;
    pieces   int;
    moved    record;
BEGIN
    SELECT * INTO n FROM scheduled_notifications s WHERE s.id = p_notification;
    FOR moved IN SELECT * FROM pgpush_unsettle(n, p_batches, p_devices, p_since) LOOP
        IF devices IS NULL THEN
            -- Totals are sums over batches, so a notification sent directly gets its row first.
            INSERT INTO notification_batches (notification_id, batch_no, app, state, owner, epoch, device_count, accepted_count,
                                              rejected_count, unknown_count, last_accepted_at, claimed_at, finished_at)
            SELECT n.id, 0, n.app, 'done', n.owner, n.epoch, n.device_count, n.accepted_count, n.rejected_count, n.unknown_count,
                   n.sent_at, n.started_at, n.finished_at
            WHERE n.batch_seq = 0
            ON CONFLICT DO NOTHING;
        END IF;
        devices := devices || moved.ids;
        -- A device without an answer is as a rule an unknown one, but some are given up (rejected) unasked: the counts decide.
        UPDATE notification_batches b
        SET device_count = b.device_count - c.unknown - c.rejected, rejected_count = b.rejected_count - c.rejected,
            unknown_count = b.unknown_count - c.unknown
        FROM (SELECT x.attempts, y.unknown, least(x.rejected_count, moved.total - y.unknown) AS rejected
              FROM notification_batches x,
                   LATERAL (SELECT least(x.unknown_count, greatest(moved.silent, moved.total - x.rejected_count)) AS unknown) y
              WHERE x.notification_id = n.id AND x.batch_no = moved.batch_no) c
        WHERE b.notification_id = n.id AND b.batch_no = moved.batch_no
        RETURNING CASE WHEN parked THEN greatest(attempt, b.attempts) ELSE attempt END INTO attempt;
    END LOOP;
    devices := ARRAY(SELECT DISTINCT d FROM unnest(devices) d ORDER BY d);
    pieces := (cardinality(devices) + batch_size - 1) / batch_size;
    INSERT INTO notification_batches (notification_id, batch_no, app, state, attempts, not_before, device_ids, device_count,
                                      environment, topic)
    SELECT n.id, n.batch_seq + k, n.app, CASE WHEN parked THEN 'parked' ELSE 'ready' END, coalesce(attempt, 1),
           now(), piece, cardinality(piece), p_environment, p_topic
    FROM generate_series(1, pieces) k,
         LATERAL (SELECT ARRAY(SELECT x FROM unnest(devices[(k - 1) * batch_size + 1 : k * batch_size]) x ORDER BY abs(x)) AS piece) s;
    UPDATE scheduled_notifications s SET batch_seq = n.batch_seq + pieces, updated_at = now() WHERE s.id = n.id AND pieces > 0;
    RETURN coalesce(cardinality(devices), 0);
END
$$;
COMMENT ON FUNCTION pgpush_requeue IS
    'Internal: makes ready batches of the devices whose final outcome is rejected or unknown; or of the given ones, by batch and device, parked ones, for the scope to be resumed. Returns how many devices. The notification must be locked.';

CREATE OR REPLACE FUNCTION pgpush_unsettle(
    n scheduled_notifications, p_batches integer[], p_devices bigint[], p_since timestamptz)
    RETURNS TABLE (batch_no integer, ids bigint[], total bigint, silent bigint)
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    part record;
BEGIN
    -- The failures stop being final; those that can be reached no more stay as they are.
    IF p_devices IS NULL THEN
        RETURN QUERY
            WITH again AS (
                UPDATE delivery_failures f SET is_final = false
                WHERE f.notification_id = n.id AND f.is_final AND pgpush_reaches(n, f.device_id)
                RETURNING f.device_id, f.batch_no, f.http_status IS NULL AS silent)
            SELECT a.batch_no, array_agg(a.device_id), count(*), count(*) FILTER (WHERE a.silent) FROM again a GROUP BY 1 ORDER BY 1;
    ELSE
        -- The time spares a look into the partitions of a month.
        FOR part IN SELECT x.batch, array_agg(x.device) AS devices FROM unnest(p_batches, p_devices) x(batch, device) GROUP BY 1 ORDER BY 1 LOOP
            RETURN QUERY
                WITH again AS (
                    UPDATE delivery_failures f SET is_final = false
                    WHERE f.notification_id = n.id AND f.device_id = ANY (part.devices) AND f.batch_no = part.batch AND f.is_final
                      AND f.occurred_at > p_since - interval '1 day' AND pgpush_reaches(n, f.device_id)
                    RETURNING f.device_id, f.http_status IS NULL AS silent)
                SELECT part.batch, array_agg(a.device_id), count(*), count(*) FILTER (WHERE a.silent) FROM again a HAVING count(*) > 0;
        END LOOP;
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_unsettle IS
    'Internal: makes failures of a notification not final, all or the given ones; returns their devices by batch, and how many of them had no answer.';

CREATE OR REPLACE FUNCTION pgpush_reaches(n scheduled_notifications, device bigint) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE
        WHEN device = 0 THEN n.channel_id IS NOT NULL
        WHEN device < 0 THEN n.device_tokens[-device] <> '' AND NOT EXISTS (
            SELECT FROM devices d WHERE d.app = n.app AND d.device_token = n.device_tokens[-device] AND NOT d.is_active)
        ELSE EXISTS (SELECT FROM devices d WHERE d.id = device AND d.app || '' = n.app AND coalesce(d.is_active, false)
                     AND (n.environment IS NULL OR d.environment = n.environment)
                     AND (n.user_id IS NULL OR d.user_id = n.user_id)
                     AND (n.user_ids = '{}' OR d.user_id = ANY (n.user_ids))) END
$$;
COMMENT ON FUNCTION pgpush_reaches(scheduled_notifications, bigint) IS
    'Internal: whether a device number still belongs to the audience of a notification and is active.';
