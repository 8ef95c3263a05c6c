-- Leases: renew them, look at the notification's status meanwhile, hand untouched units back.

CREATE OR REPLACE FUNCTION renew(p_owner uuid, u_notification bigint[], u_batch integer[], u_epoch integer[], p_lease interval)
    RETURNS TABLE (unit integer, held boolean, status text) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH u AS MATERIALIZED (
            SELECT x.o::int AS o, x.notification, x.batch, x.epoch
            FROM unnest(u_notification, u_batch, u_epoch) WITH ORDINALITY x(notification, batch, epoch, o)
            ORDER BY x.notification, x.batch
        ), direct AS (
            UPDATE scheduled_notifications n SET lease_until = greatest(n.lease_until, now() + p_lease), updated_at = now()
            FROM u WHERE u.batch = 0 AND n.id = u.notification AND n.owner = p_owner AND n.epoch = u.epoch
                AND n.lease_until IS NOT NULL
            RETURNING u.o
        ), batch AS (
            UPDATE notification_batches b SET lease_until = greatest(b.lease_until, now() + p_lease)
            FROM u WHERE u.batch > 0 AND b.notification_id = u.notification AND b.batch_no = u.batch AND b.owner = p_owner
                AND b.epoch = u.epoch AND b.lease_until IS NOT NULL
            RETURNING u.o
        ), kept AS (SELECT o FROM direct UNION ALL SELECT o FROM batch)
        SELECT u.o, k.o IS NOT NULL, n.status
        FROM u LEFT JOIN kept k ON k.o = u.o LEFT JOIN scheduled_notifications n ON n.id = u.notification;
END
$$;
COMMENT ON FUNCTION renew(uuid, bigint[], integer[], integer[], interval) IS
    'Worker: extends the leases of units. held = false: the lease is lost, send nothing more of it. status is the notification''s.';

CREATE OR REPLACE FUNCTION look(u_notification bigint[]) RETURNS TABLE (notification_id bigint, status text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
    SELECT n.id, n.status FROM scheduled_notifications n WHERE n.id = ANY (u_notification)
$$;
COMMENT ON FUNCTION look(bigint[]) IS
    'Worker: the statuses of notifications in work, to notice a cancel. One that was deleted has no row.';

CREATE OR REPLACE FUNCTION release(p_owner uuid, u_notification bigint[], u_batch integer[], u_epoch integer[])
    RETURNS TABLE (unit integer, released boolean) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = @schema@, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH u AS MATERIALIZED (
            SELECT x.o::int AS o, x.notification, x.batch, x.epoch
            FROM unnest(u_notification, u_batch, u_epoch) WITH ORDINALITY x(notification, batch, epoch, o)
            ORDER BY x.notification, x.batch
        ), direct AS (
            -- Nothing of it was sent: pending again, or cancelled if that was wished meanwhile. Given up, the sweep ends it.
            UPDATE scheduled_notifications n
            SET status = CASE WHEN n.status = 'cancelling' THEN 'cancelled' WHEN n.given_up THEN n.status ELSE 'pending' END,
                lease_until = NULL, owner = NULL, started_at = CASE WHEN n.given_up THEN n.started_at END, updated_at = now()
            FROM u WHERE u.batch = 0 AND n.id = u.notification AND n.owner = p_owner AND n.epoch = u.epoch
                AND n.lease_until IS NOT NULL
            RETURNING u.o
        ), batch AS (
            UPDATE notification_batches b
            SET state = CASE WHEN g.given_up THEN 'abandoned' ELSE 'ready' END, not_before = CASE WHEN NOT g.given_up THEN now() END,
                lease_until = NULL, owner = NULL, claimed_at = NULL, finished_at = CASE WHEN g.given_up THEN now() END
            FROM u JOIN scheduled_notifications g ON g.id = u.notification
            WHERE u.batch > 0 AND b.notification_id = u.notification AND b.batch_no = u.batch AND b.owner = p_owner
                AND b.epoch = u.epoch AND b.lease_until IS NOT NULL
            RETURNING u.o
        ), freed AS (SELECT o FROM direct UNION ALL SELECT o FROM batch)
        SELECT u.o, f.o IS NOT NULL FROM u LEFT JOIN freed f ON f.o = u.o;
    IF current_setting('pgpush.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify('pgpush', '');
    END IF;
END
$$;
COMMENT ON FUNCTION release(uuid, bigint[], integer[], integer[]) IS
    'Worker: hands back units of which nothing was sent. A notification becomes pending, a batch ready at once; of what was given up nothing is sent any more.';

CREATE OR REPLACE FUNCTION release_lost(p_owner uuid, p_apps text[], u_notification bigint[], u_batch integer[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    direct  constant bigint[] := ARRAY(SELECT x.n FROM unnest(u_notification, u_batch) x(n, b) WHERE x.b = 0);
    ids     bigint[];
    numbers int[];
    freed   bigint;
    more    bigint;
BEGIN
    -- What the owner holds and does not know of: a claim whose answer was lost with the connection. Nothing of it was sent.
    ids := ARRAY(SELECT n.id FROM scheduled_notifications n
                 WHERE n.app = ANY (p_apps) AND n.status IN ('sending', 'cancelling') AND n.owner = p_owner AND n.lease_until IS NOT NULL
                   AND NOT EXISTS (SELECT FROM unnest(direct) d WHERE d = n.id)
                 ORDER BY n.id FOR NO KEY UPDATE);
    UPDATE scheduled_notifications n
    SET status = CASE WHEN n.status = 'cancelling' THEN 'cancelled' WHEN n.given_up THEN n.status ELSE 'pending' END,
        lease_until = NULL, owner = NULL, started_at = CASE WHEN n.given_up THEN n.started_at END, updated_at = now()
    WHERE n.id = ANY (ids);
    GET DIAGNOSTICS freed = ROW_COUNT;
    SELECT array_agg(x.notification_id), array_agg(x.batch_no) INTO ids, numbers
    FROM (SELECT b.notification_id, b.batch_no FROM notification_batches b
          WHERE b.app = ANY (p_apps) AND b.state = 'leased' AND b.owner = p_owner
            AND NOT EXISTS (SELECT FROM unnest(u_notification, u_batch) u(n, b) WHERE u.n = b.notification_id AND u.b = b.batch_no)
          ORDER BY 1, 2 FOR NO KEY UPDATE) x;
    UPDATE notification_batches b
    SET state = CASE WHEN g.given_up THEN 'abandoned' ELSE 'ready' END, not_before = CASE WHEN NOT g.given_up THEN now() END,
        lease_until = NULL, owner = NULL, claimed_at = NULL, finished_at = CASE WHEN g.given_up THEN now() END
    FROM unnest(ids, numbers) x(n, b) JOIN scheduled_notifications g ON g.id = x.n WHERE b.notification_id = x.n AND b.batch_no = x.b;
    GET DIAGNOSTICS more = ROW_COUNT;
    freed := freed + more;
    PERFORM pgpush_notify_due(now()) WHERE freed > 0;
    RETURN freed;
END
$$;
COMMENT ON FUNCTION release_lost(uuid, text[], bigint[], integer[]) IS
    'Worker: after a claim of which nobody knows whether it was committed: hands back everything that this owner holds for these apps and does not list. Returns how many units. Nothing of them may have been sent.';
