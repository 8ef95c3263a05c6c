-- How many devices a target would reach now.

CREATE OR REPLACE FUNCTION audience_count(
    app text DEFAULT NULL, user_id text DEFAULT NULL, user_ids text[] DEFAULT NULL, device_tokens text[] DEFAULT NULL,
    broadcast boolean DEFAULT NULL, environment text DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    n scheduled_notifications;
BEGIN
    n.app := coalesce(audience_count.app, 'default');
    n.user_id := audience_count.user_id;
    n.user_ids := coalesce(audience_count.user_ids, '{}');
    n.device_tokens := coalesce(audience_count.device_tokens, '{}');
    n.broadcast := coalesce(audience_count.broadcast, false);
    n.environment := pgpush_environment(audience_count.environment);
    IF audience_count.environment IS NOT NULL AND n.environment IS NULL THEN
        PERFORM pgpush_refuse('PN018', 'environment', format('environment %L is unknown', audience_count.environment),
            'It is production or sandbox; leave it out to count devices of both.');
    END IF;
    n := pgpush_prepare_target(n);
    RETURN pgpush_audience_count(n);
END
$$;
COMMENT ON FUNCTION audience_count(text, text, text[], text[], boolean, text) IS
    'How many devices a notification with this target would reach now.';

CREATE OR REPLACE FUNCTION pgpush_audience_count(n scheduled_notifications) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp
AS $$
BEGIN
    IF n.channel_id IS NOT NULL THEN
        RETURN 1;  -- one request; who listens to a channel is Apple's knowledge
    ELSIF n.broadcast THEN
        RETURN (SELECT count(*) FROM devices d WHERE d.app = n.app AND d.is_active
                AND d.environment = ANY (CASE WHEN n.environment IS NULL THEN '{production,sandbox}' ELSE ARRAY[n.environment] END)
                AND d.id + 0 > coalesce(n.cursor_id, 0) AND (n.upper_id IS NULL OR d.id + 0 <= n.upper_id));
    END IF;
    RETURN cardinality(pgpush_audience(n));
END
$$;
COMMENT ON FUNCTION pgpush_audience_count(scheduled_notifications) IS
    'Internal: how many devices a notification has still to reach; of a broadcast those above the cursor.';
