-- What happens to a device before it is stored: defaults for NULLs, the token's normal form, every check.

CREATE OR REPLACE FUNCTION pgpush_device() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
DECLARE
    said  text := NEW.environment;
    fresh constant boolean := TG_OP = 'INSERT';  -- of a device that is there only what changes is checked: an old value stays good
BEGIN
    NEW.app            := coalesce(NEW.app, 'default');
    NEW.platform       := coalesce(NEW.platform, 'ios');
    NEW.is_active      := coalesce(NEW.is_active, true);
    NEW.registered_at  := coalesce(NEW.registered_at, now());
    NEW.last_active_at := coalesce(NEW.last_active_at, now());
    NEW.created_at     := coalesce(NEW.created_at, now());
    NEW.device_token   := pgpush_token(NEW.device_token);
    NEW.environment    := CASE WHEN said IS NULL THEN pgpush_default_environment() ELSE pgpush_environment(said) END;
    NEW.updated_at     := now();

    -- Another token is another registration: what Apple says of the old one is not said of this.
    IF NOT fresh AND NEW.device_token <> OLD.device_token AND NEW.registered_at = OLD.registered_at THEN
        NEW.registered_at := now();
    END IF;

    IF (fresh OR NEW.app <> OLD.app) AND (NEW.app = '' OR length(NEW.app) > 100 OR NEW.app ~ '[[:cntrl:]]') THEN
        PERFORM pgpush_refuse('PN030', 'app', 'app must be a name of 1 to 100 characters',
            'Give the name that the app has in the worker''s configuration, or leave it out for ''default''.');
    ELSIF (fresh OR NEW.user_id <> OLD.user_id) AND (NEW.user_id = '' OR length(NEW.user_id) > 512) THEN
        PERFORM pgpush_refuse('PN030', 'user_id', 'user_id must have 1 to 512 characters', 'Give your own id of the person.');
    ELSIF NEW.environment IS NULL THEN
        PERFORM pgpush_refuse('PN018', 'environment', format('environment %L is unknown', said),
            'It is production (App Store, TestFlight) or sandbox (a build run from Xcode).');
    ELSIF (fresh OR NEW.device_token <> OLD.device_token) AND pgpush_token_fault(NEW.device_token) IS NOT NULL THEN
        PERFORM pgpush_refuse_token('device_token', NEW.device_token, pgpush_token_fault(NEW.device_token));
    ELSIF NOT isfinite(NEW.registered_at) THEN
        PERFORM pgpush_refuse('PN012', 'registered_at', 'registered_at is infinite', 'Give a time; leave it out for now.');
    ELSIF NOT isfinite(NEW.last_active_at) THEN
        PERFORM pgpush_refuse('PN012', 'last_active_at', 'last_active_at is infinite', 'Give a time; leave it out for now.');
    ELSIF (fresh OR NEW.time_zone IS DISTINCT FROM OLD.time_zone) AND NEW.time_zone IS NOT NULL
        AND NOT pgpush_is_time_zone(NEW.time_zone) THEN
        PERFORM pgpush_refuse('PN019', 'time_zone', format('time_zone %L is not known to PostgreSQL', NEW.time_zone),
            'Give a name such as Europe/Berlin: SELECT name FROM pg_timezone_names.');
    END IF;

    IF NEW.is_active THEN
        NEW.deactivated_at := NULL;
        NEW.deactivation_reason := NULL;
    ELSE
        NEW.deactivated_at := coalesce(NEW.deactivated_at, now());
        NEW.deactivation_reason := coalesce(NEW.deactivation_reason, 'set inactive by ' || session_user);
    END IF;

    IF TG_OP = 'INSERT' THEN
        NEW.id := coalesce(NEW.id, nextval(pg_get_serial_sequence(format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME), 'id')));
        -- A unique violation carries no hint of its own. Where the statement provides for the conflict, the INSERT stands inside
        -- a function, or the statement is so long that looking into it for each row would be felt, the index decides as usual.
        IF EXISTS (SELECT FROM devices d WHERE d.app = NEW.app AND d.device_token = NEW.device_token)
            AND octet_length(current_query()) < 8192
            AND current_query() ~* '\yinsert\s+into\y' AND current_query() !~* '\yon\s+conflict\y' THEN
            RAISE unique_violation USING
                MESSAGE = 'device_token is registered for this app already', COLUMN = 'device_token', TABLE = TG_TABLE_NAME,
                CONSTRAINT = 'devices_app_device_token_key',
                HINT = 'Use register_device(user_id => …, device_token => …): it moves a known token to its new owner.';
        END IF;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION pgpush_device() IS 'Internal: trigger; validates and completes a device.';

CREATE OR REPLACE FUNCTION pgpush_is_time_zone(name text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    -- PostgreSQL takes any letters with an offset (FOO3) and abbreviations (PST) for a time zone; neither is a name.
    -- Only names with a slash and without digits are sure to be one when it takes them; the rest is looked up.
    IF name ~ '^[A-Za-z_+-]+(/[A-Za-z_+-]+)+$' THEN
        PERFORM now() AT TIME ZONE name;
        RETURN true;
    END IF;
    RETURN name IN ('UTC', 'GMT') OR EXISTS (SELECT FROM pg_timezone_names z WHERE lower(z.name) = lower(pgpush_is_time_zone.name));
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION pgpush_is_time_zone(text) IS 'Internal: whether PostgreSQL knows this name of a time zone.';

CREATE OR REPLACE TRIGGER a_device BEFORE INSERT OR UPDATE OF
        app, user_id, device_token, environment, platform, time_zone, is_active, registered_at, last_active_at, created_at,
        updated_at, deactivated_at, deactivation_reason
    ON devices FOR EACH ROW EXECUTE FUNCTION pgpush_device();
CREATE OR REPLACE TRIGGER b_touch BEFORE UPDATE ON devices
    FOR EACH ROW WHEN (NEW.updated_at IS DISTINCT FROM now()) EXECUTE FUNCTION pgpush_touch();
