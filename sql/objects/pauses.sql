-- Pauses: what is not sent at present, and why. A whole app, or both environments of it, is not claimed for; a narrower scope
-- (environment, topic) fills parked batches as it is met. Both wait uncharged, and go on when the scope is resumed.

CREATE OR REPLACE FUNCTION pause_app(app text, environment text DEFAULT NULL, reason text DEFAULT 'paused by an operator')
    RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    scope text := pgpush_environment(pause_app.environment);
    fresh boolean;
BEGIN
    IF pause_app.environment IS NOT NULL AND scope IS NULL THEN
        PERFORM pgpush_refuse('PN018', 'environment', format('environment %L is unknown', pause_app.environment),
            'It is production or sandbox; leave it out to pause both.');
    END IF;
    INSERT INTO app_pauses AS p (app, environment, reason)
    VALUES (coalesce(pause_app.app, 'default'), scope, coalesce(pause_app.reason, 'paused by an operator'))
    ON CONFLICT ON CONSTRAINT app_pauses_scope_key DO UPDATE  -- an automatic pause becomes the operator's: no probe ends it
        SET reason = EXCLUDED.reason, automatic = false, paused_by = EXCLUDED.paused_by, next_probe_at = NULL
    RETURNING xmax = 0 INTO fresh;
    RETURN fresh;
END
$$;
COMMENT ON FUNCTION pause_app(text, text, text) IS
    'Stops sending for an app, or for one environment of it, until resume_app. True if it was not paused before.';

CREATE OR REPLACE FUNCTION resume_app(app text, environment text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    resumed boolean;
BEGIN
    PERFORM pgpush_end_storms(coalesce(resume_app.app, 'default'), pgpush_environment(resume_app.environment), NULL)
    WHERE resume_app.environment IS NULL OR pgpush_environment(resume_app.environment) IS NOT NULL;
    DELETE FROM app_pauses p WHERE p.app = coalesce(resume_app.app, 'default')
        AND (resume_app.environment IS NULL OR p.environment = pgpush_environment(resume_app.environment));
    resumed := FOUND;
    PERFORM pgpush_unpark(coalesce(resume_app.app, 'default'));
    PERFORM pgpush_notify_due(now());
    RETURN resumed;
END
$$;
COMMENT ON FUNCTION resume_app(text, text) IS
    'Ends the pauses of an app, or of one environment of it, automatic ones too, and frees what was parked. True if there was one.';

CREATE OR REPLACE FUNCTION pgpush_unpark(p_app text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    freed bigint;
BEGIN
    -- A lot at a time, so that no call takes long; claims and the sweep go on with the rest.
    WITH parked AS MATERIALIZED (
        SELECT b.notification_id, b.batch_no FROM notification_batches b
        WHERE b.app = p_app AND b.state = 'parked' AND NOT EXISTS (
            SELECT FROM app_pauses p WHERE p.app = b.app
               AND (p.environment IS NULL OR p.environment = b.environment) AND (p.topic IS NULL OR p.topic = b.topic))
        LIMIT 2000 FOR NO KEY UPDATE OF b SKIP LOCKED
    )
    UPDATE notification_batches b SET state = 'ready', not_before = now() FROM parked p
    WHERE b.notification_id = p.notification_id AND b.batch_no = p.batch_no;
    GET DIAGNOSTICS freed = ROW_COUNT;
    RETURN freed;
END
$$;
COMMENT ON FUNCTION pgpush_unpark(text) IS 'Internal: makes ready a lot of the parked batches that no pause covers any more; returns how many.';

CREATE OR REPLACE FUNCTION current_pauses()
    RETURNS TABLE (app text, environment text, topic text, reason text, automatic boolean, paused_at timestamptz, next_probe_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
    SELECT p.app, p.environment, p.topic, p.reason, p.automatic, p.paused_at, p.next_probe_at FROM app_pauses p ORDER BY 1, 2, 3
$$;
COMMENT ON FUNCTION current_pauses() IS 'Worker: the scopes that are not sent to at present. Null environment or topic: all of them.';
