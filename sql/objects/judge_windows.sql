-- Judge: what becomes of proposed deactivations. One window a call is worked on, so that locks are taken in order; whoever calls goes on
-- at once while there is progress. Locks: the advisory lock of the window first, then as everywhere: notifications, batches, devices,
-- windows, pauses.

CREATE OR REPLACE FUNCTION pgpush_has_proposal(app text, environment text, topic text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM proposed_deactivations p
                   WHERE p.app = pgpush_has_proposal.app AND p.environment = pgpush_has_proposal.environment
                     AND p.topic = pgpush_has_proposal.topic);
END
$$;
COMMENT ON FUNCTION pgpush_has_proposal(text, text, text) IS 'Internal: whether anything is proposed in a scope.';

CREATE OR REPLACE FUNCTION pgpush_is_needed(w token_windows) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    -- As a rule the end of the pause removes the window; this is for a pause that somebody has deleted.
    SELECT pgpush_has_proposal(w.app, w.environment, w.topic) OR EXISTS (
        SELECT FROM app_pauses p WHERE p.app = w.app AND coalesce(p.environment, w.environment) = w.environment
           AND coalesce(p.topic, w.topic) = w.topic)
$$;
COMMENT ON FUNCTION pgpush_is_needed(token_windows) IS
    'Internal: whether a tripped window has proposals to be dropped, or stands for a pause.';

CREATE OR REPLACE FUNCTION pgpush_is_ripe(w token_windows) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE WHEN w.tripped_at IS NOT NULL THEN pgpush_has_proposal(w.app, w.environment, w.topic) OR NOT pgpush_is_needed(w)
                ELSE w.approved_id IS NOT NULL OR (w.closes_at <= now() AND w.accepted_count > 0)
                     OR w.opened_at <= now() - interval '24 hours' END
$$;
COMMENT ON FUNCTION pgpush_is_ripe(token_windows) IS 'Internal: whether there is something to do about a window.';

CREATE OR REPLACE FUNCTION judge_windows(p_apps text[])
    RETURNS TABLE (app text, environment text, topic text, verdict text, applied bigint, dropped bigint, requeued bigint, reason text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    w       token_windows;
    worked  boolean := false;
BEGIN
    FOR w IN SELECT * FROM token_windows t WHERE t.app = ANY (p_apps) ORDER BY t.app, t.environment, t.topic LOOP
        app := w.app; environment := w.environment; topic := w.topic; reason := w.reason;
        verdict := CASE WHEN w.tripped_at IS NULL THEN 'open' ELSE 'tripped' END;
        applied := 0; dropped := 0; requeued := 0;
        IF NOT worked AND pgpush_is_ripe(w) AND pg_try_advisory_xact_lock(pgpush_window_key(w.app, w.environment, w.topic)) THEN
            IF w.tripped_at IS NOT NULL THEN
                worked := true;
                SELECT s.dropped, s.requeued INTO dropped, requeued
                FROM pgpush_judge_storm(ARRAY[w.app], ARRAY[w.environment], ARRAY[w.topic], 5000) s;
                -- Locked first: what was proposed until then is seen by the DELETE.
                PERFORM FROM token_windows t WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic FOR UPDATE;
                DELETE FROM token_windows t
                WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic AND NOT pgpush_is_needed(t);
            ELSE
                SELECT s.verdict, s.applied, s.dropped, s.reason INTO verdict, applied, dropped, reason
                FROM pgpush_judge_open(w, 5000) s;
                -- Somebody holds all that is proposed here: nothing was done or locked, and the next window need not wait for it.
                worked := verdict IS NOT NULL;
                verdict := coalesce(verdict, 'open'); applied := coalesce(applied, 0); dropped := coalesce(dropped, 0);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION judge_windows(text[]) IS
    'Worker: judges what was proposed: in calm windows whose time is over it retires devices, in storms it drops the proposals and parks the devices. One row for each window of these apps; call it again at once while a row is calm or says that something was applied, dropped or requeued.';

CREATE OR REPLACE FUNCTION pgpush_judge_open(
    w token_windows, p_limit integer, OUT verdict text, OUT applied bigint, OUT dropped bigint, OUT reason text)
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    lot     tid[];  -- proposals
    n_ids   bigint[]; d_ids bigint[]; whys text[]; befores timestamptz[];
    devs    bigint[]; reasons text[];
    present token_windows;
BEGIN
    applied := 0; dropped := 0;
    -- Locked here, before the devices: forget_user deletes proposals without waiting for whoever holds them.
    SELECT array_agg(x.place), array_agg(x.notification_id), array_agg(x.device_id), array_agg(x.reason), array_agg(x.registered_before)
    INTO lot, n_ids, d_ids, whys, befores
    FROM (SELECT p.ctid AS place, p.notification_id, p.device_id, p.reason, p.registered_before FROM proposed_deactivations p
          WHERE p.app = w.app AND p.environment = w.environment AND p.topic = w.topic AND p.id <= coalesce(w.approved_id, p.id)
          ORDER BY p.id LIMIT p_limit FOR UPDATE SKIP LOCKED) x;
    IF lot IS NULL AND pgpush_has_proposal(w.app, w.environment, w.topic) THEN
        RETURN;
    END IF;
    IF w.accepted_count > 0 OR w.approved_id IS NOT NULL THEN
        -- Devices are locked before the window, and retired only if it is still calm then. What was registered again since, is of
        -- another environment now, or was proposed by a notification that is gone stays as it is.
        WITH said AS MATERIALIZED (
            SELECT DISTINCT ON (d.id) d.id, p.reason, p.before
            FROM unnest(n_ids, d_ids, whys, befores) p(notification, device, reason, before)
            JOIN scheduled_notifications s ON s.id = p.notification
            JOIN LATERAL (
                SELECT d.id FROM devices d WHERE p.device > 0 AND d.id = p.device
                UNION ALL
                SELECT d.id FROM devices d WHERE p.device < 0 AND d.app = s.app AND d.device_token = s.device_tokens[-p.device]) d ON true
            -- A token that is not for this topic may be the right one for the app itself: a person with calls has one of each kind.
            WHERE p.reason <> 'DeviceTokenNotForTopic' OR (s.push_type IN ('alert', 'background') AND s.topic IS NULL)
            ORDER BY d.id, p.before DESC
        ), locked AS MATERIALIZED (
            SELECT d.id, s.reason FROM said s JOIN devices d ON d.id = s.id
            WHERE coalesce(d.is_active, false) AND d.app || '' = w.app AND d.environment = w.environment AND d.registered_at < s.before
            ORDER BY s.id + 0 FOR NO KEY UPDATE OF d
        )
        SELECT array_agg(l.id), array_agg(l.reason) INTO devs, reasons FROM locked l;
    END IF;

    SELECT * INTO present FROM token_windows t WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic FOR UPDATE;
    verdict := CASE WHEN present.tripped_at IS NULL THEN 'open' ELSE 'tripped' END;
    reason := present.reason;
    IF present.opened_at IS DISTINCT FROM w.opened_at OR present.tripped_at IS NOT NULL THEN
        RETURN;  -- tripped meanwhile, or another window already
    END IF;
    IF w.accepted_count = 0 AND w.approved_id IS NULL AND present.accepted_count > 0 THEN
        RETURN;  -- the first acceptance came at the last moment
    END IF;
    UPDATE devices d SET is_active = false, deactivated_at = now(), deactivation_reason = x.reason, updated_at = now()
    FROM unnest(devs, reasons) x(id, reason) WHERE d.id = x.id;
    GET DIAGNOSTICS applied = ROW_COUNT;
    DELETE FROM proposed_deactivations p WHERE p.ctid = ANY (lot);
    GET DIAGNOSTICS dropped = ROW_COUNT;
    dropped := dropped - applied;
    IF w.accepted_count = 0 AND w.approved_id IS NULL THEN
        reason := 'no push was accepted within 24 hours';
    ELSE
        verdict := 'calm';
        reason := CASE WHEN w.approved_id IS NULL THEN format('%s of %s answers', present.proposed_count, present.answered_count)
                       ELSE 'continued' END;
    END IF;

    IF NOT pgpush_has_proposal(w.app, w.environment, w.topic) THEN
        DELETE FROM token_windows t WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic;
    ELSIF w.approved_id IS NULL THEN
        -- The rest is approved too, up to here; what comes from now on is judged by what is answered from now on.
        UPDATE token_windows t
        SET opened_at = now(), closes_at = now() + interval '30 s', accepted_count = 0, answered_count = 0, proposed_count = 0,
            approved_id = (SELECT max(p.id) FROM proposed_deactivations p
                           WHERE p.app = w.app AND p.environment = w.environment AND p.topic = w.topic)
        WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic AND verdict = 'calm';
    ELSIF NOT EXISTS (SELECT FROM proposed_deactivations p
                      WHERE p.app = w.app AND p.environment = w.environment AND p.topic = w.topic AND p.id <= w.approved_id) THEN
        UPDATE token_windows t SET approved_id = NULL WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic;
    END IF;
END
$$;
COMMENT ON FUNCTION pgpush_judge_open(token_windows, integer) IS
    'Internal: applies a lot of what is proposed in a calm window, or drops it where nothing was accepted for a day; verdict is null when others hold all of it, and nothing was locked then.';

CREATE OR REPLACE FUNCTION pgpush_judge_storm(
    p_apps text[], p_environments text[], p_topics text[], p_limit integer, OUT dropped bigint, OUT requeued bigint)
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    places int[];  -- of the scopes, by proposal
    ids    bigint[]; n_ids bigint[]; numbers int[]; d_ids bigint[]; times timestamptz[];
    held   bigint[];  -- notifications, as far as they are still being sent
    part   record;
BEGIN
    requeued := 0;
    SELECT array_agg(x.place), array_agg(x.id), array_agg(x.notification_id), array_agg(x.batch_no), array_agg(x.device_id),
           array_agg(x.proposed_at)
    INTO places, ids, n_ids, numbers, d_ids, times
    FROM (SELECT s.place::int AS place, p.*
          FROM unnest(p_apps, p_environments, p_topics) WITH ORDINALITY s(app, environment, topic, place), LATERAL (
              SELECT y.id, y.notification_id, y.batch_no, y.device_id, y.proposed_at FROM proposed_deactivations y
              WHERE y.app = s.app AND y.environment = s.environment AND y.topic = s.topic ORDER BY y.id LIMIT p_limit) p
          ORDER BY p.id LIMIT p_limit) x;
    -- All notifications are locked before the first batch. Of one that is finished, is being cancelled, has expired or was given up
    -- nothing is sent any more.
    held := ARRAY(SELECT s.id FROM scheduled_notifications s
                  WHERE s.id IN (SELECT unnest(n_ids)) AND s.status || '' = 'sending' AND NOT s.given_up
                    AND (s.expires_at IS NULL OR s.expires_at >= now())
                  ORDER BY s.id FOR NO KEY UPDATE);
    FOR part IN
        SELECT x.notification, p_environments[x.place] AS environment, p_topics[x.place] AS topic, array_agg(x.batch_no) AS batches,
               array_agg(x.device) AS devices, min(x.proposed_at) AS since
        FROM unnest(places, n_ids, numbers, d_ids, times) x(place, notification, batch_no, device, proposed_at)
        WHERE x.notification = ANY (held) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    LOOP
        requeued := requeued + pgpush_requeue(part.notification, part.batches, part.devices, part.since, part.environment, part.topic);
    END LOOP;
    -- By their keys one after another, whatever the planner thinks of the table.
    DELETE FROM proposed_deactivations p WHERE p.ctid = ANY (ARRAY(
        SELECT y.place FROM unnest(places, ids) x(place, id), LATERAL (
            SELECT z.ctid AS place FROM proposed_deactivations z
            WHERE z.app = p_apps[x.place] AND z.environment = p_environments[x.place] AND z.topic = p_topics[x.place] AND z.id = x.id
            LIMIT 1 FOR UPDATE) y));
    GET DIAGNOSTICS dropped = ROW_COUNT;
    dropped := dropped - requeued;
END
$$;
COMMENT ON FUNCTION pgpush_judge_storm(text[], text[], text[], integer) IS
    'Internal: drops a lot of what is proposed in tripped windows; devices of notifications that are not finished are parked, to be sent to again when the pause ends.';

CREATE OR REPLACE FUNCTION pgpush_end_storms(p_app text, p_environment text, p_topic text) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
DECLARE
    scopes token_windows[];
    ended  record;
BEGIN
    scopes := ARRAY(SELECT t FROM token_windows t
                    WHERE t.app = p_app AND t.tripped_at IS NOT NULL AND (p_environment IS NULL OR t.environment = p_environment)
                      AND (p_topic IS NULL OR t.topic = p_topic)
                    ORDER BY t.app, t.environment, t.topic);
    IF scopes = '{}' THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(x.key)
    FROM (SELECT pgpush_window_key(s.app, s.environment, s.topic) AS key FROM unnest(scopes) s ORDER BY s.app, s.environment, s.topic) x;
    PERFORM pgpush_judge_storm(array_agg(s.app), array_agg(s.environment), array_agg(s.topic), NULL) FROM unnest(scopes) s;
    -- Something may have been proposed just now: then the next call of judge_windows removes the window.
    PERFORM FROM token_windows t
    WHERE (t.app, t.environment, t.topic) IN (SELECT s.app, s.environment, s.topic FROM unnest(scopes) s)
    ORDER BY t.app, t.environment, t.topic FOR UPDATE;
    DELETE FROM token_windows t
    WHERE (t.app, t.environment, t.topic) IN (SELECT s.app, s.environment, s.topic FROM unnest(scopes) s)
      AND t.tripped_at IS NOT NULL AND NOT pgpush_has_proposal(t.app, t.environment, t.topic);
END
$$;
COMMENT ON FUNCTION pgpush_end_storms(text, text, text) IS
    'Internal: parks what storms of these scopes have left and removes their windows, so that they start anew. To be called before the pause is deleted.';
