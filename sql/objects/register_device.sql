-- Registration of devices. One token is one row; the latest registration decides whose it is.

CREATE OR REPLACE FUNCTION register_device(
    user_id text, device_token text, app text DEFAULT NULL, environment text DEFAULT NULL, platform text DEFAULT NULL,
    app_version text DEFAULT NULL, os_version text DEFAULT NULL, locale text DEFAULT NULL, time_zone text DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_app   constant text := coalesce(register_device.app, 'default');
    v_token constant text := pgpush_token(register_device.device_token);
    result  bigint;
BEGIN
    LOOP
        UPDATE devices d
        SET user_id = register_device.user_id, is_active = true, registered_at = greatest(d.registered_at, now()),
            last_active_at = now(),
            environment = coalesce(register_device.environment, d.environment),
            platform = coalesce(register_device.platform, d.platform),
            app_version = coalesce(register_device.app_version, d.app_version),
            os_version = coalesce(register_device.os_version, d.os_version),
            locale = coalesce(register_device.locale, d.locale),
            time_zone = coalesce(register_device.time_zone, d.time_zone)
        WHERE d.app = v_app AND d.device_token = v_token
        RETURNING d.id INTO result;
        IF FOUND THEN
            RETURN result;
        END IF;
        BEGIN
            INSERT INTO devices (app, user_id, device_token, environment, platform, app_version, os_version, locale, time_zone)
            VALUES (v_app, register_device.user_id, register_device.device_token, register_device.environment,
                    register_device.platform, register_device.app_version, register_device.os_version,
                    register_device.locale, register_device.time_zone)
            RETURNING id INTO result;
            RETURN result;
        EXCEPTION WHEN unique_violation THEN
            NULL;  -- somebody else registered it between the two statements: update theirs
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION register_device(text, text, text, text, text, text, text, text, text) IS
    'Registers a device, or renews the registration of a known token: it moves to this user, is active again, and its registered_at is now. Returns the device id.';

CREATE OR REPLACE FUNCTION unregister_device(user_id text, device_token text, app text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
BEGIN
    UPDATE devices d SET is_active = false, deactivation_reason = 'unregistered'
    WHERE d.app = coalesce(unregister_device.app, 'default') AND d.device_token = pgpush_token(unregister_device.device_token)
      AND d.user_id = unregister_device.user_id AND d.is_active;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION unregister_device(text, text, text) IS
    'Deactivates a device, for example at log-out. False if this user has no such active device.';

CREATE OR REPLACE FUNCTION touch_device(user_id text, device_token text, app text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
BEGIN
    UPDATE devices d SET last_active_at = now()
    WHERE d.app = coalesce(touch_device.app, 'default') AND d.device_token = pgpush_token(touch_device.device_token)
      AND d.user_id = touch_device.user_id;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION touch_device(text, text, text) IS
    'Notes that the app was used on a device (last_active_at). False if this user has no such device.';
