-- Enqueue by function: named arguments, and repeats recognised by their idempotency_key.

CREATE OR REPLACE FUNCTION enqueue_notification(
    app text DEFAULT NULL, user_id text DEFAULT NULL, title text DEFAULT NULL, body text DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL, user_ids text[] DEFAULT NULL, device_tokens text[] DEFAULT NULL,
    broadcast boolean DEFAULT NULL, channel_id text DEFAULT NULL, environment text DEFAULT NULL, subtitle text DEFAULT NULL,
    badge integer DEFAULT NULL, sound text DEFAULT NULL, category text DEFAULT NULL, thread_id text DEFAULT NULL,
    target_content_id text DEFAULT NULL, interruption_level text DEFAULT NULL, relevance_score double precision DEFAULT NULL,
    mutable_content boolean DEFAULT NULL, content_available boolean DEFAULT NULL, data jsonb DEFAULT NULL, aps jsonb DEFAULT NULL,
    raw_payload json DEFAULT NULL, push_type text DEFAULT NULL, priority integer DEFAULT NULL, topic text DEFAULT NULL,
    collapse_id text DEFAULT NULL, expires_at timestamptz DEFAULT NULL, store_if_offline boolean DEFAULT NULL,
    idempotency_key text DEFAULT NULL, delivery text DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    given scheduled_notifications;
    known scheduled_notifications;
BEGIN
    -- Written to the table's own column names, so that the arguments' order plays no part.
    given.app := enqueue_notification.app;                         given.user_id := enqueue_notification.user_id;
    given.user_ids := enqueue_notification.user_ids;               given.device_tokens := enqueue_notification.device_tokens;
    given.broadcast := enqueue_notification.broadcast;             given.channel_id := enqueue_notification.channel_id;
    given.environment := enqueue_notification.environment;         given.title := enqueue_notification.title;
    given.subtitle := enqueue_notification.subtitle;               given.body := enqueue_notification.body;
    given.badge := enqueue_notification.badge;                     given.sound := enqueue_notification.sound;
    given.category := enqueue_notification.category;               given.thread_id := enqueue_notification.thread_id;
    given.target_content_id := enqueue_notification.target_content_id;
    given.interruption_level := enqueue_notification.interruption_level;
    given.relevance_score := enqueue_notification.relevance_score;
    given.mutable_content := enqueue_notification.mutable_content;
    given.content_available := enqueue_notification.content_available;
    given.data := enqueue_notification.data;                       given.aps := enqueue_notification.aps;
    given.raw_payload := enqueue_notification.raw_payload;         given.push_type := enqueue_notification.push_type;
    given.priority := enqueue_notification.priority;               given.topic := enqueue_notification.topic;
    given.collapse_id := enqueue_notification.collapse_id;         given.expires_at := enqueue_notification.expires_at;
    given.store_if_offline := enqueue_notification.store_if_offline;
    given.scheduled_at := enqueue_notification.scheduled_at;       given.delivery := enqueue_notification.delivery;
    given.idempotency_key := enqueue_notification.idempotency_key;

    FOR attempt IN 1 .. 10 LOOP
        INSERT INTO scheduled_notifications SELECT given.* ON CONFLICT (app, idempotency_key) DO NOTHING
        RETURNING * INTO known;
        IF FOUND THEN
            RETURN known.id;
        END IF;
        SELECT * INTO known FROM scheduled_notifications n
        WHERE n.app = coalesce(given.app, 'default') AND n.idempotency_key = given.idempotency_key;
        EXIT WHEN FOUND;  -- else it was deleted in between
    END LOOP;

    IF known.id IS NULL THEN
        RAISE serialization_failure USING
            MESSAGE = 'the notification with this idempotency_key was inserted after this transaction began',
            HINT = 'Run the transaction again.';
    END IF;

    -- A repeat: the same once everything has its normal form. A due time that was not given is no difference.
    given.id := known.id;
    given.scheduled_at := coalesce(given.scheduled_at, known.scheduled_at);
    given := pgpush_prepare(given);
    IF pgpush_content(given) IS DISTINCT FROM pgpush_content(known) OR given.user_ids <> known.user_ids
        OR given.device_tokens <> known.device_tokens THEN
        PERFORM pgpush_refuse('PN021', 'idempotency_key', format('idempotency_key was used for notification %s with other content',
            known.id), 'Use a new key for a new notification, or update the pending one.');
    END IF;
    RETURN known.id;
END
$$;
COMMENT ON FUNCTION enqueue_notification(text, text, text, text, timestamptz, text[], text[], boolean, text, text, text, integer, text,
    text, text, text, text, double precision, boolean, boolean, jsonb, jsonb, json, text, integer, text, text, timestamptz, boolean,
    text, text) IS
    'Plans a notification and returns its id. All arguments by name; exactly one of user_id, user_ids, device_tokens, broadcast, channel_id. The same idempotency_key with the same content returns the same id, with other content it is refused (PN021).';
