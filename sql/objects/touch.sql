-- updated_at is kept here, except where the worker's functions have set it already.

CREATE OR REPLACE FUNCTION pgpush_touch() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION pgpush_touch() IS 'Internal: trigger; keeps updated_at.';
