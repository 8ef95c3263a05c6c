// When something is sent again is chance (a wait of 5 to 30 s), and the machine may be slow: whoever wants to look at what waits has it
// wait until he says so.

extension Rig {
    /// From now on nothing that is put off comes back by itself: each wait is an hour longer than what the worker has said.
    package func holdRetries() throws {
        try psql(
            """
            CREATE FUNCTION test_hold_retries() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN NEW.not_before := NEW.not_before + interval '1 hour'; RETURN NEW; END $$;
            CREATE TRIGGER test_hold_retries BEFORE INSERT OR UPDATE OF not_before ON notification_batches
            FOR EACH ROW WHEN (NEW.state = 'ready' AND NEW.not_before > now()) EXECUTE FUNCTION test_hold_retries()
            """)
    }

    /// All that waits to be sent again is due.
    package func makeRetriesDue() throws {
        try psql("UPDATE notification_batches SET not_before = now() WHERE state = 'ready'")
    }

    /// Ends `holdRetries`: all that waits is due, and what is put off from now on comes back by itself.
    package func letRetriesGo() throws {
        try psql("DROP TRIGGER test_hold_retries ON notification_batches")
        try makeRetriesDue()
    }
}
