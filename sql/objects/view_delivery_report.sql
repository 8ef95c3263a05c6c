-- Why did this person (not) get that notification? One row for each device of the audience. Made to be read for one notification,
-- and of a broadcast for one person or device: those conditions reach the indexes.

CREATE OR REPLACE VIEW delivery_report AS
SELECT a.notification_id, a.app, a.user_id, a.device_id, a.environment, o.outcome, f.http_status, f.reason, f.apns_id, f.attempt,
       f.occurred_at,
       CASE o.outcome
           WHEN 'accepted' THEN 'accepted by Apple'
           WHEN 'rejected' THEN CASE WHEN f.http_status IS NULL THEN format('given up without an answer: %s', f.reason)
                                ELSE format('Apple answered %s %s', f.http_status, f.reason) END
           WHEN 'unknown' THEN CASE WHEN f.reason IS NULL THEN format('%s while it was being sent: some of the devices accepted it', a.status)
                               ELSE format('no answer is known (%s): it may have arrived', f.reason) END
           WHEN 'no device' THEN 'this user has no registered device'
           WHEN 'inactive' THEN format('the device is inactive since %s: %s', a.deactivated_at, a.deactivation_reason)
           WHEN 'not addressed' THEN 'the device is of another environment, or was registered later'
           WHEN 'not reached' THEN format('the notification is %s and was not sent to this device', a.status)
           ELSE CASE WHEN a.status = 'pending' AND a.scheduled_at > now() THEN format('due at %s', a.scheduled_at)
                     WHEN a.status = 'pending' THEN 'due, and not yet taken by a worker'
                     WHEN b.state = 'parked' THEN 'waiting for the end of a pause'
                     WHEN f.reason IS NOT NULL THEN 'to be tried again after ' || concat_ws(' ', f.http_status, f.reason)
                     ELSE 'in work' END
       END AS explanation
FROM (
    SELECT n.id AS notification_id, n.app, n.status, n.scheduled_at, n.started_at, n.finished_at, n.environment AS narrowed, n.broadcast,
           n.accepted_count, n.device_count > n.accepted_count + n.rejected_count + n.unknown_count AS unreached, n.unknown_count,
           n.batch_seq, n.cursor_id, n.upper_id,
           ARRAY[n.user_id] AS users, coalesce(d.user_id, n.user_id) AS user_id, d.id AS device_id, d.environment, d.is_active,
           d.created_at, d.deactivated_at, d.deactivation_reason
    FROM scheduled_notifications n LEFT JOIN devices d ON d.user_id = n.user_id AND d.app = n.app
    WHERE n.user_id IS NOT NULL
    UNION ALL
    SELECT n.id, n.app, n.status, n.scheduled_at, n.started_at, n.finished_at, n.environment, n.broadcast, n.accepted_count,
           n.device_count > n.accepted_count + n.rejected_count + n.unknown_count, n.unknown_count, n.batch_seq, n.cursor_id, n.upper_id,
           n.user_ids, u.user_id, d.id, d.environment, d.is_active, d.created_at, d.deactivated_at, d.deactivation_reason
    FROM scheduled_notifications n CROSS JOIN LATERAL unnest(n.user_ids) u(user_id)
    LEFT JOIN devices d ON d.user_id = u.user_id AND d.app = n.app
    UNION ALL
    SELECT n.id, n.app, n.status, n.scheduled_at, n.started_at, n.finished_at, n.environment, n.broadcast, n.accepted_count,
           n.device_count > n.accepted_count + n.rejected_count + n.unknown_count, n.unknown_count, n.batch_seq, n.cursor_id, n.upper_id,
           NULL, d.user_id, d.id, d.environment, d.is_active, d.created_at, d.deactivated_at, d.deactivation_reason
    FROM scheduled_notifications n JOIN devices d ON d.app = n.app
    WHERE n.broadcast
    UNION ALL
    SELECT n.id, n.app, n.status, n.scheduled_at, n.started_at, n.finished_at, n.environment, n.broadcast, n.accepted_count,
           n.device_count > n.accepted_count + n.rejected_count + n.unknown_count, n.unknown_count, n.batch_seq, n.cursor_id, n.upper_id,
           NULL, d.user_id, -t.position, coalesce(d.environment, n.environment), coalesce(d.is_active, true), n.created_at,
           d.deactivated_at, d.deactivation_reason
    FROM scheduled_notifications n CROSS JOIN LATERAL unnest(n.device_tokens) WITH ORDINALITY t(token, position)
    LEFT JOIN devices d ON d.app = n.app AND d.device_token = t.token
    UNION ALL
    SELECT n.id, n.app, n.status, n.scheduled_at, n.started_at, n.finished_at, n.environment, n.broadcast, n.accepted_count,
           n.device_count > n.accepted_count + n.rejected_count + n.unknown_count, n.unknown_count, n.batch_seq, n.cursor_id, n.upper_id,
           NULL, NULL, 0, n.environment, true, n.created_at, NULL, NULL
    FROM scheduled_notifications n WHERE n.channel_id IS NOT NULL
) a
LEFT JOIN LATERAL (
    SELECT x.* FROM delivery_failures x
    WHERE x.notification_id = a.notification_id AND x.device_id = a.device_id
    ORDER BY x.is_final DESC, x.occurred_at DESC LIMIT 1) f ON true
LEFT JOIN LATERAL (
    -- The batch that the device waits in, or was given up with, or of an unfinished broadcast the slice it belongs to.
    SELECT x.state FROM notification_batches x
    WHERE x.notification_id = a.notification_id AND a.batch_seq > 0 AND (a.unreached OR a.status NOT IN ('sent', 'failed'))
      AND x.state <> 'done' AND abs(a.device_id) > abs(x.done_through)  -- what lies before the watermark is settled
      AND (a.device_id = ANY (x.device_ids) OR (a.device_id > x.after_id AND a.device_id <= x.through_id))
    ORDER BY x.batch_no DESC LIMIT 1) b ON true
CROSS JOIN LATERAL (
    -- Became inactive while the notification was being sent.
    SELECT NOT a.is_active AND a.deactivated_at > a.started_at AND a.deactivated_at <= coalesce(a.finished_at, now()) AS meanwhile) i
CROSS JOIN LATERAL (
    -- Who may have accepted is not written down one by one. Where that is in question: when the batch with this device was last taken;
    -- and of a notification without batches, how many other devices there are that are more likely to have accepted it.
    SELECT CASE WHEN i.meanwhile AND a.batch_seq > 0 THEN (
               SELECT x.claimed_at FROM notification_batches x WHERE x.notification_id = a.notification_id
                  AND (a.device_id = ANY (x.device_ids) OR (a.device_id > x.after_id AND a.device_id <= x.through_id))
               ORDER BY x.batch_no DESC LIMIT 1) END AS taken_at,
           CASE WHEN a.batch_seq = 0 AND a.accepted_count > 0 AND (i.meanwhile OR a.status IN ('cancelled', 'expired')) THEN (
               SELECT count(*) FROM devices d WHERE d.user_id = ANY (a.users) AND d.app = a.app AND d.id <> a.device_id
                  AND (a.narrowed IS NULL OR d.environment = a.narrowed) AND d.created_at <= a.started_at
                  AND (d.is_active OR d.deactivated_at > coalesce(a.deactivated_at, a.started_at))
                  AND NOT EXISTS (SELECT FROM delivery_failures x
                                  WHERE x.notification_id = a.notification_id AND x.device_id = d.id AND x.is_final)) END AS rivals) c
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN a.device_id IS NULL THEN 'no device'
        WHEN b.state IN ('ready', 'leased', 'parked') THEN 'waiting'
        WHEN f.is_final THEN CASE WHEN f.http_status IS NULL AND coalesce(
                (SELECT x.unknown_count FROM notification_batches x
                 WHERE x.notification_id = f.notification_id AND x.batch_no = f.batch_no), a.unknown_count) > 0 THEN 'unknown' ELSE 'rejected' END
        WHEN a.environment <> a.narrowed OR a.device_id > a.upper_id OR a.created_at > a.started_at THEN 'not addressed'
        WHEN NOT a.is_active AND a.deactivated_at <= coalesce(a.started_at, now()) THEN 'inactive'
        WHEN i.meanwhile AND (c.taken_at > a.deactivated_at OR (a.batch_seq = 0 AND a.finished_at IS NOT NULL
            AND (a.accepted_count = 0 OR c.rivals >= a.accepted_count))) THEN 'inactive'
        WHEN a.status = 'pending' THEN 'waiting'
        WHEN a.started_at IS NULL OR b.state = 'abandoned' THEN 'not reached'
        WHEN a.broadcast AND a.device_id > a.cursor_id
            THEN CASE WHEN a.status = 'sending' THEN 'waiting' ELSE 'not reached' END
        WHEN a.status IN ('sending', 'cancelling') AND a.batch_seq = 0 THEN 'waiting'
        WHEN a.status = 'skipped' THEN 'not addressed'
        WHEN a.status IN ('cancelled', 'expired') AND a.accepted_count = 0 THEN 'not reached'
        WHEN a.status IN ('cancelled', 'expired') AND c.rivals >= a.accepted_count THEN 'unknown'
        ELSE 'accepted' END AS outcome) o;
COMMENT ON VIEW delivery_report IS
    'Why did a person (not) get a notification: one row for each device of its audience. Ask for one notification_id, and of a broadcast for one user_id or device_id.';
COMMENT ON COLUMN delivery_report.device_id IS
    'devices.id; minus the position in device_tokens; 0 for a channel; null when the user has no device.';
COMMENT ON COLUMN delivery_report.outcome IS
    'accepted, rejected, unknown, waiting, inactive, not addressed, not reached, or no device.';
COMMENT ON COLUMN delivery_report.explanation IS 'The outcome in words.';
