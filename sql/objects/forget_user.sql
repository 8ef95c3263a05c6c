-- Forgetting a person: devices, tokens in the ledger, content addressed to them.

CREATE OR REPLACE FUNCTION forget_user(user_id text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    ids     bigint[];
    tokens  text[];
    removed bigint[];
    result  bigint;
BEGIN
    -- This reads the notifications and the ledger from end to end: nobody else searches them by person, and an index
    -- would be paid for by every claim and settle.
    SELECT array_agg(d.id), array_agg(d.device_token) INTO ids, tokens FROM devices d WHERE d.user_id = forget_user.user_id;
    WITH gone AS (DELETE FROM scheduled_notifications n
                  WHERE n.user_id = forget_user.user_id
                     OR (n.status = 'pending' AND n.user_ids = ARRAY[forget_user.user_id])
                     OR (n.status = 'pending' AND n.device_tokens <> '{}' AND n.device_tokens <@ tokens)
                  RETURNING n.id)
    SELECT array_agg(g.id) INTO removed FROM gone g;
    UPDATE scheduled_notifications n SET user_ids = array_remove(n.user_ids, forget_user.user_id)
    WHERE n.user_ids @> ARRAY[forget_user.user_id];
    -- Positions in a list that is or was in work carry meaning, so there a token is blanked, not taken out.
    UPDATE scheduled_notifications n
    SET device_tokens = ARRAY(SELECT CASE WHEN t <> ALL (tokens) THEN t ELSE '' END
                              FROM unnest(n.device_tokens) WITH ORDINALITY x(t, o)
                              WHERE n.status <> 'pending' OR t <> ALL (tokens) ORDER BY o)
    WHERE n.device_tokens && tokens;

    DELETE FROM delivery_failures f WHERE f.notification_id = ANY (removed);
    UPDATE delivery_failures f SET device_token = NULL WHERE f.device_id = ANY (ids) OR f.device_token = ANY (tokens);
    DELETE FROM devices d WHERE d.user_id = forget_user.user_id;
    GET DIAGNOSTICS result = ROW_COUNT;
    RETURN result;
END
$$;
COMMENT ON FUNCTION forget_user(text) IS
    'Removes a person: devices, notifications addressed to them alone, their place in lists, their tokens in the ledger. Returns the number of devices removed.';
