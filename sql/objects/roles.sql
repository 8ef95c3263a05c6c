-- The four roles; run by migrate --roles only. They have no login: GRANT pgpush_producer TO your_backend. Roles belong to all
-- databases of a server, so another database's may be there already.

DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['pgpush_producer', 'pgpush_operator', 'pgpush_worker', 'pgpush_monitor'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA @schema@ TO pgpush_producer, pgpush_operator, pgpush_worker, pgpush_monitor;
GRANT SELECT ON pgpush_migrations TO pgpush_producer, pgpush_operator, pgpush_worker, pgpush_monitor;
GRANT EXECUTE ON FUNCTION pgpush_default_environment() TO pgpush_producer, pgpush_operator, pgpush_worker;
GRANT EXECUTE ON FUNCTION apns_id(bigint, bigint), apns_id_notification(uuid), apns_id_device(uuid)
    TO pgpush_producer, pgpush_operator, pgpush_worker, pgpush_monitor;

-- Producers write, and read back what became of it; no content, no tokens, no status to set.
GRANT INSERT (app, user_id, user_ids, device_tokens, broadcast, channel_id, environment, title, subtitle, body, badge, sound, category,
              thread_id, target_content_id, interruption_level, relevance_score, mutable_content, content_available, data, aps,
              raw_payload, push_type, priority, topic, collapse_id, expires_at, store_if_offline, scheduled_at, idempotency_key,
              delivery) ON scheduled_notifications TO pgpush_producer;
GRANT SELECT (id, app, idempotency_key, scheduled_at, expires_at, status, started_at, sent_at, finished_at, cancelled_at, cancelled_by,
              error, device_count, accepted_count, rejected_count, unknown_count, created_by, created_at, updated_at)
    ON scheduled_notifications TO pgpush_producer;
GRANT INSERT (app, user_id, device_token, environment, platform, app_version, os_version, locale, time_zone, is_active, registered_at,
              last_active_at) ON devices TO pgpush_producer;
GRANT SELECT (id, app, user_id, environment, platform, is_active, registered_at) ON devices TO pgpush_producer;
GRANT EXECUTE ON FUNCTION
    enqueue_notification(text, text, text, text, timestamptz, text[], text[], boolean, text, text, text, integer, text, text, text,
        text, text, double precision, boolean, boolean, jsonb, jsonb, json, text, integer, text, text, timestamptz, boolean, text, text),
    cancel_notification(bigint, text), reschedule_notification(bigint, timestamptz),
    register_device(text, text, text, text, text, text, text, text, text), unregister_device(text, text, text),
    touch_device(text, text, text), audience_count(text, text, text[], text[], boolean, text) TO pgpush_producer;

-- Operators see everything and steer.
GRANT SELECT ON devices, scheduled_notifications, notification_batches, delivery_failures, app_pauses, token_windows, proposed_deactivations,
    pgpush_workers,     notification_progress, delivery_report, failure_reasons, queue_health TO pgpush_operator;
GRANT UPDATE (status, cancelled_by) ON scheduled_notifications TO pgpush_operator;
GRANT EXECUTE ON FUNCTION cancel_notification(bigint, text), reschedule_notification(bigint, timestamptz), retry_notification(bigint),
    forget_user(text), pause_app(text, text, text), resume_app(text, text), unregister_device(text, text, text),
    audience_count(text, text, text[], text[], boolean, text) TO pgpush_operator;

-- Workers call the queue functions; they have no right to any table.
GRANT EXECUTE ON FUNCTION
    claim_notifications(uuid, text[], interval[], integer, integer, interval, timestamptz[], bigint[], integer[]),
    claim_broadcasts(uuid, text[], interval[], integer, integer, interval, integer[]),
    claim_batches(uuid, text[], integer, interval, boolean, interval, integer[], interval[]), claim_probe(uuid, text[], interval, interval),
    split_notification(bigint, uuid, integer, integer), has_split(text[]), expand(bigint[], integer[], integer),
    settle, judge_windows(text[]), give_up_rest(bigint[], text[]), release_lost(uuid, text[], bigint[], integer[]),
    finalise(bigint[]), renew(uuid, bigint[], integer[], integer[], interval), look(bigint[]),
    release(uuid, bigint[], integer[], integer[]), sweep(text[], interval[], interval), next_due(text[]),
    next_lost(text[], interval), queue_figures(text[], integer), current_pauses(),
    end_pause(text, text, text), heartbeat, goodbye(uuid)
    TO pgpush_worker;

-- Monitoring reads the views.
GRANT SELECT ON notification_progress, delivery_report, failure_reasons, queue_health TO pgpush_monitor;
