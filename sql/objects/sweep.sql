-- Sweep: once a minute, what no single step is sure to see: lateness, cancels and expiries whose worker is gone, parked batches
-- whose pause is over, notifications that nobody finalised. Every part is bounded and skips what somebody else has locked.

CREATE OR REPLACE FUNCTION sweep(p_apps text[], p_max_lateness interval[], p_lease_grace interval DEFAULT '15 seconds')
    RETURNS TABLE (expired bigint, unparked bigint, lost bigint, finished bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    n scheduled_notifications;
    bound timestamptz;  -- due before: too late
    late  boolean;
BEGIN
    expired := 0; unparked := 0; lost := 0; finished := 0;
    -- Once a day this needs a lock on the whole ledger; nothing else is locked or done in that transaction.
    IF pgpush_maintain_failures() THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- First of all, as long as nothing is locked that anybody else wants; and what it cannot do must not undo the rest.
    BEGIN
        PERFORM pgpush_prune();
    EXCEPTION WHEN OTHERS OR query_canceled THEN
        RAISE WARNING 'pgpush: old notifications could not be deleted: %', SQLERRM USING ERRCODE = SQLSTATE;
    END;
    FOR i IN 1 .. coalesce(cardinality(p_apps), 0) LOOP
        expired := expired + pgpush_expire_late(p_apps[i], p_max_lateness[i], 5000);
        unparked := unparked + pgpush_unpark(p_apps[i]);
        bound := now() - coalesce(p_max_lateness[i], interval '24 hours');
        FOR n IN
            SELECT * FROM scheduled_notifications s
            WHERE s.app = p_apps[i] AND s.status IN ('sending', 'cancelling')
              AND CASE WHEN s.status = 'cancelling' THEN coalesce(s.lease_until, '-infinity') < now() - p_lease_grace
                       ELSE s.lease_until IS NULL
                            AND (s.expires_at < now() OR s.given_up OR pgpush_is_late(s, bound)
                                 OR (NOT s.walking AND NOT pgpush_has_open_batch(s.id) AND NOT pgpush_awaits_verdict(s.id))) END
            ORDER BY s.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
        LOOP
            late := n.status = 'sending' AND pgpush_is_late(n, bound);
            -- Given up: a batch that came back at that moment.
            IF n.status = 'sending' AND (n.expires_at < now() OR late OR n.given_up) THEN
                UPDATE scheduled_notifications s SET walking = false, updated_at = now() WHERE s.id = n.id AND s.walking;
                UPDATE notification_batches x SET state = 'abandoned', finished_at = now()
                WHERE x.notification_id = n.id AND x.state IN ('ready', 'parked');
            END IF;
            IF n.status = 'cancelling' THEN
                lost := lost + pgpush_abandon_lost(n, p_lease_grace);
            END IF;
            IF pgpush_finish(n.id, late) IS NOT NULL THEN
                finished := finished + 1;
            END IF;
        END LOOP;
    END LOOP;
    DELETE FROM pgpush_workers w WHERE w.last_seen_at < now() - interval '1 day';
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sweep(text[], interval[], interval) IS
    'Worker: tidies up once a minute: late rows expire, lost batches of cancelled notifications are closed, parked batches without a pause are freed, complete notifications are finished, old ones deleted. Returns how many of each of the first four.';

CREATE OR REPLACE FUNCTION pgpush_is_late(n scheduled_notifications, bound timestamptz) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
BEGIN
    -- served_at: a broadcast of which slices are still being cut, and what retry_notification opened again, is not late.
    RETURN coalesce(greatest(n.scheduled_at, n.served_at) < bound, false)
        AND (n.walking OR pgpush_has_open_batch(n.id))
        AND NOT EXISTS (SELECT FROM notification_batches b WHERE b.notification_id = n.id AND b.state = 'leased');
END
$$;
COMMENT ON FUNCTION pgpush_is_late(scheduled_notifications, timestamptz) IS
    'Internal: whether a notification in work, due before the bound, has nothing out at present but something left to send.';

CREATE OR REPLACE FUNCTION pgpush_abandon_lost(n scheduled_notifications, p_grace interval) RETURNS bigint
    LANGUAGE plpgsql SET search_path = @schema@, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    lost bigint := 0;
    b    int;
BEGIN
    IF n.lease_until < now() - p_grace THEN
        PERFORM pgpush_book_unknown(n.id, 0, 'Worker lost');
        RETURN 1;
    END IF;
    FOR b IN SELECT x.batch_no FROM notification_batches x
             WHERE x.notification_id = n.id AND x.state = 'leased' AND x.lease_until < now() - p_grace
             ORDER BY 1 FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        PERFORM pgpush_book_unknown(n.id, b, 'Worker lost');
        lost := lost + 1;
    END LOOP;
    RETURN lost;
END
$$;
COMMENT ON FUNCTION pgpush_abandon_lost(scheduled_notifications, interval) IS
    'Internal: closes units of a notification that is being cancelled whose worker is gone; their devices are booked as unknown.';
