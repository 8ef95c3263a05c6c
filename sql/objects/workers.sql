-- Who is at work. For looking at, never for correctness: leases alone decide who may send.

DROP FUNCTION IF EXISTS heartbeat(uuid, text, integer, text, integer, text[], integer, bigint, bigint);
CREATE OR REPLACE FUNCTION heartbeat(
    p_owner uuid, p_host text, p_pid integer, p_version text, p_lanes integer, p_apps text[],
    p_in_flight integer DEFAULT 0, p_accepted bigint DEFAULT 0, p_rejected bigint DEFAULT 0, p_owners uuid[] DEFAULT NULL)
    RETURNS timestamptz LANGUAGE sql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
    INSERT INTO pgpush_workers (owner, host, pid, version, apps, lanes, in_flight, accepted_count, rejected_count, owners)
    VALUES (p_owner, p_host, p_pid, p_version, p_apps, p_lanes, p_in_flight, p_accepted, p_rejected, p_owners)
    ON CONFLICT (owner) DO UPDATE
        SET apps = EXCLUDED.apps, lanes = EXCLUDED.lanes, in_flight = EXCLUDED.in_flight, last_seen_at = now(),
            accepted_count = EXCLUDED.accepted_count, rejected_count = EXCLUDED.rejected_count, owners = EXCLUDED.owners;
    SELECT clock_timestamp()
$$;
COMMENT ON FUNCTION heartbeat IS
    'Worker: writes its row in pgpush_workers, with all the names under which it takes leases; returns the time of the database.';

CREATE OR REPLACE FUNCTION goodbye(p_owner uuid) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = @schema@, pg_temp
AS $$
    DELETE FROM pgpush_workers WHERE owner = p_owner
$$;
COMMENT ON FUNCTION goodbye(uuid) IS 'Worker: takes its row out of pgpush_workers at the end.';
