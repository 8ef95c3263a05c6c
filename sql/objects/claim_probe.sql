-- Probe: one device of a paused scope, to find out whether Apple takes it again. One worker at a time: moving next_probe_at on
-- is the claim. The worker sends it; when it is accepted the worker calls resume_app or end_pause, otherwise settle parks it again.

CREATE OR REPLACE FUNCTION claim_probe(p_owner uuid, p_apps text[], p_lease interval, p_every interval DEFAULT '60 seconds')
    RETURNS SETOF pgpush_unit LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    p  app_pauses;
    n  scheduled_notifications;
    b  notification_batches;
    place record;
BEGIN
    -- An operator's pause that covers the scope is not to be run through, nor, below, one that covers a parked batch.
    SELECT * INTO p FROM app_pauses x WHERE x.app = ANY (p_apps) AND x.automatic AND x.next_probe_at <= now()
        AND NOT pgpush_is_held(x.app, x.environment, x.topic)
    ORDER BY x.next_probe_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE app_pauses x SET next_probe_at = now() + p_every * (0.75 + random() / 2), probes = x.probes + 1
    WHERE x.app = p.app AND x.environment IS NOT DISTINCT FROM p.environment AND x.topic IS NOT DISTINCT FROM p.topic;

    -- What was parked first: a probe that was refused is parked last, so that one dead token does not stand for all for ever.
    SELECT y.notification_id, y.batch_no INTO place FROM notification_batches y JOIN scheduled_notifications s ON s.id = y.notification_id
    WHERE y.app = p.app AND y.state = 'parked' AND s.status || '' = 'sending' AND (s.expires_at IS NULL OR s.expires_at >= now())
      AND (p.environment IS NULL OR y.environment = p.environment) AND (p.topic IS NULL OR y.topic = p.topic)
      AND NOT pgpush_is_held(y.app, y.environment, y.topic)
    ORDER BY y.not_before LIMIT 1 FOR NO KEY UPDATE OF s SKIP LOCKED;
    IF NOT FOUND THEN
        -- Nothing is parked to try with: let traffic find out. After a storm that would cost ten devices a push each time: there
        -- the next pushes are parked and tried one by one.
        IF p.needed = 1 AND NOT EXISTS (SELECT FROM notification_batches y WHERE y.app = p.app AND y.state = 'parked') THEN
            DELETE FROM app_pauses x
            WHERE x.app = p.app AND x.environment IS NOT DISTINCT FROM p.environment AND x.topic IS NOT DISTINCT FROM p.topic;
            PERFORM pgpush_notify_due(now());
        END IF;
        RETURN;
    END IF;
    SELECT * INTO n FROM scheduled_notifications s WHERE s.id = place.notification_id;
    SELECT * INTO b FROM notification_batches y
    WHERE y.notification_id = n.id AND y.batch_no = place.batch_no AND y.state || '' = 'parked'
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    -- A batch of one device, so that a probe that fails has cost one request.
    IF cardinality(b.device_ids) > 1 THEN
        UPDATE notification_batches y SET device_ids = y.device_ids[2:], device_count = y.device_count - 1
        WHERE y.notification_id = b.notification_id AND y.batch_no = b.batch_no;
        n.batch_seq := n.batch_seq + 1;
        UPDATE scheduled_notifications s SET batch_seq = n.batch_seq, updated_at = now() WHERE s.id = n.id;
        b.batch_no := n.batch_seq;
        INSERT INTO notification_batches (notification_id, batch_no, app, state, attempts, device_ids, device_count, environment, topic)
        VALUES (n.id, b.batch_no, b.app, 'parked', b.attempts, b.device_ids[1:1], 1, b.environment, b.topic);
    END IF;
    RETURN QUERY
        UPDATE notification_batches y
        SET state = 'leased', owner = p_owner, epoch = y.epoch + 1, lease_until = now() + p_lease, claimed_at = now()
        WHERE y.notification_id = n.id AND y.batch_no = b.batch_no
        RETURNING n.id, y.batch_no, y.epoch, y.attempts, n.app, n.environment, n.push_type,
            coalesce(n.priority, CASE n.push_type WHEN 'background' THEN 5 ELSE 10 END)::smallint, n.topic,
            coalesce(n.collapse_id, CASE n.push_type WHEN 'alert' THEN 'pgpush-' || n.id END),
            n.expires_at, n.store_if_offline, n.delivery = 'at_most_once', n.channel_id, n.payload, y.device_count,
            greatest(n.scheduled_at, n.served_at);
END
$$;
COMMENT ON FUNCTION claim_probe(uuid, text[], interval, interval) IS
    'Worker: at most one device of an automatically paused scope whose probe is due, leased as a batch of one.';

CREATE OR REPLACE FUNCTION pgpush_is_held(p_app text, p_environment text, p_topic text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM app_pauses o WHERE o.app = p_app AND NOT o.automatic
                   AND (o.environment IS NULL OR o.environment = p_environment) AND (o.topic IS NULL OR o.topic = p_topic))
$$;
COMMENT ON FUNCTION pgpush_is_held(text, text, text) IS 'Internal: whether an operator''s pause covers this scope.';

CREATE OR REPLACE FUNCTION end_pause(p_app text, p_environment text, p_topic text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    p     app_pauses;
    ended boolean;
BEGIN
    SELECT * INTO p FROM app_pauses x WHERE x.app = p_app AND x.environment IS NOT DISTINCT FROM p_environment
        AND x.topic IS NOT DISTINCT FROM p_topic AND x.automatic;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Windows are locked before pauses.
    IF p.passed + 1 >= p.needed AND p_environment IS NOT NULL AND p_topic IS NOT NULL THEN
        PERFORM pgpush_end_storms(p_app, p_environment, p_topic);
    END IF;
    -- The next probe of several follows soon.
    UPDATE app_pauses x SET passed = x.passed + 1, next_probe_at = least(x.next_probe_at, now() + interval '5 s')
    WHERE x.app = p_app AND x.environment IS NOT DISTINCT FROM p_environment AND x.topic IS NOT DISTINCT FROM p_topic AND x.automatic
    RETURNING x.passed >= x.needed INTO ended;
    IF ended THEN
        DELETE FROM app_pauses x WHERE x.app = p_app AND x.environment IS NOT DISTINCT FROM p_environment
            AND x.topic IS NOT DISTINCT FROM p_topic AND x.automatic;
        PERFORM pgpush_unpark(p_app);
        PERFORM pgpush_notify_due(now());
    END IF;
    RETURN coalesce(ended, false);
END
$$;
COMMENT ON FUNCTION end_pause(text, text, text) IS
    'Worker: to be called when a probe was accepted: ends an automatic pause once enough of them were, in a row, and frees what was parked for it. True when it has ended. An operator''s pause stays.';
