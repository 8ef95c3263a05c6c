-- The apns-id of a push carries its two numbers, so it needs no storage and can be read backwards.
-- Layout (a version 8 UUID):  NNNNNNNN-NNNN-8NNN-vDDD-DDDDDDDDDDDD
--   N = notification id, 60 bits · D = absolute device number, 60 bits · v = 8, or a when the device number is negative.
-- Device number: devices.id; minus the position for a target by device_tokens; 0 for a channel.

CREATE OR REPLACE FUNCTION apns_id(notification_id bigint, device_id bigint) RETURNS uuid
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    n text := lpad(to_hex(notification_id), 15, '0');
    d text := lpad(to_hex(abs(device_id)), 15, '0');
BEGIN
    IF notification_id < 0 OR notification_id >= 1::bigint << 60 OR abs(device_id) >= 1::bigint << 60 THEN
        RAISE EXCEPTION 'an apns-id holds ids from 0 to 2^60 - 1, not notification_id % with device_id %',
            notification_id, device_id USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    RETURN (left(n, 12) || '8' || right(n, 3) || CASE WHEN device_id < 0 THEN 'a' ELSE '8' END || d)::uuid;
END
$$;
COMMENT ON FUNCTION apns_id(bigint, bigint) IS
    'The apns-id that a push of this notification to this device carries. SQLSTATE 22003 for numbers beyond 60 bits.';

CREATE OR REPLACE FUNCTION apns_id_notification(apns_id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE WHEN t ~ '^.{12}8.{3}[8a]' THEN ('x0' || left(t, 12) || substr(t, 14, 3))::bit(64)::bigint END
    FROM (SELECT replace(apns_id::text, '-', '') AS t) x
$$;
COMMENT ON FUNCTION apns_id_notification(uuid) IS
    'The notification that an apns-id of ours belongs to; null when the apns-id was not made by pgpush.';

CREATE OR REPLACE FUNCTION apns_id_device(apns_id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE WHEN t ~ '^.{12}8.{3}[8a]'
        THEN ('x0' || right(t, 15))::bit(64)::bigint * CASE WHEN substr(t, 17, 1) = 'a' THEN -1 ELSE 1 END END
    FROM (SELECT replace(apns_id::text, '-', '') AS t) x
$$;
COMMENT ON FUNCTION apns_id_device(uuid) IS
    'The device number in an apns-id of ours: devices.id, minus the position in device_tokens, or 0 for a channel.';
