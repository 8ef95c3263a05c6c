-- Who may call what. These functions act with the rights of their owner, so nobody may call them who was not told so:
-- the owner of the schema, and the roles that roles.sql makes.

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace = '@schema@'::regnamespace AND (p.proname LIKE 'pgpush\_%' OR p.proname IN (
            'apns_id', 'apns_id_notification', 'apns_id_device', 'enqueue_notification', 'cancel_notification',
            'reschedule_notification', 'retry_notification', 'forget_user', 'register_device', 'unregister_device', 'touch_device',
            'audience_count', 'pause_app', 'resume_app', 'claim_notifications', 'claim_broadcasts', 'claim_batches', 'claim_probe',
            'expand', 'settle', 'finalise', 'renew', 'look', 'release', 'split_notification', 'has_split', 'sweep', 'next_due', 'next_lost',
            'current_pauses', 'queue_figures',
            'end_pause', 'heartbeat', 'goodbye', 'judge_windows', 'give_up_rest', 'release_lost'))
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END
$$;

-- A function that was made anew with other arguments has lost its grants; whoever has the roles in this schema shall not have to run
-- migrate --roles again before a worker may go on.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgpush_worker')
        AND has_function_privilege('pgpush_worker', 'look(bigint[])', 'EXECUTE') THEN
        GRANT EXECUTE ON FUNCTION settle, heartbeat, judge_windows, give_up_rest, release_lost, queue_figures TO pgpush_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgpush_operator') AND has_table_privilege('pgpush_operator', 'app_pauses', 'SELECT') THEN
        GRANT SELECT ON token_windows, proposed_deactivations TO pgpush_operator;
    END IF;
END
$$;
