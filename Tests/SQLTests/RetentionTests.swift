// Finished notifications go with their batches when the time of keeping is over; nothing else does.

import TestSupport
import Testing

@Suite struct RetentionTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(20)
    }

    /// Makes finished ones look so many days old.
    private func age(_ days: Int, _ condition: String = "true") throws {
        try database.psql(
            """
            SET session_replication_role = replica;
            UPDATE scheduled_notifications SET finished_at = now() - interval '\(days) days' WHERE finished_at IS NOT NULL AND \(condition);
            RESET session_replication_role
            """)
    }

    private func ids() throws -> [Int] {
        try database.psql("SELECT id FROM scheduled_notifications ORDER BY id").compactMap { $0[0].flatMap { Int($0) } }
    }

    @Test func oldOnesGoWithTheirBatches() throws {
        let all = try database.notify("broadcast", "true")
        try worker.accept(worker.claimBroadcast(batches: 2, batchSize: 10))
        try worker.finalise(all)
        let single = try database.notify()
        try worker.accept(worker.claim())
        let pending = try database.notify("user_id, scheduled_at", "'u1', now() + interval '1 year'")
        let open = try database.notify("broadcast", "true")
        _ = try worker.claimBroadcast(batches: 1, batchSize: 10)
        let cancelled = try database.notify("user_id", "'u2'")
        try database.psql("SELECT cancel_notification(\(cancelled))")

        try age(29)
        try worker.sweep()
        #expect(try ids() == [all, single, pending, open, cancelled])
        try age(31, "id <> \(single)")
        try worker.sweep()
        #expect(try ids() == [single, pending, open])
        #expect(try database.psql("SELECT DISTINCT notification_id FROM notification_batches") == [["\(open)"]])

        for (setting, kept) in [("90 days", true), ("nonsense", true), ("1 day", false)] {
            try worker.session.run("SET pgpush.keep_notifications = '\(setting)'")
            try worker.sweep()
            #expect(try ids().contains(single) == kept, "\(setting)")
        }
    }

    @Test func whatCannotBeDeletedStopsNothingElse() throws {
        let old = try database.notify()
        try worker.accept(worker.claim())
        try age(40)
        try database.psql(
            """
            CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the auditors want this'; END $$;
            CREATE TRIGGER keep BEFORE DELETE ON scheduled_notifications FOR EACH ROW EXECUTE FUNCTION keep();
            INSERT INTO scheduled_notifications (user_id, title, scheduled_at)
            SELECT 'u1', 'x', now() - interval '30 h' FROM generate_series(1, 10)
            """)
        let all = try database.notify("broadcast", "true")
        try worker.accept(worker.claimBroadcast())
        #expect(try worker.sweep() == [10, 0, 0, 1])
        #expect(try database.status(all) == "sent")
        #expect(try database.status(old) == "sent", "still there")
        try database.psql("DROP TRIGGER keep ON scheduled_notifications")
        try worker.sweep()
        #expect(try database.status(old) == nil)
    }

    @Test func nothingThatTheSweepHasLockedWaitsForIt() throws {
        // While old ones are deleted nobody else's rows are locked yet.
        try database.notify()
        try worker.accept(worker.claim())
        try age(40)
        let all = try database.notify("broadcast", "true")
        try worker.accept(worker.claimBroadcast())
        let holder = database.openSession()
        defer { holder.close() }
        try database.psql(
            """
            CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN OLD; END $$;
            CREATE TRIGGER slow BEFORE DELETE ON scheduled_notifications FOR EACH ROW EXECUTE FUNCTION slow()
            """)
        try holder.run("BEGIN; SELECT pg_advisory_xact_lock(4711)")
        try worker.session.start("SELECT finished FROM sweep('{default}', '{24h}')")
        #expect(try worker.session.waitsForALock())
        #expect(try QueueWorker(database).finalise(all) == ["sent"], "and not after the sweep")
        try holder.run("COMMIT")
        #expect(try worker.session.finish() == [["0"]])
    }

    @Test func aLotAtATimeAndNeverWaiting() throws {
        for _ in 1...50 { try database.notify() }
        try worker.accept(worker.claim())
        try age(40)
        let holder = database.openSession()
        defer { holder.close() }
        try holder.run("BEGIN; SELECT FROM scheduled_notifications WHERE id = 1 FOR NO KEY UPDATE")
        #expect(try database.number("SELECT pgpush_prune(10, '0 s')") == 10)
        #expect(
            try database.number("SELECT pgpush_prune(10, '1 minute')") == 39,
            "until the time is over, or nothing is left")
        #expect(try ids() == [1])
        try holder.run("COMMIT")
        // Great broadcasts go one at a time.
        try database.psql(
            """
            SET session_replication_role = replica; UPDATE scheduled_notifications SET batch_seq = 15000; RESET session_replication_role
            """)
        for _ in 1...3 { try database.notify() }
        try worker.accept(worker.claim())
        try database.psql(
            """
            SET session_replication_role = replica; UPDATE scheduled_notifications SET batch_seq = 15000; RESET session_replication_role
            """)
        try age(40)
        #expect(try database.number("SELECT pgpush_prune(10, '0 s')") == 2)
        #expect(try database.number("SELECT pgpush_prune(10, '0 s')") == 2)
        #expect(try database.number("SELECT pgpush_prune(10, '0 s')") == 0)
    }

    @Test func nothingOfANotificationOutlivesIt() throws {
        func left() throws -> [Int] {
            try ["notification_batches", "delivery_failures", "proposed_deactivations"].map {
                try database.number("SELECT count(*) FROM \($0)")
            }
        }
        func refuse() throws {
            try database.notify("broadcast", "true")
            try worker.settle(.answers(worker.claimBroadcast(batches: 1, batchSize: 20)[0], accepted: 18, bad: [1, 2]))
        }
        try refuse()
        #expect(try left() == [1, 2, 2])
        try database.psql("DELETE FROM scheduled_notifications")
        #expect(try left() == [0, 2, 0], "the ledger goes by the day")
        try refuse()
        try database.psql("TRUNCATE scheduled_notifications RESTART IDENTITY")
        #expect(try left() == [0, 0, 0])
        // Whatever else somebody truncates in the same breath.
        try refuse()
        try database.psql("TRUNCATE scheduled_notifications, delivery_failures, notification_batches RESTART IDENTITY")
        #expect(try left() == [0, 0, 0])
        // The window has nothing left to decide.
        try database.psql("UPDATE token_windows SET closes_at = now()")
        #expect(try worker.judge() == [["calm", "0", "0", "0"]])
        #expect(try worker.judge().isEmpty)
    }
}
