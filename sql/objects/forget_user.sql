-- Forgetting a person: devices, tokens in the ledger, content addressed to them.

CREATE OR REPLACE FUNCTION forget_user(user_id text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    ids     bigint[];
    tokens  text[];
    refused bigint[];  -- notifications: with a token in the ledger
    touched bigint[];
    removed bigint[];
    result  bigint;
BEGIN
    -- Whoever judges a storm and settles at this moment holds ledger rows and batches in another order; a deadlock that is ended at
    -- the cost of this side gives back all that it has locked, so it simply begins again.
    FOR attempt IN 1 .. 5 LOOP
        BEGIN
            -- This reads the ledger and the notifications from end to end: nobody else searches them by person, and an index would be paid
            -- for by every claim and settle. All notifications concerned are locked first, in order, those too whose ledger is changed.
            SELECT coalesce(array_agg(d.id), '{}'), coalesce(array_agg(d.device_token), '{}') INTO ids, tokens
            FROM devices d WHERE d.user_id = forget_user.user_id;
            refused := ARRAY(SELECT DISTINCT f.notification_id FROM delivery_failures f
                             WHERE f.device_token IS NOT NULL AND (f.device_id = ANY (ids) OR f.device_token = ANY (tokens)));
            touched := ARRAY(SELECT n.id FROM scheduled_notifications n
                             WHERE n.user_id = forget_user.user_id OR n.user_ids @> ARRAY[forget_user.user_id] OR n.device_tokens && tokens
                                OR n.id = ANY (refused)
                             ORDER BY n.id FOR UPDATE);
            WITH gone AS (DELETE FROM scheduled_notifications n
                          WHERE n.id = ANY (touched)
                            AND (n.user_id = forget_user.user_id
                                 OR (n.status = 'pending' AND n.user_ids = ARRAY[forget_user.user_id])
                                 OR (n.status = 'pending' AND n.device_tokens <> '{}' AND n.device_tokens <@ tokens))
                          RETURNING n.id)
            SELECT array_agg(g.id) INTO removed FROM gone g;
            UPDATE scheduled_notifications n SET user_ids = array_remove(n.user_ids, forget_user.user_id)
            WHERE n.id = ANY (touched) AND n.user_ids @> ARRAY[forget_user.user_id];
            -- Positions in a list that is or was in work carry meaning, so there a token is blanked, not taken out.
            UPDATE scheduled_notifications n
            SET device_tokens = ARRAY(SELECT CASE WHEN t <> ALL (tokens) THEN t ELSE '' END
                                      FROM unnest(n.device_tokens) WITH ORDINALITY x(t, o)
                                      WHERE n.status <> 'pending' OR t <> ALL (tokens) ORDER BY o)
            WHERE n.id = ANY (touched) AND n.device_tokens && tokens;

            DELETE FROM delivery_failures f WHERE f.notification_id = ANY (removed);
            UPDATE delivery_failures f SET device_token = NULL
            WHERE f.notification_id = ANY (refused) AND f.device_token IS NOT NULL AND (f.device_id = ANY (ids) OR f.device_token = ANY (tokens));

            -- A settle that is under way has the devices locked and its ledger rows not committed: they are seen after the wait. One that
            -- comes later waits here, and writes no token of a device that is gone.
            SELECT ids || coalesce(array_agg(d.id), '{}'), tokens || coalesce(array_agg(d.device_token), '{}') INTO ids, tokens
            FROM (SELECT x.id, x.device_token FROM devices x WHERE x.user_id = forget_user.user_id ORDER BY x.id FOR UPDATE) d;
            DELETE FROM delivery_failures f WHERE f.notification_id = ANY (removed);
            UPDATE delivery_failures f SET device_token = NULL
            WHERE f.occurred_at > now() - interval '1 day' AND f.device_token IS NOT NULL AND (f.device_id = ANY (ids) OR f.device_token = ANY (tokens));
            -- What somebody is judging at this moment goes with that.
            DELETE FROM proposed_deactivations p USING (
                SELECT x.app, x.environment, x.topic, x.id FROM proposed_deactivations x
                WHERE x.device_id = ANY (ids) OR x.notification_id = ANY (removed)
                   OR (x.notification_id = ANY (touched) AND pgpush_is_erased(x.notification_id, x.device_id)) FOR UPDATE SKIP LOCKED) s
            WHERE p.app = s.app AND p.environment = s.environment AND p.topic = s.topic AND p.id = s.id;
            DELETE FROM devices d WHERE d.user_id = forget_user.user_id;
            GET DIAGNOSTICS result = ROW_COUNT;
            RETURN result;
        EXCEPTION WHEN deadlock_detected THEN
            IF attempt = 5 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION forget_user(text) IS
    'Removes a person: devices, notifications addressed to them alone, their place in lists, their tokens in the ledger. Returns the number of devices removed.';
