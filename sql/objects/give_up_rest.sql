-- Give up: Apple refuses a notification for what it is (content, topic, channel), and would for every device. What is out ends by itself.

CREATE OR REPLACE FUNCTION give_up_rest(p_notifications bigint[], p_reasons text[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    ids   bigint[];
    given bigint;
BEGIN
    -- What somebody has accepted is not refused for what it is: a worker sees only its own part of the answers.
    ids := ARRAY(SELECT n.id FROM scheduled_notifications n WHERE n.id = ANY (p_notifications) AND n.status = 'sending'
                   AND NOT pgpush_is_accepted(n.id)
                 ORDER BY n.id FOR NO KEY UPDATE);
    UPDATE scheduled_notifications n
    SET given_up = true, walking = false, error = coalesce(x.reason, n.error, 'Unknown'), updated_at = now()
    FROM (SELECT DISTINCT ON (y.id) y.id, y.reason FROM unnest(p_notifications, p_reasons) y(id, reason) ORDER BY y.id) x
    WHERE n.id = x.id AND n.id = ANY (ids) AND NOT n.given_up;
    GET DIAGNOSTICS given = ROW_COUNT;
    -- In order, as they are locked everywhere; a claim that is quicker has its batch, and finds out by itself.
    WITH open AS MATERIALIZED (
        SELECT b.notification_id, b.batch_no FROM notification_batches b
        WHERE b.notification_id = ANY (ids) AND b.state IN ('ready', 'parked') ORDER BY 1, 2 FOR NO KEY UPDATE)
    UPDATE notification_batches b SET state = 'abandoned', finished_at = now() FROM open o
    WHERE b.notification_id = o.notification_id AND b.batch_no = o.batch_no;
    RETURN given;
END
$$;
COMMENT ON FUNCTION give_up_rest(bigint[], text[]) IS
    'Worker: Apple refuses these notifications for every device: no further batch of them is cut or claimed, and what is not out is given up, for the given reasons; unless somebody has accepted one. finalise ends them. Returns how many were not given up before.';

CREATE OR REPLACE FUNCTION pgpush_is_accepted(p_notification bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM notification_batches b WHERE b.notification_id = p_notification AND b.accepted_count > 0);
END
$$;
COMMENT ON FUNCTION pgpush_is_accepted(bigint) IS 'Internal: whether a device in a batch of this notification has accepted it.';
