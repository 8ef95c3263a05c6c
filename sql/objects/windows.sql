-- Windows: what Apple answers in an app, environment and topic while dead tokens are proposed there.
--
--   no window ──first proposal──► open ──30 s, calm──► proposals applied, window gone          (judge_windows)
--                                  │ ▲──30 s, nothing was accepted yet: on, 24 h at most
--                                  └──a storm──► tripped: scope paused at once                 (settle)
--                                                proposals dropped, devices parked             (judge_windows)
--                                                window gone when the pause ends               (resume_app, end_pause)
--
-- A storm: more than a fifth of 50 answers or more were proposals, or there were ten and nothing was accepted. A device counts once,
-- however often it is pushed to while the window is open: one dead token must not pause a topic.
-- Locks: a window after all notifications, batches and devices; its proposals are written under its lock, and only the holder of its
-- advisory lock, which is taken before everything else, deletes them.

CREATE OR REPLACE FUNCTION pgpush_window_key(app text, environment text, topic text) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT hashtextextended(concat_ws(E'\x1f', app, environment, topic), 'token_windows'::regclass::oid::bigint)
$$;
COMMENT ON FUNCTION pgpush_window_key(text, text, text) IS 'Internal: the advisory lock of whoever judges a window.';

CREATE OR REPLACE FUNCTION pgpush_settle_windows(
    u_notification bigint[], u_batch integer[], results text[], s_app text[], s_environment text[], s_topic text[],
    w_unit integer[], w_scope integer[], w_accepted integer[], w_answered integer[],
    g_unit integer[], g_scope integer[], g_device bigint[], g_reason text[], g_age_ms integer[]) RETURNS SETOF token_windows
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    touched  token_windows[] := '{}';
    proposed bigint[] := '{}';         -- by touched: how many of these proposals
    fresh    bigint;                   -- devices not proposed before
    w        token_windows;
    r        record;
BEGIN
    FOR r IN
        SELECT s_app[x.scope] AS app, s_environment[x.scope] AS environment, s_topic[x.scope] AS topic,
               sum(x.accepted) AS accepted, greatest(sum(x.answered), sum(x.accepted + x.proposed)) AS answered, sum(x.proposed) AS proposed
        FROM (SELECT y.scope, coalesce(y.accepted, 0) AS accepted, coalesce(y.answered, 0) AS answered, 0 AS proposed
              FROM unnest(w_unit, w_scope, w_accepted, w_answered) y(unit, scope, accepted, answered) WHERE results[y.unit] = 'applied'
              UNION ALL
              SELECT y.scope, 0, 0, 1 FROM unnest(g_unit, g_scope) y(unit, scope) WHERE results[y.unit] = 'applied') x
        WHERE s_app[x.scope] IS NOT NULL AND s_environment[x.scope] IS NOT NULL AND s_topic[x.scope] IS NOT NULL
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    LOOP
        IF r.proposed > 0 THEN
            INSERT INTO token_windows AS t (app, environment, topic) VALUES (r.app, r.environment, r.topic)
            ON CONFLICT ON CONSTRAINT token_windows_pkey DO UPDATE SET proposed_count = t.proposed_count RETURNING t.* INTO w;
            -- All are written down, since each notification has its device parked in a storm. Counted is a device once: one that
            -- was proposed in this window before is no further answer. A person who was forgotten meanwhile leaves nothing here,
            -- and counts for nothing; the devices that are left are locked, see pgpush_settle_ledger.
            WITH written AS (
                INSERT INTO proposed_deactivations (app, environment, topic, notification_id, batch_no, device_id, device_key, reason, registered_before)
                SELECT r.app, r.environment, r.topic, x.notification, x.batch, x.device, x.key, x.reason, now() - x.age * interval '1 ms'
                FROM (SELECT u_notification[g.unit] AS notification, u_batch[g.unit] AS batch, g.device, coalesce(g.reason, 'Unknown') AS reason,
                             coalesce(g.age, 0) AS age,
                             CASE WHEN g.device > 0 THEN (SELECT d.id FROM devices d WHERE d.id = g.device)
                                  ELSE pgpush_listed_key(u_notification[g.unit], g.device) END AS key
                      FROM unnest(g_unit, g_scope, g_device, g_reason, g_age_ms) g(unit, scope, device, reason, age)
                      WHERE results[g.unit] = 'applied' AND s_app[g.scope] = r.app AND s_environment[g.scope] = r.environment
                        AND s_topic[g.scope] = r.topic) x
                WHERE x.key IS NOT NULL
                RETURNING device_key)
            SELECT count(DISTINCT x.device_key) INTO fresh FROM written x
            WHERE NOT EXISTS (SELECT FROM proposed_deactivations p
                              WHERE p.device_key = x.device_key AND p.app = r.app AND p.environment = r.environment AND p.topic = r.topic
                                AND p.id > coalesce(w.approved_id, 0));
            UPDATE token_windows t
            SET accepted_count = t.accepted_count + r.accepted, answered_count = t.answered_count + r.answered - r.proposed + fresh,
                proposed_count = t.proposed_count + fresh
            WHERE t.app = r.app AND t.environment = r.environment AND t.topic = r.topic RETURNING t.* INTO w;
        ELSE
            UPDATE token_windows t SET accepted_count = t.accepted_count + r.accepted, answered_count = t.answered_count + r.answered
            WHERE t.app = r.app AND t.environment = r.environment AND t.topic = r.topic AND t.tripped_at IS NULL
            RETURNING t.* INTO w;
            CONTINUE WHEN NOT FOUND;
        END IF;
        touched := touched || w;
        proposed := proposed || r.proposed::bigint;
    END LOOP;

    FOR i IN 1 .. cardinality(touched) LOOP
        w := touched[i];
        IF w.tripped_at IS NULL AND pgpush_is_storm(w) THEN
            UPDATE token_windows t
            SET tripped_at = now(), approved_id = NULL,
                reason = format('%s of %s answers were %s: wrong environment, key or topic?', t.proposed_count, t.answered_count,
                                pgpush_proposed_reasons(t.app, t.environment, t.topic))
            WHERE t.app = w.app AND t.environment = w.environment AND t.topic = w.topic RETURNING t.* INTO w;
            RETURN NEXT w;
        ELSIF w.tripped_at IS NOT NULL AND proposed[i] > 0 THEN
            RETURN NEXT w;  -- it goes on: the pause begins anew
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION pgpush_settle_windows IS
    'Internal: counts what Apple answered in windows that are open, opens one for what is proposed, and trips those that have become a storm. Returns the scopes to be paused.';

CREATE OR REPLACE FUNCTION pgpush_listed_key(p_notification bigint, p_device bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_app  text;
    listed text;
BEGIN
    SELECT n.app, nullif(n.device_tokens[-p_device], '') INTO v_app, listed FROM scheduled_notifications n WHERE n.id = p_notification;
    -- Nobody's device: a number below zero that the same token always has.
    RETURN coalesce((SELECT d.id FROM devices d WHERE d.app = v_app AND d.device_token = listed),
                    hashtextextended(listed, 0) | (1::bigint << 63));
END
$$;
COMMENT ON FUNCTION pgpush_listed_key(bigint, bigint) IS
    'Internal: device_key of a position in a list of tokens; null when the token was taken out meanwhile.';

CREATE OR REPLACE FUNCTION pgpush_is_storm(w token_windows) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT (w.answered_count >= 50 AND w.proposed_count * 5 > w.answered_count) OR (w.proposed_count >= 10 AND w.accepted_count = 0)
$$;
COMMENT ON FUNCTION pgpush_is_storm(token_windows) IS
    'Internal: whether so many tokens are refused that something else than the tokens must be wrong.';

CREATE OR REPLACE FUNCTION pgpush_proposed_reasons(app text, environment text, topic text) RETURNS text
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT coalesce(string_agg(y.reason, ' or ' ORDER BY y.often DESC, y.reason), 'BadDeviceToken')
    FROM (SELECT x.reason, count(*) AS often
          FROM (SELECT p.reason FROM proposed_deactivations p
                WHERE p.app = pgpush_proposed_reasons.app AND p.environment = pgpush_proposed_reasons.environment
                  AND p.topic = pgpush_proposed_reasons.topic
                LIMIT 1000) x GROUP BY 1) y
$$;
COMMENT ON FUNCTION pgpush_proposed_reasons(text, text, text) IS 'Internal: what Apple said of the tokens that are proposed in a scope.';

CREATE OR REPLACE FUNCTION pgpush_awaits_verdict(p_notification bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
AS $$
DECLARE
    w record;
    p record;
BEGIN
    FOR w IN SELECT t.app, t.environment, t.topic FROM token_windows t WHERE t.tripped_at IS NOT NULL LOOP
        -- The first entry at or after the one that is looked for: by this index and in one step, however many there are of this
        -- notification in other windows, or of others in this.
        SELECT x.notification_id, x.app, x.environment, x.topic INTO p FROM proposed_deactivations x
        WHERE (x.notification_id, x.app, x.environment, x.topic) >= (p_notification, w.app, w.environment, w.topic)
        ORDER BY x.notification_id, x.app, x.environment, x.topic LIMIT 1;
        IF p.notification_id = p_notification AND p.app = w.app AND p.environment = w.environment AND p.topic = w.topic THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;
COMMENT ON FUNCTION pgpush_awaits_verdict(bigint) IS
    'Internal: whether devices of a notification were refused in a storm and are still to be parked: it must not be finished before.';
