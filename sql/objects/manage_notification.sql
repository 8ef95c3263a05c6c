-- What operators and producers do with a notification that is planned: cancel it, move it.

CREATE OR REPLACE FUNCTION cancel_notification(id bigint, actor text DEFAULT session_user) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    result text;
BEGIN
    -- One guarded UPDATE: the trigger makes cancelled of a pending row and cancelling of a sending one.
    UPDATE scheduled_notifications n
    SET status = 'cancelled', cancelled_by = coalesce(cancel_notification.actor, session_user), updated_at = now()
    WHERE n.id = cancel_notification.id AND n.status IN ('pending', 'sending')
    RETURNING n.status INTO result;
    IF FOUND THEN
        RETURN result;
    END IF;
    SELECT n.status INTO result FROM scheduled_notifications n WHERE n.id = cancel_notification.id;
    RETURN CASE WHEN result IS NULL THEN 'not_found' WHEN result = 'cancelling' THEN result ELSE 'already_' || result END;
END
$$;
COMMENT ON FUNCTION cancel_notification(bigint, text) IS
    'Cancels: cancelled = nothing was or will be sent; cancelling = it was in work, what is out is stopped and counted; not_found; already_ and the final status. Calling it again does no harm.';

CREATE OR REPLACE FUNCTION reschedule_notification(id bigint, scheduled_at timestamptz) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    result text;
BEGIN
    UPDATE scheduled_notifications n SET scheduled_at = coalesce(reschedule_notification.scheduled_at, now())
    WHERE n.id = reschedule_notification.id AND n.status = 'pending';
    IF FOUND THEN
        RETURN 'rescheduled';
    END IF;
    SELECT n.status INTO result FROM scheduled_notifications n WHERE n.id = reschedule_notification.id;
    RETURN coalesce(result, 'not_found');
END
$$;
COMMENT ON FUNCTION reschedule_notification(bigint, timestamptz) IS
    'Moves the due time of a pending notification: rescheduled, not_found, or the status that forbids it.';
