-- One way of refusing, so that each refusal has its own SQLSTATE (class PN), names its column and carries a remedy.

CREATE OR REPLACE FUNCTION pgpush_refuse(code text, field text, message text, hint text, detail text DEFAULT '')
    RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF detail = '' THEN
        RAISE EXCEPTION USING ERRCODE = code, COLUMN = field, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, COLUMN = field, MESSAGE = message, HINT = hint, DETAIL = detail;
END
$$;
COMMENT ON FUNCTION pgpush_refuse(text, text, text, text, text) IS
    'Internal: raises an error of class PN. The codes are listed in sql/README.md.';
