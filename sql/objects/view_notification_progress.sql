-- How far notifications are. Batches are summed here and now, so that the picture moves with every settle.
-- Written without functions of ours: whoever may read the view needs no right to call them.

CREATE OR REPLACE VIEW notification_progress AS
SELECT n.id, n.app, n.status,
       CASE WHEN n.broadcast THEN 'broadcast' WHEN n.channel_id IS NOT NULL THEN 'channel' WHEN n.user_id IS NOT NULL THEN 'user'
            WHEN n.user_ids <> '{}' THEN 'users' ELSE 'tokens' END AS target,
       n.scheduled_at, n.started_at, n.finished_at,
       e.devices AS device_count, t.accepted AS accepted_count, t.rejected AS rejected_count, t.unknown AS unknown_count,
       t.open AS open_batches,
       CASE WHEN n.finished_at IS NOT NULL THEN 1 WHEN e.devices > 0 THEN least(round(p.done / e.devices, 4), 1) ELSE 0 END AS share_done,
       CASE WHEN p.seconds > 0 THEN round(p.done / p.seconds, 1) END AS devices_per_second,
       CASE WHEN n.finished_at IS NULL AND p.done > 0 AND p.seconds > 0
            THEN now() + (e.devices - p.done)::float8 * (p.seconds / p.done)::float8 * interval '1 s' END AS estimated_end
FROM scheduled_notifications n
CROSS JOIN LATERAL (
    SELECT coalesce(sum(b.device_count), n.device_count) AS devices, coalesce(sum(b.accepted_count), n.accepted_count) AS accepted,
           coalesce(sum(b.rejected_count), n.rejected_count) AS rejected,
           coalesce(sum(b.unknown_count), n.unknown_count) AS unknown,
           count(*) FILTER (WHERE b.state IN ('ready', 'leased', 'parked')) AS open
    FROM notification_batches b
    WHERE b.notification_id = n.id AND n.batch_seq > 0 AND n.finished_at IS NULL) t
CROSS JOIN LATERAL (
    -- The part of a broadcast that is not cut yet is estimated from the part that is: devices are spread evenly over the ids.
    SELECT round(t.devices * CASE WHEN n.walking AND n.cursor_id > 0 THEN n.upper_id::numeric / n.cursor_id ELSE 1 END) AS devices) e
CROSS JOIN LATERAL (
    SELECT (t.accepted + t.rejected + t.unknown)::numeric AS done,
           extract(epoch FROM coalesce(n.finished_at, clock_timestamp()) - n.started_at) AS seconds) p
WHERE n.status IN ('pending', 'sending', 'cancelling') OR n.finished_at > now() - interval '1 day';
COMMENT ON VIEW notification_progress IS
    'One row for each notification that is not finished, or was within the last day: counts, share done, rate, estimate of the end.';
COMMENT ON COLUMN notification_progress.target IS 'user, users, tokens, broadcast or channel.';
COMMENT ON COLUMN notification_progress.device_count IS
    'Devices known so far; for a broadcast that is still being cut into batches an estimate of the whole; 0 before the start.';
COMMENT ON COLUMN notification_progress.open_batches IS 'Batches that are ready, leased or parked.';
COMMENT ON COLUMN notification_progress.share_done IS 'From 0 to 1: devices settled of all devices.';
COMMENT ON COLUMN notification_progress.devices_per_second IS 'Devices settled per second since the start.';
COMMENT ON COLUMN notification_progress.estimated_end IS 'When it will be finished if it goes on like this; null when that cannot be told.';
