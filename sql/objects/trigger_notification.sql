-- Triggers of scheduled_notifications. Insert and content go through pgpush_prepare; the status has a guard of its own
-- (trigger_status.sql). None of these fires on what the worker updates while it works.

CREATE OR REPLACE FUNCTION pgpush_notification_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF NEW.status <> 'pending' THEN
        PERFORM pgpush_refuse('PN024', 'status', format('status %L cannot be inserted', NEW.status),
            'A notification starts as pending: leave status out.');
    ELSIF NEW.payload IS NOT NULL THEN
        PERFORM pgpush_refuse('PN034', 'payload', 'payload is filled by the database',
            'Set title, body, data, aps and the like, or raw_payload for bytes of your own.');
    END IF;
    NEW := pgpush_prepare(NEW);
    NEW.id         := coalesce(NEW.id, nextval(pg_get_serial_sequence(format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME), 'id')));
    NEW.created_by := coalesce(NEW.created_by, session_user);
    NEW.created_at := coalesce(NEW.created_at, now());
    NEW.updated_at := now();
    -- The outcome and the worker's columns have one beginning, whatever an ORM sends for them.
    NEW.status := 'pending';
    NEW.started_at := NULL; NEW.sent_at := NULL; NEW.finished_at := NULL; NEW.cancelled_at := NULL;
    NEW.cancelled_by := NULL; NEW.error := NULL;
    NEW.device_count := 0; NEW.accepted_count := 0; NEW.rejected_count := 0; NEW.unknown_count := 0;
    NEW.owner := NULL; NEW.epoch := 0; NEW.lease_until := NULL; NEW.walking := false; NEW.upper_id := NULL;
    NEW.cursor_id := 0; NEW.batch_seq := 0; NEW.served_at := NULL; NEW.counted_at := NULL; NEW.given_up := false;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION pgpush_notification_insert() IS 'Internal: trigger; validates and completes a new notification.';

CREATE OR REPLACE FUNCTION pgpush_notification_content() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
BEGIN
    -- A row that is being opened again is planned anew; whether it may be, the guard of the status decides.
    IF OLD.status = 'pending' OR NEW.status = 'pending' THEN
        IF NEW.payload IS DISTINCT FROM OLD.payload THEN
            PERFORM pgpush_refuse('PN034', 'payload', 'payload is filled by the database',
                'Set title, body, data, aps and the like, or raw_payload for bytes of your own.');
        END IF;
        NEW := pgpush_prepare(NEW);
        PERFORM pgpush_notify_due(NEW.scheduled_at) WHERE NEW.scheduled_at < OLD.scheduled_at;
        RETURN NEW;
    END IF;
    -- Later the content stands as it was sent. An ORM that writes back all columns unchanged does no harm, and
    -- forget_user may take persons out of lists.
    IF pgpush_content(NEW) IS DISTINCT FROM pgpush_content(OLD) THEN
        PERFORM pgpush_refuse('PN022', 'status', format('notification %s is %s: its content cannot be changed any more',
            OLD.id, OLD.status), 'Content and schedule can be changed while the status is pending. Enqueue a new notification.');
    ELSIF NOT (NEW.user_ids <@ OLD.user_ids AND cardinality(NEW.device_tokens) = cardinality(OLD.device_tokens)
               AND NEW.device_tokens <@ array_append(OLD.device_tokens, '')) THEN
        PERFORM pgpush_refuse('PN022', 'status', format('notification %s is %s: its target cannot be changed any more',
            OLD.id, OLD.status), 'The target can be changed while the status is pending. Enqueue a new notification.');
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION pgpush_notification_content() IS
    'Internal: trigger; renders and checks changed content again while pending, refuses the change later.';

CREATE OR REPLACE FUNCTION pgpush_content(n scheduled_notifications) RETURNS text
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT ROW(n.id, n.app, n.user_id, n.broadcast, n.channel_id, n.environment, n.title, n.subtitle, n.body, n.badge, n.sound,
               n.category, n.thread_id, n.target_content_id, n.interruption_level, n.relevance_score, n.mutable_content,
               n.content_available, n.data, n.aps, n.raw_payload, n.payload, n.push_type, n.priority, n.topic, n.collapse_id,
               n.expires_at, n.store_if_offline, n.scheduled_at, n.idempotency_key, n.delivery)::text
$$;
COMMENT ON FUNCTION pgpush_content(scheduled_notifications) IS
    'Internal: everything a producer may set, lists of persons apart, as one text to compare.';

-- NOTIFY only shortens a wait: it is sent once a statement, and only for what is due within a minute.
CREATE OR REPLACE FUNCTION pgpush_notify_due(due timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF due < now() + interval '1 minute' AND current_setting('pgpush.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify('pgpush', '');
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_notify_due(timestamptz) IS
    'Internal: wakes listening workers when something is due within a minute; SET pgpush.notify = off silences it.';

CREATE OR REPLACE FUNCTION pgpush_notification_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
BEGIN
    PERFORM pgpush_notify_due(min(scheduled_at)) FROM inserted HAVING min(scheduled_at) IS NOT NULL;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION pgpush_notification_inserted() IS 'Internal: trigger; one NOTIFY for each INSERT statement.';

CREATE OR REPLACE FUNCTION pgpush_notification_deleted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    DELETE FROM notification_batches b USING deleted d WHERE b.notification_id = d.id AND d.batch_seq > 0;
    IF EXISTS (SELECT FROM proposed_deactivations) THEN
        -- Notification by notification, whatever the planner thinks of the table.
        DELETE FROM proposed_deactivations p WHERE p.ctid = ANY (ARRAY(
            SELECT x.place FROM deleted d, LATERAL (
                SELECT y.ctid AS place FROM proposed_deactivations y WHERE y.notification_id = d.id FOR UPDATE) x));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION pgpush_notification_deleted() IS 'Internal: trigger; batches and proposals go with their notification.';

CREATE OR REPLACE FUNCTION pgpush_notification_truncated() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    t text;
BEGIN
    -- With RESTART IDENTITY the same numbers come again: what is left of the old ones would be taken for theirs.
    FOREACH t IN ARRAY ARRAY['notification_batches', 'delivery_failures', 'proposed_deactivations'] LOOP
        BEGIN
            EXECUTE format('TRUNCATE %I', t);
        EXCEPTION WHEN object_in_use THEN
            EXECUTE format('DELETE FROM %I', t);  -- empty already where the same TRUNCATE names it
        END;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION pgpush_notification_truncated() IS 'Internal: trigger; batches, ledger and proposals go with all notifications.';

CREATE OR REPLACE TRIGGER a_insert BEFORE INSERT ON scheduled_notifications
    FOR EACH ROW EXECUTE FUNCTION pgpush_notification_insert();
CREATE OR REPLACE TRIGGER a_content BEFORE UPDATE OF
        id, app, user_id, user_ids, device_tokens, broadcast, channel_id, environment, title, subtitle, body, badge, sound,
        category, thread_id, target_content_id, interruption_level, relevance_score, mutable_content, content_available,
        data, aps, raw_payload, payload, push_type, priority, topic, collapse_id, expires_at, store_if_offline, scheduled_at,
        idempotency_key, delivery
    ON scheduled_notifications FOR EACH ROW EXECUTE FUNCTION pgpush_notification_content();
CREATE OR REPLACE TRIGGER c_touch BEFORE UPDATE ON scheduled_notifications
    FOR EACH ROW WHEN (NEW.updated_at IS DISTINCT FROM now()) EXECUTE FUNCTION pgpush_touch();
CREATE OR REPLACE TRIGGER d_inserted AFTER INSERT ON scheduled_notifications REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION pgpush_notification_inserted();
CREATE OR REPLACE TRIGGER d_truncated AFTER TRUNCATE ON scheduled_notifications
    FOR EACH STATEMENT EXECUTE FUNCTION pgpush_notification_truncated();
CREATE OR REPLACE TRIGGER d_deleted AFTER DELETE ON scheduled_notifications REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION pgpush_notification_deleted();
