// Several apps in one claim: each gets what it was given, none what was another's, and what is too late for its app is not tried again.

import TestSupport
import Testing

@Suite struct SharesTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        worker.apps = "{a,b,c}"
        worker.lateness = "{24h,24h,24h}"
    }

    private func apps(_ units: [Unit]) throws -> [String] {
        try units.map { unit in
            try database.value("SELECT app FROM scheduled_notifications WHERE id = \(unit.notification)") ?? ""
        }
    }

    private func counts(_ units: [Unit]) throws -> [String: Int] {
        Dictionary(grouping: try apps(units), by: \.self).mapValues(\.count)
    }

    @Test func singlesOfEachAppUpToItsLimit() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (app, user_id, title, scheduled_at)
            SELECT 'a', 'u', 'x', now() - interval '2 hours' FROM generate_series(1, 200);
            INSERT INTO scheduled_notifications (app, user_id, title) SELECT 'b', 'u', 'x' FROM generate_series(1, 3);
            INSERT INTO scheduled_notifications (app, user_id, title) SELECT 'c', 'u', 'x' FROM generate_series(1, 9)
            """)
        worker.limits = "{20,20,5}"
        #expect(try counts(worker.claim(limit: 45)) == ["a": 20, "b": 3, "c": 5])
        worker.limits = "{30,0,5}"
        #expect(try counts(worker.claim(limit: 35)) == ["a": 30, "c": 4])
        // A worker of the first version names one limit for all.
        worker.limits = nil
        #expect(try counts(worker.claim(limit: 40)) == ["a": 40])
    }

    /// Expired rows in front take nothing of an app's part.
    @Test func expiredRowsDoNotCount() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (app, user_id, title, scheduled_at)
            SELECT 'a', 'u', 'x', now() - interval '1 hour' FROM generate_series(1, 30);
            UPDATE scheduled_notifications SET expires_at = now() - interval '1 minute';
            INSERT INTO scheduled_notifications (app, user_id, title) SELECT 'a', 'u', 'x' FROM generate_series(1, 8);
            INSERT INTO scheduled_notifications (app, user_id, title) SELECT 'b', 'u', 'x' FROM generate_series(1, 8)
            """)
        worker.limits = "{5,5,5}"
        #expect(try counts(worker.claim(limit: 15)) == ["a": 5, "b": 5])
    }

    @Test func batchesOfEachAppUpToItsLimit() throws {
        for (app, devices) in [("a", 60), ("b", 20)] {
            try database.psql(
                """
                INSERT INTO devices (app, user_id, device_token)
                SELECT '\(app)', 'u', md5('\(app)' || i) FROM generate_series(1, \(devices)) i;
                INSERT INTO scheduled_notifications (app, broadcast, title) VALUES ('\(app)', true, 'x')
                """)
        }
        // Cut and given back, so that they are ready.
        for _ in 1...2 { _ = try worker.release(try worker.claimBroadcast(batches: 16, batchSize: 5)) }
        worker.limits = "{3,2,16}"
        #expect(try counts(worker.claimBatches(limit: 21)) == ["a": 3, "b": 2])
        worker.limits = "{0,16,16}"
        #expect(try counts(worker.claimBatches(limit: 32)) == ["b": 2])
    }

    @Test func broadcastsOfAppsTakeTurnsAsTheCallerSays() throws {
        try database.psql(
            """
            INSERT INTO devices (app, user_id, device_token)
            SELECT app, 'u', md5(app || i) FROM unnest('{a,b}'::text[]) app, generate_series(1, 100) i;
            INSERT INTO scheduled_notifications (app, broadcast, title) SELECT 'a', true, 'x' FROM generate_series(1, 50);
            INSERT INTO scheduled_notifications (app, broadcast, title) VALUES ('b', true, 'x')
            """)
        worker.limits = "{2,3,1}"
        for _ in 1...3 {
            worker.apps = "{b,a,c}"
            #expect(try apps(worker.claimBroadcast(batches: 6, batchSize: 5)) == ["b", "b"])
            worker.apps = "{a,b,c}"
            #expect(try apps(worker.claimBroadcast(batches: 6, batchSize: 5)) == ["a", "a"])
        }
        // Of one app, the broadcast that was served longest ago: three different ones.
        let served = "SELECT count(*) FROM scheduled_notifications WHERE app = 'a' AND served_at IS NOT NULL"
        #expect(try database.value(served) == "3")
        // Whoever has nothing is passed over.
        worker.apps = "{c,b,a}"
        #expect(try apps(worker.claimBroadcast(batches: 6, batchSize: 5)) == ["b", "b", "b"])
    }

    /// A retry that comes too late for its app is left to the sweep, which ends the notification.
    @Test func lateRetriesAreNotHandedOut() throws {
        try database.psql(
            """
            INSERT INTO devices (app, user_id, device_token) VALUES ('a', 'u', 'aa000001'), ('b', 'u', 'aa000002');
            INSERT INTO scheduled_notifications (app, user_id, title, scheduled_at)
            VALUES ('a', 'u', 'x', now() - interval '50 minutes'), ('b', 'u', 'x', now() - interval '50 minutes')
            """)
        for unit in try worker.claim() {
            let device = try worker.expand([unit])[0].ids[0]
            let again = Outcome.Again(devices: [device])
            #expect(try worker.settle(Outcome(unit: unit, again: [again])) == "applied")
        }
        worker.limits = "{9,9,9}"
        worker.lateness = "{45 min,1 hour,1 hour}"
        let units = try worker.claimBatches()
        #expect(try apps(units) == ["b"])
        try worker.accept(units)
        _ = try worker.finalise(units[0].notification)
        try worker.sweep()
        #expect(
            try database.psql("SELECT app, status FROM scheduled_notifications ORDER BY 1") == [
                ["a", "expired"], ["b", "sent"],
            ])
    }

    /// Lateness counts anew for what an operator has opened again, and for a broadcast while it is being cut.
    @Test func latenessCountsFromTheLastStart() throws {
        try database.psql(
            """
            INSERT INTO devices (app, user_id, device_token) SELECT 'a', 'u', md5('x' || i) FROM generate_series(1, 10) i;
            INSERT INTO scheduled_notifications (app, user_id, title, scheduled_at) VALUES ('a', 'u', 'x', now() - interval '2 hours');
            INSERT INTO scheduled_notifications (app, broadcast, title, scheduled_at) VALUES ('a', true, 'x', now() - interval '2 hours')
            """)
        let unit = try worker.claim()[0]
        let failures = try worker.expand([unit])[0].ids.map { device in
            Outcome.Failure(device: device, status: 503, reason: "ServiceUnavailable")
        }
        #expect(try worker.settle(Outcome(unit: unit, rejected: 10, failures: failures)) == "applied")
        let age = "SELECT now() - scheduled_at < interval '1 minute' FROM"
        let cut = try worker.session.run(
            "\(age) claim_broadcasts('\(worker.owner)', '{a}', '{3 hours}', 1, 5, '75 s', '{9}')")
        #expect(cut == [["t"]])
        #expect(try database.value("SELECT retry_notification(1)") == "10")
        let again = try worker.session.run(
            "\(age) claim_batches('\(worker.owner)', '{a}', 9, '75 s', false, '15 s', '{9}', '{3 hours}')")
        #expect(again == [["t"]])
    }
}
