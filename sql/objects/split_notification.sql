-- Split: a target with more devices than a batch becomes ready batches, which any worker may claim.

CREATE OR REPLACE FUNCTION pgpush_audience(n scheduled_notifications) RETURNS bigint[]
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
    IF n.user_id IS NOT NULL THEN
        RETURN ARRAY(SELECT d.id FROM devices d
                     WHERE d.user_id = n.user_id AND d.app = n.app AND coalesce(d.is_active, false)
                       AND (n.environment IS NULL OR d.environment = n.environment)
                     ORDER BY d.id + 0);
    ELSIF n.user_ids <> '{}' THEN
        RETURN ARRAY(SELECT d.id FROM unnest(n.user_ids) u JOIN devices d ON d.user_id = u AND d.app = n.app
                     WHERE coalesce(d.is_active, false) AND (n.environment IS NULL OR d.environment = n.environment)
                     ORDER BY d.id + 0);
    END IF;
    -- Tokens go by position; those known to be inactive, or of another environment, are left out.
    RETURN ARRAY(SELECT -x.position
                 FROM unnest(n.device_tokens) WITH ORDINALITY x(token, position)
                 LEFT JOIN devices d ON d.app = n.app AND d.device_token = x.token
                 WHERE x.token <> '' AND (d.id IS NULL OR
                       (d.is_active AND (n.environment IS NULL OR d.environment = n.environment)))
                 ORDER BY x.position);
END
$$;
COMMENT ON FUNCTION pgpush_audience(scheduled_notifications) IS
    'Internal: the devices that a user, a list of users or a list of tokens reaches now: devices.id ascending, or minus the positions.';

CREATE OR REPLACE FUNCTION pgpush_split(n scheduled_notifications, audience bigint[], batch_size integer) RETURNS integer
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
DECLARE
    pieces constant int := (cardinality(audience) + batch_size - 1) / batch_size;
BEGIN
    INSERT INTO notification_batches (notification_id, batch_no, app, state, not_before, device_ids, device_count)
    SELECT n.id, n.batch_seq + k, n.app, 'ready', now(), piece, cardinality(piece)
    FROM generate_series(1, pieces) k,
         LATERAL (SELECT audience[(k - 1) * batch_size + 1 : k * batch_size] AS piece) s;
    UPDATE scheduled_notifications s
    SET status = 'sending', owner = n.owner, epoch = n.epoch, lease_until = NULL,
        batch_seq = n.batch_seq + pieces, started_at = coalesce(s.started_at, now()), updated_at = now()
    WHERE s.id = n.id;
    -- Whoever is idle may take a share.
    PERFORM pgpush_notify_due(now());
    RETURN pieces;
END
$$;
COMMENT ON FUNCTION pgpush_split(scheduled_notifications, bigint[], integer) IS
    'Internal: makes ready batches of an audience and puts the notification to sending; returns how many.';

CREATE OR REPLACE FUNCTION pgpush_split_lists(p_owner uuid, ids bigint[], batch_size integer) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp
AS $$
DECLARE
    budget   int := 100000;  -- elements looked at in one claim; what is over stays pending for the next
    small    bigint[] := '{}';
    audience bigint[];
    n        scheduled_notifications;
BEGIN
    FOR n IN SELECT * FROM scheduled_notifications s WHERE s.id = ANY (ids) ORDER BY s.id LOOP
        EXIT WHEN budget <= 0;
        budget := budget - cardinality(n.user_ids) - cardinality(n.device_tokens);
        IF cardinality(n.device_tokens) BETWEEN 1 AND batch_size THEN
            small := small || n.id;
            CONTINUE;
        END IF;
        audience := pgpush_audience(n);
        IF cardinality(audience) <= batch_size THEN
            small := small || n.id;
        ELSE
            n.epoch := n.epoch + 1;
            n.owner := p_owner;
            PERFORM pgpush_split(n, audience, batch_size);
        END IF;
    END LOOP;
    RETURN small;
END
$$;
COMMENT ON FUNCTION pgpush_split_lists(uuid, bigint[], integer) IS
    'Internal: splits those lists that are larger than a batch; returns the ids of the others.';

CREATE OR REPLACE FUNCTION split_notification(p_id bigint, p_owner uuid, p_epoch integer, p_batch_size integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    n scheduled_notifications;
BEGIN
    SELECT * INTO n FROM scheduled_notifications s
    WHERE s.id = p_id AND s.owner = p_owner AND s.epoch = p_epoch AND s.lease_until IS NOT NULL
    FOR NO KEY UPDATE;
    IF NOT FOUND OR n.status <> 'sending' THEN
        RETURN NULL;
    END IF;
    RETURN pgpush_split(n, pgpush_audience(n), p_batch_size);
END
$$;
COMMENT ON FUNCTION split_notification(bigint, uuid, integer, integer) IS
    'Worker: turns a directly leased notification with more devices than a batch into ready batches; returns how many, null when the lease is lost or it is being cancelled.';

CREATE OR REPLACE FUNCTION has_split(p_apps text[]) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
    SELECT EXISTS (SELECT FROM notification_batches b
                   WHERE b.app = ANY (p_apps) AND b.state = 'ready' AND b.not_before = now() AND b.created_at = now())
$$;
COMMENT ON FUNCTION has_split(text[]) IS
    'Worker: whether this transaction has made ready batches, which claim_batches finds at once. Called after claim_notifications, which returns no unit for them.';
