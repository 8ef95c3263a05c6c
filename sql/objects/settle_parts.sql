-- The rarer parts of settle: devices to be sent again, deactivations.

CREATE OR REPLACE FUNCTION pgpush_settle_numbers(
    p_owner uuid, u_notification bigint[], u_batch integer[], u_epoch integer[], b_unit integer[]) RETURNS integer[]
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    numbers int[] := array_fill(NULL::int, ARRAY[cardinality(b_unit)]);
    seq     int;
    r       record;
BEGIN
    -- Notifications are locked before batches, so numbers are drawn first; a report that turns out to be late leaves a gap at most.
    FOR r IN
        SELECT u_notification[x.unit] AS notification, array_agg(x.b ORDER BY x.b) AS bs
        FROM unnest(b_unit) WITH ORDINALITY x(unit, b) GROUP BY 1 ORDER BY 1
    LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM unnest(r.bs) b
            WHERE pgpush_holds(p_owner, r.notification, u_batch[b_unit[b]], u_epoch[b_unit[b]]));
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
COMMENT ON FUNCTION pgpush_settle_numbers(uuid, bigint[], integer[], integer[], integer[]) IS
    'Internal: draws batch numbers for devices to be sent again.';

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

CREATE OR REPLACE FUNCTION pgpush_settle_again(
    u_notification bigint[], u_batch integer[], u_epoch integer[],
    u_accepted integer[], u_rejected integer[], u_unknown integer[], u_accepted_age_ms integer[],
    p_owner uuid, results text[], statuses text[], apps text[], attempts integer[], numbers integer[],
    b_unit integer[], b_state text[], b_charged boolean[], b_delay_ms integer[], b_environment text[], b_topic text[],
    r_batch integer[], r_device bigint[]) RETURNS void
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
          FROM unnest(b_unit) b WHERE u_batch[b] = 0 AND results[b] = 'applied') x;

    INSERT INTO notification_batches (notification_id, batch_no, app, state, attempts, not_before, device_ids, device_count,
                                      environment, topic, finished_at)
    SELECT u_notification[x.unit], numbers[x.b], apps[x.unit], s.state, attempts[x.unit] + coalesce(x.charged, true)::int,
           CASE WHEN s.state = 'ready' THEN now() + coalesce(x.delay, 0) * interval '1 ms' END, d.ids, cardinality(d.ids),
           x.environment, x.topic, CASE WHEN s.state = 'abandoned' THEN now() END
    FROM unnest(b_unit, b_state, b_charged, b_delay_ms, b_environment, b_topic) WITH ORDINALITY
             x(unit, state, charged, delay, environment, topic, b)
    JOIN (SELECT r.b, array_agg(r.id ORDER BY abs(r.id)) AS ids FROM unnest(r_batch, r_device) r(b, id) GROUP BY 1) d ON d.b = x.b,
    -- Of a notification that is being cancelled nothing is sent again: retry_notification finds there who was not reached.
    LATERAL (SELECT CASE WHEN statuses[x.unit] <> 'sending' THEN 'abandoned' WHEN x.state = 'parked' THEN 'parked' ELSE 'ready' END
             AS state) s
    WHERE results[x.unit] = 'applied' AND numbers[x.b] IS NOT NULL;
$$;
COMMENT ON FUNCTION pgpush_settle_again(bigint[], integer[], integer[], integer[], integer[], integer[], integer[], uuid, text[],
    text[], text[], integer[], integer[], integer[], text[], boolean[], integer[], text[], text[], integer[], bigint[]) IS
    'Internal: makes batches of the devices that are to be sent again; abandoned ones when the notification is being cancelled.';

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
    INSERT INTO app_pauses (app, environment, topic, reason, automatic, paused_by, next_probe_at)
    SELECT DISTINCT ON (x.app, x.environment, x.topic)
           x.app, x.environment, x.topic, coalesce(x.reason, 'Unknown'), true, 'pgpush worker', now() + interval '30 s'
    FROM unnest(apps, environments, topics, reasons) x(app, environment, topic, reason)
    ORDER BY 1, 2, 3
    ON CONFLICT ON CONSTRAINT app_pauses_scope_key DO NOTHING
$$;
COMMENT ON FUNCTION pgpush_pause(text[], text[], text[], text[]) IS 'Internal: pauses scopes on account of Apple''s answers.';
