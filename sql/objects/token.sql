-- Device tokens: one normal form, so that one physical device is one row, whatever spelling a client uses.

CREATE OR REPLACE FUNCTION pgpush_token(token text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
DECLARE
    t text;
BEGIN
    -- The form nearly every caller sends already.
    IF translate(token, '0123456789abcdef', '') = '' THEN
        RETURN token;
    END IF;
    t := btrim(token, E' \t\r\n\f\x0B' || U&'\00A0');
    IF left(t, 1) = '<' AND right(t, 1) = '>' THEN
        t := substr(t, 2, length(t) - 2);
    END IF;
    RETURN lower(replace(t, ' ', ''));
END
$$;
COMMENT ON FUNCTION pgpush_token(text) IS
    'Internal: the normal form of a device token: lower-case hex without <>, blanks or line end. Does not judge it.';

CREATE OR REPLACE FUNCTION pgpush_token_fault(token text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE
        WHEN token IS NULL OR token = '' THEN 'it is empty'
        WHEN token ~ '(length *=|\.\.\.|…)' THEN 'it is a shortened description of the token, the rest of it is lost'
        WHEN translate(token, '0123456789abcdef', '') <> '' THEN 'it holds characters that are not hex digits'
        WHEN length(token) % 2 = 1 THEN 'it has an odd number of hex digits (' || length(token) || ')'
        WHEN length(token) < 8 THEN 'it has fewer than 8 hex digits'
        WHEN length(token) > 400 THEN 'it has more than 400 hex digits'
    END
$$;
COMMENT ON FUNCTION pgpush_token_fault(text) IS
    'Internal: why a token in normal form cannot be one of Apple''s, or null when it can.';

CREATE OR REPLACE FUNCTION pgpush_refuse_token(field text, token text, fault text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    -- The token is quoted shortened: error messages end up in logs.
    PERFORM pgpush_refuse('PN015', field, format('%s: %s is not a device token: %s', field,
            quote_literal(left(coalesce(token, ''), 12) || CASE WHEN length(token) > 12 THEN '…' ELSE '' END), fault),
        'Send the bytes of the token as hex digits, e.g. in Swift: token.map { String(format: "%02x", $0) }.joined()');
END
$$;
COMMENT ON FUNCTION pgpush_refuse_token(text, text, text) IS 'Internal: raises PN015.';

CREATE OR REPLACE FUNCTION pgpush_environment(environment text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = @schema@, pg_temp
AS $$
    SELECT CASE lower(btrim(environment)) WHEN 'production' THEN 'production' WHEN 'sandbox' THEN 'sandbox'
                WHEN 'development' THEN 'sandbox' END
$$;
COMMENT ON FUNCTION pgpush_environment(text) IS
    'Internal: production or sandbox (also for development); null for anything else.';

CREATE OR REPLACE FUNCTION pgpush_default_environment() RETURNS text
    LANGUAGE sql STABLE SET search_path = @schema@, pg_temp
AS $$
    SELECT coalesce(substring(pg_get_expr(d.adbin, d.adrelid) FROM '^''(production|sandbox)'''), 'production')
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = 'devices'::regclass AND a.attname = 'environment'
$$;
COMMENT ON FUNCTION pgpush_default_environment() IS
    'The default of devices.environment, which migrate sets from APNS_ENVIRONMENT; also where tokens that are not registered, and channels, are sent.';
