-- The state of the queue, one row for each app, for monitoring.

CREATE OR REPLACE VIEW queue_health AS
WITH RECURSIVE planned AS (
    -- The apps in the due index, by one probe each instead of a walk over all that is planned.
    (SELECT n.app FROM scheduled_notifications n WHERE n.status = 'pending' AND NOT n.broadcast ORDER BY n.app LIMIT 1)
    UNION ALL
    SELECT (SELECT n.app FROM scheduled_notifications n WHERE n.status = 'pending' AND NOT n.broadcast AND n.app > p.app
            ORDER BY n.app LIMIT 1)
    FROM planned p WHERE p.app IS NOT NULL
), apps AS (
    SELECT app FROM planned WHERE app IS NOT NULL
    UNION SELECT app FROM scheduled_notifications WHERE status = 'pending' AND broadcast
    UNION SELECT app FROM scheduled_notifications WHERE status IN ('sending', 'cancelling')
    UNION SELECT app FROM app_pauses
    UNION SELECT app FROM token_windows WHERE tripped_at IS NOT NULL
    UNION SELECT unnest(apps) FROM pgpush_workers
)
SELECT a.app, d.due_count, d.oldest_due_at, now() - d.oldest_due_at AS oldest_due_age, s.sending_count,
       b.ready_batches, b.leased_batches, b.parked_batches, p.paused_scopes, p.pause_reason, w.live_workers,
       CASE WHEN t.storm IS NOT NULL THEN 'STORM, nobody is retired: ' || t.storm
            WHEN p.is_paused THEN 'paused: ' || p.pause_reason
            WHEN w.live_workers = 0 AND d.due_count + s.sending_count > 0 THEN 'no live worker serves this app'
            WHEN p.paused_scopes > 0 THEN 'partly paused: ' || p.pause_reason
            WHEN d.oldest_due_at < now() - interval '5 minutes' THEN 'late'
            ELSE 'ok' END AS message
FROM apps a
CROSS JOIN LATERAL (
    SELECT count(*) AS due_count, min(x.scheduled_at) AS oldest_due_at FROM (
        SELECT n.scheduled_at FROM scheduled_notifications n
        WHERE n.app = a.app AND n.status = 'pending' AND NOT n.broadcast AND n.scheduled_at <= now()
        UNION ALL
        SELECT n.scheduled_at FROM scheduled_notifications n
        WHERE n.app = a.app AND n.status = 'pending' AND n.broadcast AND n.scheduled_at <= now()) x) d
CROSS JOIN LATERAL (
    SELECT count(*) AS sending_count FROM scheduled_notifications n
    WHERE n.app = a.app AND n.status IN ('sending', 'cancelling')) s
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE x.state = 'ready') AS ready_batches, count(*) FILTER (WHERE x.state = 'leased') AS leased_batches,
           count(*) FILTER (WHERE x.state = 'parked') AS parked_batches
    FROM notification_batches x WHERE x.app = a.app AND x.state IN ('ready', 'leased', 'parked')) b
CROSS JOIN LATERAL (
    SELECT count(*) AS paused_scopes, bool_or(x.environment IS NULL AND x.topic IS NULL) AS is_paused,
           string_agg(concat_ws(' ', x.environment, x.topic, x.reason), '; ' ORDER BY x.paused_at) AS pause_reason
    FROM app_pauses x WHERE x.app = a.app) p
CROSS JOIN LATERAL (
    SELECT count(*) AS live_workers FROM pgpush_workers x
    WHERE a.app = ANY (x.apps) AND x.last_seen_at > now() - interval '3 minutes') w
CROSS JOIN LATERAL (
    SELECT string_agg(concat_ws(' ', x.environment, x.topic, x.reason), '; ' ORDER BY x.tripped_at) AS storm
    FROM token_windows x WHERE x.app = a.app AND x.tripped_at IS NOT NULL) t
ORDER BY a.app;
COMMENT ON VIEW queue_health IS
    'One row for each app that has work, a pause or a worker: how much is due and since when, what is in work, what is paused, who serves it.';
COMMENT ON COLUMN queue_health.oldest_due_age IS 'How long the oldest due notification has been waiting. Alert on this.';
COMMENT ON COLUMN queue_health.live_workers IS 'Workers that serve the app and gave a sign of life within three minutes.';
COMMENT ON COLUMN queue_health.message IS 'ok, late, paused and why, that no live worker serves the app; or STORM: tokens are refused in masses, the scope is paused and waits for somebody to mend key, environment or topic.';
