// Rescue and sweep: what happens when a worker is gone.

import Foundation
import TestSupport
import Testing

@Suite struct RescueTests {
    let database: TestDatabase
    let worker: QueueWorker
    let other: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        other = QueueWorker(database)
        try database.addDevices(12)
    }

    private func beat(_ worker: QueueWorker) throws {
        try worker.session.run("SELECT heartbeat('\(worker.owner)', 'host', 1, '1.0', 1, '{default}')")
    }

    /// As if the server had been up for an hour.
    private func ageTheServer() throws {
        try database.psql(
            """
            CREATE OR REPLACE FUNCTION pgpush_server_started() RETURNS timestamptz LANGUAGE sql STABLE
            SET search_path = public, pg_temp AS $$ SELECT now() - interval '1 h' $$
            """)
    }

    private func pastExpiry() throws {
        try database.psql(
            """
            SET session_replication_role = replica;
            UPDATE scheduled_notifications SET expires_at = now() - interval '1 s';
            RESET session_replication_role
            """)
    }

    private func loseLeases() throws {
        try database.psql(
            """
            UPDATE scheduled_notifications SET lease_until = now() - interval '1 h' WHERE lease_until IS NOT NULL;
            UPDATE notification_batches SET lease_until = now() - interval '1 h' WHERE lease_until IS NOT NULL
            """)
    }

    @Test("when the first lease can be taken over is known, whoever holds it")
    func nextLost() throws {
        #expect(try other.nextLost() == nil)
        try database.notify()
        try database.notify("broadcast", "true")
        #expect(try other.nextLost() == nil, "due is not leased")
        _ = try worker.claim() + worker.claimBroadcast(batches: 2, batchSize: 6)
        #expect((20_000...90_000).contains(try other.nextLost() ?? 0))
        try database.psql("UPDATE notification_batches SET lease_until = now() - interval '5 s' WHERE batch_no = 2")
        #expect((0...10_000).contains(try other.nextLost() ?? -1))
        try database.psql("UPDATE scheduled_notifications SET lease_until = now() - interval '1 h' WHERE NOT broadcast")
        #expect(try other.nextLost() == 0)
        // What is not served, or paused, is nobody's concern.
        #expect(try database.value("SELECT next_lost('{another}')") == nil)
        try database.psql("SELECT pause_app('default', NULL, 'x')")
        #expect(try other.nextLost() == nil)
    }

    @Test("F22 a killed worker's rows are taken over after the lease, by whom ever")
    func takenOver() throws {
        let single = try database.notify()
        let all = try database.notify("broadcast", "true")
        let units = try worker.claim() + worker.claimBroadcast(batches: 2, batchSize: 6)
        try worker.settle(Outcome(unit: units[1], accepted: 3, isDone: false, doneThrough: 3))
        #expect(try other.claimBatches(rescue: true).isEmpty, "leases run")
        try database.psql(
            "UPDATE scheduled_notifications SET lease_until = now() - interval '10 s' WHERE lease_until IS NOT NULL")
        #expect(try other.claimBatches(rescue: true, grace: "15 min").isEmpty, "grace")
        try loseLeases()
        try beat(worker)
        #expect(try other.claimBatches(rescue: false).isEmpty, "its owner lives")
        let rescued = try other.claimBatches(rescue: true)
        #expect(rescued.map(\.notification) == [single, all, all])
        #expect(rescued.map(\.deviceCount) == [nil, 3, 6])
        #expect(try other.expand(rescued).flatMap(\.ids).sorted() == [1, 4, 5, 6, 7, 8, 9, 10, 11, 12])
        #expect(try other.accept(rescued) == ["applied", "applied", "applied"])
        #expect(try other.finalise(all) == ["sent"])
        #expect(try database.counts(all) == [12, 12, 0, 0])
    }

    @Test func anOwnerThatComesBackGoesOn() throws {
        try database.notify()
        let units = try worker.claim()
        try loseLeases()
        #expect(try worker.renew(units) == ["true sending"])
        #expect(try other.claimBatches(rescue: true).isEmpty)
        #expect(try worker.accept(units) == ["applied"])
    }

    @Test func atMostOnceIsBookedAsUnknown() throws {
        let single = try database.notify("user_id, delivery", "'u1', 'at_most_once'")
        let all = try database.notify("broadcast, delivery", "true, 'at_most_once'")
        _ = try worker.claim()
        let batches = try worker.claimBroadcast(batches: 2, batchSize: 6)
        try worker.settle(Outcome(unit: batches[0], accepted: 4, isDone: false, doneThrough: 4))
        try loseLeases()
        #expect(try other.claimBatches(rescue: true).isEmpty)
        #expect(try other.finalise(all) == ["sent"])
        #expect(try database.counts(all) == [12, 4, 0, 8])
        #expect(try database.status(single) == "failed")
        #expect(try database.counts(single) == [1, 0, 0, 1])
        #expect(
            try database.psql("SELECT DISTINCT http_status, reason, is_final FROM delivery_failures") == [
                [nil, "Worker lost", "t"]
            ])
        #expect(try database.number("SELECT count(*) FROM delivery_failures") == 9)
        #expect(try worker.settle(Outcome(unit: batches[1], accepted: 6)) == "fenced")
    }

    @Test func cancelledUnitsOfALostWorkerAreClosedBySweep() throws {
        let single = try database.notify()
        let all = try database.notify("broadcast", "true")
        _ = try worker.claim()
        let batches = try worker.claimBroadcast(batches: 2, batchSize: 5)
        try worker.settle(Outcome(unit: batches[0], accepted: 5))
        try database.psql("UPDATE scheduled_notifications SET status = 'cancelled'")
        #expect(try other.sweep() == [0, 0, 0, 0], "the worker may still settle")
        try loseLeases()
        #expect(try other.claimBatches(rescue: true).isEmpty, "nobody sends what is being cancelled")
        #expect(try other.sweep()[2...] == [2, 1])
        #expect(try database.psql("SELECT status FROM scheduled_notifications") == [["cancelled"], ["cancelled"]])
        #expect(try database.counts(all) == [10, 5, 0, 5])
        #expect(try database.counts(single) == [1, 0, 0, 1])
    }

    @Test func sweepFinishesWhatNobodyFinalised() throws {
        let id = try database.notify("broadcast", "true")
        try worker.accept(worker.claimBroadcast())
        #expect(try database.status(id) == "sending")
        #expect(try other.sweep() == [0, 0, 0, 1])
        #expect(try database.status(id) == "sent")
    }

    @Test func sweepEndsWhatHasExpired() throws {
        let id = try database.notify("broadcast, expires_at", "true, now() + interval '1 h'")
        let units = try worker.claimBroadcast(batches: 1, batchSize: 4)
        var outcome = Outcome(unit: units[0], accepted: 3)
        outcome.again = [.init(devices: [4], delayMilliseconds: 3_600_000)]
        try worker.settle(outcome)
        try database.psql(
            "SET session_replication_role = replica; UPDATE scheduled_notifications SET expires_at = now() - interval '1 s'; RESET session_replication_role"
        )
        #expect(try other.sweep() == [0, 0, 0, 1])
        #expect(try database.status(id) == "expired")
        #expect(try database.counts(id) == [4, 3, 0, 0])
        #expect(try other.nextDue() == nil)
    }

    @Test func sweepExpiresWhatIsLate() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, title, scheduled_at)
            SELECT 'a', 'x', now() - interval '30 h' FROM generate_series(1, 7000)
            """)
        #expect(try other.sweep()[0] == 5000)
        #expect(try other.sweep()[0] == 2000)
    }

    @Test func workersAreListed() throws {
        let beat = "SELECT heartbeat('\(worker.owner)', 'host', 1, '1.0', 2, '{default}') > now() - interval '1 s'"
        #expect(try worker.session.run(beat) == [["t"]])
        #expect(try worker.session.run(beat) == [["t"]])
        #expect(try database.psql("SELECT host, lanes, apps FROM pgpush_workers") == [["host", "2", "{default}"]])
        #expect(try database.psql("SELECT app, live_workers, message FROM queue_health") == [["default", "1", "ok"]])
        try worker.session.run("SELECT goodbye('\(worker.owner)')")
        #expect(try database.number("SELECT count(*) FROM pgpush_workers") == 0)
        try worker.session.run(beat)
        try database.psql("UPDATE pgpush_workers SET last_seen_at = now() - interval '2 days'")
        try other.sweep()
        #expect(try database.number("SELECT count(*) FROM pgpush_workers") == 0)
    }

    @Test func aWorkerFromCronTakesWhatIsCertainlyLost() throws {
        let single = try database.notify()
        let all = try database.notify("broadcast", "true")
        _ = try worker.claim() + worker.claimBroadcast()
        try loseLeases()
        try database.psql(
            """
            CREATE OR REPLACE FUNCTION pgpush_server_started() RETURNS timestamptz LANGUAGE sql STABLE
            SET search_path = public, pg_temp AS $$ SELECT now() - interval '1 minute' $$
            """)
        #expect(try other.claimBatches().isEmpty, "the server has just come back")
        try ageTheServer()
        try beat(worker)
        #expect(try other.claimBatches().isEmpty, "the owner lives")
        try database.psql("UPDATE pgpush_workers SET last_seen_at = now() - interval '4 minutes'")
        try beat(other)
        try database.psql(
            "UPDATE pgpush_workers SET started_at = now() - interval '2 h' WHERE owner = '\(other.owner)'")
        #expect(try other.claimBatches().isEmpty, "one that was there before waits until it may rescue")
        try database.psql("UPDATE pgpush_workers SET started_at = now() WHERE owner = '\(other.owner)'")
        try database.psql(
            "UPDATE scheduled_notifications SET lease_until = now() - interval '4 minutes' WHERE lease_until IS NOT NULL"
        )
        let batches = try other.claimBatches()
        #expect(batches.map(\.notification) == [all], "five minutes")
        try loseLeases()
        let direct = try QueueWorker(database).claimBatches()
        #expect(direct.map(\.notification).contains(single))
        #expect(direct.first?.epoch == 2)
    }

    @Test func aLaneIsItsProcess() throws {
        let all = try database.notify("broadcast", "true")
        _ = try worker.claimBroadcast()
        try loseLeases()
        try ageTheServer()
        let (process, another) = (QueueWorker(database), QueueWorker(database))
        func beat(_ process: QueueWorker, lane: QueueWorker) throws {
            try process.session.run(
                "SELECT heartbeat('\(process.owner)', 'h', 1, 'v', 2, '{default}', p_owners => '{\(lane.owner),\(UUID().uuidString)}')"
            )
        }
        // The lane whose lease has ended belongs to a process that lives.
        try beat(process, lane: worker)
        #expect(try other.claimBatches().isEmpty)
        try database.psql("UPDATE pgpush_workers SET last_seen_at = now() - interval '4 minutes'")
        // A lane of a process that was there all the time is not young, though its name was never seen.
        try beat(another, lane: other)
        try database.psql(
            "UPDATE pgpush_workers SET started_at = now() - interval '2 h' WHERE owner = '\(another.owner)'")
        #expect(try other.claimBatches().isEmpty)
        try database.psql("UPDATE pgpush_workers SET started_at = now() WHERE owner = '\(another.owner)'")
        #expect(try other.claimBatches().map(\.notification) == [all])
    }

    @Test func whatHasExpiredIsNotRescued() throws {
        let single = try database.notify("user_id, expires_at", "'u1', now() + interval '1 h'")
        let all = try database.notify("broadcast, expires_at", "true, now() + interval '1 h'")
        let units = try worker.claim() + worker.claimBroadcast(batches: 1, batchSize: 6)
        try loseLeases()
        try pastExpiry()
        #expect(try other.claimBatches(rescue: true).isEmpty)
        #expect(try database.status(single) == "expired")
        #expect(try database.value("SELECT state FROM notification_batches") == "abandoned")
        #expect(try other.sweep()[3] == 1)
        #expect(try database.status(all) == "expired")
        #expect(try worker.accept(units) == ["fenced", "fenced"])
    }

    @Test func sweepEndsWhatWaitsTooLong() throws {
        let id = try database.notify("broadcast", "true")
        var outcome = Outcome(unit: try worker.claimBroadcast(batches: 1, batchSize: 4)[0], accepted: 3)
        outcome.again = [.init(devices: [4], delayMilliseconds: 3_600_000)]
        let list = try database.notify("user_ids", "'{u1,u2}'")
        #expect(try worker.claim(batchSize: 1).isEmpty)
        let leased = try worker.claimBatches(limit: 1)
        #expect(leased.count == 1)
        try worker.settle(outcome)
        #expect(try other.sweep()[3] == 0, "not late")
        try database.psql(
            """
            SET session_replication_role = replica;
            UPDATE scheduled_notifications SET scheduled_at = now() - interval '30 h';
            RESET session_replication_role
            """)
        #expect(try other.sweep()[3] == 0, "one has a batch out, of the other a slice was just cut")
        try database.psql("UPDATE scheduled_notifications SET served_at = now() - interval '25 h' WHERE id = \(id)")
        #expect(try other.sweep()[3] == 1)
        #expect(try database.status(id) == "expired")
        #expect(try database.counts(id) == [4, 3, 0, 0])
        try worker.accept(leased)
        #expect(try other.sweep()[3] == 1)
        #expect(try database.status(list) == "expired")
        #expect(try database.number("SELECT retry_notification(\(list))") == 1)
        #expect(try other.sweep()[3] == 0, "opened again, it is not late")
        #expect(try worker.accept(worker.claimBatches()).first == "applied")
        #expect(try worker.finalise(list) == ["sent"])
        #expect(try database.counts(list) == [2, 2, 0, 0])
    }
}
