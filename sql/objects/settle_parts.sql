-- The rarer parts of settle: devices to be sent again, deactivations.

CREATE OR REPLACE FUNCTION pgpush_settle_locks(
    u_notification bigint[], u_batch integer[], b_unit integer[], l_unit integer[], l_device bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    PERFORM FROM scheduled_notifications n
    WHERE n.id = ANY (ARRAY(
        SELECT x.notification FROM unnest(u_notification, u_batch) x(notification, batch) WHERE x.batch = 0
        UNION
        SELECT u_notification[b] FROM unnest(b_unit) b
        UNION
        SELECT u_notification[l.unit] FROM unnest(l_unit, l_device) l(unit, device) WHERE l.device < 0 AND u_batch[l.unit] > 0))
    ORDER BY n.id FOR NO KEY UPDATE;
END
$$;
COMMENT ON FUNCTION pgpush_settle_locks(bigint[], integer[], integer[], integer[], bigint[]) IS
    'Internal: locks, ascending, every notification that a settle with direct units and others writes to.';

DROP FUNCTION IF EXISTS pgpush_settle_numbers(uuid, bigint[], integer[], integer[], integer[]);
CREATE OR REPLACE FUNCTION pgpush_settle_numbers(
    p_owner uuid, u_notification bigint[], u_batch integer[], u_epoch integer[], b_unit integer[],
    l_unit integer[], l_device bigint[]) RETURNS integer[]
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    numbers int[] := array_fill(NULL::int, ARRAY[cardinality(b_unit)]);
    seq     int;
    r       record;
BEGIN
    -- Notifications are locked before batches, so numbers are drawn first; a report that turns out to be late leaves a gap at most.
    -- A list of tokens whose failures are written down is held meanwhile: forget_user blanks tokens in it, and then in the ledger.
    FOR r IN
        SELECT x.notification, coalesce(array_agg(x.b ORDER BY x.b) FILTER (WHERE x.b IS NOT NULL), '{}') AS bs
        FROM (SELECT u_notification[b.unit] AS notification, b.o AS b FROM unnest(b_unit) WITH ORDINALITY b(unit, o)
              UNION ALL
              SELECT DISTINCT u_notification[l.unit], NULL::bigint FROM unnest(l_unit, l_device) l(unit, device)
              WHERE l.device < 0 AND u_batch[l.unit] > 0) x
        GROUP BY 1 ORDER BY 1
    LOOP
        IF NOT EXISTS (SELECT FROM unnest(r.bs) b
                       WHERE pgpush_holds(p_owner, r.notification, u_batch[b_unit[b]], u_epoch[b_unit[b]])) THEN
            PERFORM FROM scheduled_notifications n WHERE n.id = r.notification AND n.device_tokens <> '{}' FOR SHARE;
            CONTINUE;
        END IF;
        UPDATE scheduled_notifications n SET batch_seq = n.batch_seq + cardinality(r.bs), updated_at = now()
        WHERE n.id = r.notification AND n.finished_at IS NULL RETURNING n.batch_seq INTO seq;
        IF FOUND THEN
            FOR k IN 1 .. cardinality(r.bs) LOOP
                numbers[r.bs[k]] := seq - cardinality(r.bs) + k;
            END LOOP;
        END IF;
    END LOOP;
    RETURN numbers;
END
$$;
COMMENT ON FUNCTION pgpush_settle_numbers IS
    'Internal: draws batch numbers for devices to be sent again, and holds lists of tokens whose failures are to be written down.';

CREATE OR REPLACE FUNCTION pgpush_holds(p_owner uuid, p_notification bigint, p_batch integer, p_epoch integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF p_batch = 0 THEN
        RETURN EXISTS (SELECT FROM scheduled_notifications n WHERE n.id = p_notification
                       AND n.owner = p_owner AND n.epoch = p_epoch AND n.lease_until IS NOT NULL);
    END IF;
    RETURN EXISTS (SELECT FROM notification_batches b WHERE b.notification_id = p_notification AND b.batch_no = p_batch
                   AND b.owner = p_owner AND b.epoch = p_epoch AND b.lease_until IS NOT NULL);
END
$$;
COMMENT ON FUNCTION pgpush_holds(uuid, bigint, integer, integer) IS 'Internal: whether this owner holds the lease of a unit.';

DROP FUNCTION IF EXISTS pgpush_settle_again(bigint[], integer[], integer[], integer[], integer[], integer[], integer[], uuid, text[],
    text[], text[], integer[], integer[], integer[], text[], boolean[], integer[], text[], text[], integer[], bigint[]);
DROP FUNCTION IF EXISTS pgpush_settle_again(bigint[], integer[], integer[], integer[], integer[], integer[], integer[], boolean[], uuid,
    text[], text[], text[], integer[], integer[], integer[], text[], boolean[], integer[], text[], text[], integer[], bigint[]);
CREATE OR REPLACE FUNCTION pgpush_settle_again(
    u_notification bigint[], u_batch integer[], u_epoch integer[],
    u_accepted integer[], u_rejected integer[], u_unknown integer[], u_accepted_age_ms integer[],
    u_done boolean[], p_owner uuid, results text[], statuses text[], apps text[], attempts integer[], numbers integer[],
    b_unit integer[], b_state text[], b_charged boolean[], b_delay_ms integer[], b_environment text[], b_topic text[],
    r_batch integer[], r_device bigint[], g_unit integer[]) RETURNS void
    LANGUAGE sql SET search_path = @schema@, pg_temp
AS $$
    -- From now on the notification has batches, and its totals are their sums: the direct unit gets a row of its own, number 0.
    INSERT INTO notification_batches (notification_id, batch_no, app, state, owner, epoch, device_count, accepted_count,
                                      rejected_count, unknown_count, last_accepted_at, claimed_at, finished_at)
    SELECT u_notification[x.unit], 0, apps[x.unit], 'done', p_owner, u_epoch[x.unit],
           x.accepted + x.rejected + x.unknown, x.accepted, x.rejected, x.unknown,
           CASE WHEN x.accepted > 0 THEN now() - coalesce(u_accepted_age_ms[x.unit], 0) * interval '1 ms' END, now(), now()
    FROM (SELECT DISTINCT b AS unit, coalesce(u_accepted[b], 0) AS accepted, coalesce(u_rejected[b], 0) AS rejected,
                 coalesce(u_unknown[b], 0) AS unknown
          FROM unnest(b_unit || g_unit) b WHERE u_batch[b] = 0 AND u_done[b] AND results[b] = 'applied') x;

    INSERT INTO notification_batches (notification_id, batch_no, app, state, attempts, not_before, device_ids, device_count,
                                      environment, topic, finished_at)
    SELECT u_notification[x.unit], numbers[x.b], apps[x.unit], s.state, attempts[x.unit] + coalesce(x.charged, true)::int,
           -- of a parked one: since when, for the probes
           CASE s.state WHEN 'ready' THEN now() + coalesce(x.delay, 0) * interval '1 ms' WHEN 'parked' THEN now() END, d.ids, cardinality(d.ids),
           x.environment, x.topic, CASE WHEN s.state = 'abandoned' THEN now() END
    FROM unnest(b_unit, b_state, b_charged, b_delay_ms, b_environment, b_topic) WITH ORDINALITY
             x(unit, state, charged, delay, environment, topic, b)
    JOIN (SELECT r.b, array_agg(r.id ORDER BY abs(r.id)) AS ids FROM unnest(r_batch, r_device) r(b, id) GROUP BY 1) d ON d.b = x.b,
    -- Of a notification that is being cancelled, or was given up, nothing is sent again: retry_notification finds there who was
    -- not reached.
    LATERAL (SELECT CASE WHEN statuses[x.unit] <> 'sending' OR EXISTS (
                                  SELECT FROM scheduled_notifications n WHERE n.id = u_notification[x.unit] AND n.given_up) THEN 'abandoned'
                         WHEN x.state = 'parked' THEN 'parked' ELSE 'ready' END AS state) s
    WHERE results[x.unit] = 'applied' AND numbers[x.b] IS NOT NULL;

    -- A batch that goes on after a checkpoint has lost those devices.
    UPDATE notification_batches y SET device_count = greatest(y.device_count - x.moved, 0)
    FROM (SELECT b.unit, count(*)::int AS moved FROM unnest(b_unit) WITH ORDINALITY b(unit, o) JOIN unnest(r_batch) r(b) ON r.b = b.o
          WHERE u_batch[b.unit] > 0 AND NOT u_done[b.unit] AND results[b.unit] = 'applied' AND numbers[b.o] IS NOT NULL GROUP BY 1) x
    WHERE y.notification_id = u_notification[x.unit] AND y.batch_no = u_batch[x.unit];
$$;
COMMENT ON FUNCTION pgpush_settle_again IS
    'Internal: makes batches of the devices that are to be sent again, and one of what a direct unit has come to that may be; abandoned ones when the notification is being cancelled or was given up.';

CREATE OR REPLACE FUNCTION pgpush_settle_ledger(
    u_notification bigint[], u_batch integer[], results text[], apps text[], attempts integer[],
    l_unit integer[], l_device bigint[], l_token text[], l_environment text[], l_status integer[], l_reason text[], l_final boolean[],
    l_age_ms integer[], d_unit integer[], d_device bigint[], g_unit integer[], g_device bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_hashjoin = on SET jit = off
AS $$
DECLARE
    known bigint[] := l_device || d_device || g_device;
BEGIN
    IF 0 > ANY (known) THEN
        known := known || ARRAY(
            SELECT d.id FROM unnest(d_unit || g_unit, d_device || g_device) x(unit, device)
            JOIN scheduled_notifications n ON n.id = u_notification[x.unit]
            JOIN devices d ON d.app = n.app AND d.device_token = n.device_tokens[-x.device] WHERE x.device < 0);
    END IF;
    -- Whoever is forgotten at this moment has the token taken out of the ledger first or last: forget_user locks the devices before
    -- it looks into the ledger for the last time. All devices at once, those too that are retired below, for the order's sake.
    known := ARRAY(SELECT d.id FROM devices d WHERE d.id = ANY (known) ORDER BY d.id FOR KEY SHARE);
    INSERT INTO delivery_failures (occurred_at, notification_id, batch_no, app, environment, device_id, device_token,
                                   http_status, reason, apns_id, attempt, is_final)
    SELECT now() - coalesce(l.age, 0) * interval '1 ms', u_notification[l.unit], u_batch[l.unit], apps[l.unit], l.environment,
           l.device, CASE WHEN l.device > 0 THEN CASE WHEN k.id IS NOT NULL THEN l.token END
                          WHEN NOT pgpush_is_erased(u_notification[l.unit], l.device) THEN l.token END,
           nullif(l.http_status, 0), coalesce(l.reason, 'Unknown'),
           CASE WHEN u_notification[l.unit] BETWEEN 0 AND (1::bigint << 60) - 1
                      AND l.device BETWEEN 1 - (1::bigint << 60) AND (1::bigint << 60) - 1
                THEN apns_id(u_notification[l.unit], l.device) END, attempts[l.unit], coalesce(l.final, true)
    FROM unnest(l_unit, l_device, l_token, l_environment, l_status, l_reason, l_final, l_age_ms)
         l(unit, device, token, environment, http_status, reason, final, age)
    LEFT JOIN unnest(known) k(id) ON k.id = l.device
    WHERE results[l.unit] = 'applied';
END
$$;
COMMENT ON FUNCTION pgpush_settle_ledger IS
    'Internal: writes the ledger; without the token where its owner was forgotten meanwhile.';

CREATE OR REPLACE FUNCTION pgpush_deactivate(
    u_notification bigint[], d_unit integer[], d_device bigint[], d_reason text[], d_before timestamptz[], d_age_ms integer[])
    RETURNS void LANGUAGE plpgsql SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
    -- A negative number is a position in the list of tokens: the device, if there is one, is found by its token.
    -- A registration after the time that the answer speaks of says that the token is good again.
    WITH said AS MATERIALIZED (
        SELECT DISTINCT ON (d.id) d.id, x.reason, x.before
        FROM (SELECT u_notification[s.unit] AS notification, s.device, s.reason,
                     -- whoever registered after the push was sent has a living token, whatever time the answer names
                     least(s.before, now() - coalesce(s.age, 0) * interval '1 ms') AS before
              FROM unnest(d_unit, d_device, d_reason, d_before, d_age_ms) s(unit, device, reason, before, age)) x
        LEFT JOIN scheduled_notifications n ON x.device < 0 AND n.id = x.notification
        JOIN LATERAL (
            SELECT d.id FROM devices d WHERE x.device > 0 AND d.id = x.device
            UNION ALL
            SELECT d.id FROM devices d WHERE x.device < 0 AND d.app = n.app AND d.device_token = n.device_tokens[-x.device]) d ON true
        ORDER BY d.id, x.before DESC
    ), locked AS MATERIALIZED (
        SELECT d.id, s.reason FROM said s JOIN devices d ON d.id = s.id
        WHERE coalesce(d.is_active, false) AND d.registered_at < s.before
        ORDER BY s.id + 0 FOR NO KEY UPDATE OF d
    )
    UPDATE devices d SET is_active = false, deactivated_at = now(), deactivation_reason = l.reason, updated_at = now()
    FROM locked l WHERE d.id = l.id;
END
$$;
COMMENT ON FUNCTION pgpush_deactivate(bigint[], integer[], bigint[], text[], timestamptz[], integer[]) IS
    'Internal: deactivates devices that were registered before the given time (null: before the push was sent).';

CREATE OR REPLACE FUNCTION pgpush_pause(apps text[], environments text[], topics text[], reasons text[]) RETURNS void
    LANGUAGE sql SET search_path = @schema@, pg_temp
AS $$
    -- Where tokens were refused in masses one that is accepted proves little: it takes three in a row to end such a pause.
    INSERT INTO app_pauses AS p (app, environment, topic, reason, automatic, paused_by, next_probe_at, needed)
    SELECT DISTINCT ON (x.app, x.environment, x.topic)
           x.app, x.environment, x.topic, coalesce(x.reason, 'Unknown'), true, 'pgpush worker', now() + interval '30 s',
           CASE WHEN x.reason ~ '\m(BadDeviceToken|DeviceTokenNotForTopic)\M' THEN 3 ELSE 1 END
    FROM unnest(apps, environments, topics, reasons) WITH ORDINALITY x(app, environment, topic, reason, o)
    ORDER BY 1, 2, 3, x.o DESC  -- storms are last
    ON CONFLICT ON CONSTRAINT app_pauses_scope_key DO UPDATE
        SET passed = 0, needed = greatest(p.needed, EXCLUDED.needed),
            reason = CASE WHEN EXCLUDED.needed > p.needed THEN EXCLUDED.reason ELSE p.reason END
        WHERE p.automatic AND (p.passed > 0 OR EXCLUDED.needed > p.needed)
$$;
COMMENT ON FUNCTION pgpush_pause(text[], text[], text[], text[]) IS
    'Internal: pauses scopes on account of Apple''s answers; one that is paused already begins anew to count its accepted probes.';

CREATE OR REPLACE FUNCTION pgpush_is_erased(p_notification bigint, p_device bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    -- Only a list of tokens has negative numbers; forget_user leaves an empty text in it.
    RETURN p_device < 0 AND (SELECT n.device_tokens[-p_device] = '' FROM scheduled_notifications n WHERE n.id = p_notification);
END
$$;
COMMENT ON FUNCTION pgpush_is_erased(bigint, bigint) IS
    'Internal: whether the token at a position was taken out of the list while it was being sent to.';
