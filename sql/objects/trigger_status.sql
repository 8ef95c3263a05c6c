-- The state machine of a notification, enforced for everybody by looking at the data.
--
--   pending ──► sending ──► sent | failed | skipped | expired
--     │  ▲         │
--     │  └─────────┤  a worker hands it back untouched
--     │            ▼
--     │        cancelling ──► cancelled      (by itself, when no batch is out any more)
--     ├──────────────────────► cancelled
--     └──────────────────────► expired       a final status ──► sending | pending: retry_notification
--
-- What operators type, UPDATE … SET status = 'cancelled', is a wish: a pending row is cancelled, a sending one becomes cancelling.

CREATE OR REPLACE FUNCTION pgpush_notification_status() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    allowed boolean := false;
BEGIN
    IF NEW.status IS NULL THEN
        NEW.status := OLD.status;
        RETURN NEW;
    END IF;
    CASE OLD.status
    WHEN 'pending' THEN
        IF NEW.status IN ('cancelled', 'cancelling') THEN
            NEW.status := 'cancelled';
            NEW.finished_at := now();
            allowed := true;
        ELSIF NEW.status = 'sending' THEN
            allowed := NEW.walking OR (NEW.owner IS NOT NULL AND NEW.epoch = OLD.epoch + 1);
        ELSIF NEW.status = 'expired' THEN
            allowed := least(NEW.scheduled_at, NEW.expires_at) <= now();
        END IF;
    WHEN 'sending' THEN
        IF NEW.status IN ('cancelled', 'cancelling') THEN
            NEW.status := 'cancelling';
            NEW.walking := false;
            PERFORM pg_notify('pgpush_cancel', NEW.id::text);
            allowed := true;
        ELSIF NEW.status = 'pending' THEN
            allowed := OLD.lease_until IS NOT NULL AND NEW.lease_until IS NULL AND NEW.owner IS NULL AND NEW.epoch = OLD.epoch
                AND OLD.batch_seq = 0;
        ELSIF NEW.lease_until IS NULL AND NOT NEW.walking AND NOT pgpush_has_open_batch(NEW.id) THEN
            allowed := CASE NEW.status
                WHEN 'sent' THEN NEW.accepted_count > 0 AND NEW.sent_at IS NOT NULL
                WHEN 'failed' THEN NEW.accepted_count = 0 AND (NEW.rejected_count + NEW.unknown_count > 0 OR NEW.given_up)
                WHEN 'skipped' THEN NEW.device_count = 0
                WHEN 'expired' THEN NEW.expires_at < now() OR NEW.cursor_id < NEW.upper_id
                    OR EXISTS (SELECT FROM notification_batches b WHERE b.notification_id = NEW.id AND b.state = 'abandoned') END;
        END IF;
    WHEN 'cancelling' THEN
        IF NEW.status = 'cancelled' THEN
            IF NEW.lease_until IS NOT NULL OR pgpush_has_open_batch(NEW.id) THEN
                NEW.status := 'cancelling';  -- asked for again while batches are out
            ELSE
                NEW.finished_at := now();
            END IF;
            allowed := true;
        END IF;
    ELSE
        -- retry_notification opens a finished row again: a new epoch, and something to do.
        allowed := NEW.status IN ('sending', 'pending') AND NEW.epoch = OLD.epoch + 1 AND NEW.finished_at IS NULL
            AND (NEW.status = 'pending' OR NEW.walking OR pgpush_has_open_batch(NEW.id));
    END CASE;

    IF NOT coalesce(allowed, false) THEN
        PERFORM pgpush_refuse_status(OLD, NEW.status);
    END IF;
    IF NEW.status IN ('cancelled', 'cancelling') THEN
        NEW.cancelled_at := coalesce(NEW.cancelled_at, now());
        NEW.cancelled_by := coalesce(NEW.cancelled_by, session_user);
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION pgpush_notification_status() IS
    'Internal: trigger; lets the status change only as the state machine and the data allow.';

CREATE OR REPLACE FUNCTION pgpush_refuse_status(n scheduled_notifications, wish text) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF n.status IN ('sent', 'failed', 'skipped', 'cancelled', 'expired') THEN
        PERFORM pgpush_refuse('PN023', 'status',
            format('notification %s is already %s: its status cannot become %s', n.id, n.status, wish),
            'A finished notification stays as it is; retry_notification sends again what was not accepted.');
    END IF;
    PERFORM pgpush_refuse('PN024', 'status',
        format('notification %s is %s: its status cannot be set to %s', n.id, n.status, wish),
        'By hand a status can only be set to cancelled; everything else is the worker''s.');
END
$$;
COMMENT ON FUNCTION pgpush_refuse_status(scheduled_notifications, text) IS 'Internal: raises PN023 or PN024.';

CREATE OR REPLACE FUNCTION pgpush_has_open_batch(notification_id bigint) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM notification_batches b WHERE b.notification_id = pgpush_has_open_batch.notification_id
                   AND b.state IN ('ready', 'leased', 'parked'))
$$;
COMMENT ON FUNCTION pgpush_has_open_batch(bigint) IS 'Internal: whether a batch of this notification is ready, leased or parked.';

-- The two transitions of every single notification are proved by the condition itself, so that they do not pay for the
-- function: claimed under a new epoch, and finished as its counts say.
CREATE OR REPLACE TRIGGER b_status BEFORE UPDATE OF status ON scheduled_notifications FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status
        AND NOT (OLD.status = 'pending' AND NEW.status = 'sending'
                 AND NEW.epoch = OLD.epoch + 1 AND NEW.owner IS NOT NULL AND NEW.lease_until IS NOT NULL)
        AND NOT (OLD.status = 'sending' AND NEW.batch_seq = 0 AND OLD.lease_until IS NOT NULL AND NEW.lease_until IS NULL
                 AND ((NEW.status = 'sent' AND NEW.accepted_count > 0 AND NEW.sent_at IS NOT NULL)
                   OR (NEW.status = 'failed' AND NEW.accepted_count = 0 AND NEW.rejected_count + NEW.unknown_count > 0)
                   OR (NEW.status = 'skipped' AND NEW.device_count = 0))))
    EXECUTE FUNCTION pgpush_notification_status();

-- A program that writes back a whole row it read a while ago must not turn the worker's clock back: what was claimed, cut or numbered
-- since would be done again, and a lease without an owner would hold the row.
CREATE OR REPLACE FUNCTION pgpush_notification_worker() RETURNS trigger
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
BEGIN
    PERFORM pgpush_refuse('PN036', CASE WHEN NEW.epoch < OLD.epoch THEN 'epoch' WHEN NEW.cursor_id < OLD.cursor_id THEN 'cursor_id'
                                        WHEN NEW.batch_seq < OLD.batch_seq THEN 'batch_seq' ELSE 'lease_until' END,
        format('notification %s has been worked on since this copy of it was read', OLD.id),
        'owner, epoch, lease_until, cursor_id and batch_seq are the worker''s: read the row again, and write only the columns you change.');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION pgpush_notification_worker() IS
    'Internal: trigger; refuses to set the worker''s columns back, for everybody.';

CREATE OR REPLACE TRIGGER a_worker BEFORE UPDATE OF epoch, cursor_id, batch_seq, lease_until ON scheduled_notifications FOR EACH ROW
    WHEN (NEW.epoch < OLD.epoch OR NEW.cursor_id < OLD.cursor_id OR NEW.batch_seq < OLD.batch_seq
        OR (NEW.lease_until IS NOT NULL AND OLD.lease_until IS NULL AND NEW.epoch = OLD.epoch))
    EXECUTE FUNCTION pgpush_notification_worker();
