// Pauses: scopes that are not sent to, parked batches, probes.

import TestSupport
import Testing

@Suite struct PauseTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(20)
    }

    /// A broadcast whose two sandbox devices were parked, the rest accepted.
    private func park(topic: String? = nil) throws -> Int {
        let id = try database.notify("broadcast", "true")
        var outcome = Outcome(unit: try worker.claimBroadcast(batches: 1)[0], accepted: 18)
        outcome.again = [
            .init(devices: [10, 20], state: "parked", isCharged: false, environment: "sandbox", topic: topic)
        ]
        outcome.pauses = [.init(environment: "sandbox", topic: topic, reason: "BadEnvironmentKeyInToken")]
        #expect(try worker.settle(outcome) == "applied")
        return id
    }

    private func states() throws -> [String?] {
        try database.psql("SELECT state || ' ' || attempts FROM notification_batches ORDER BY batch_no").map { $0[0] }
    }

    @Test func parkedUntilResumed() throws {
        let id = try park()
        #expect(
            try database.psql("SELECT app, environment, topic, reason, automatic FROM current_pauses()")
                == [["default", "sandbox", nil, "BadEnvironmentKeyInToken", "t"]])
        #expect(try worker.claimBatches(rescue: true).isEmpty)
        #expect(try worker.sweep()[1] == 0)
        #expect(try worker.finalise(id) == [])
        #expect(try database.value("SELECT resume_app('default', 'production')") == "f")
        #expect(try states() == ["done 1", "parked 1"])
        #expect(try database.value("SELECT resume_app('default', 'sandbox')") == "t")
        #expect(try states() == ["done 1", "ready 1"])
        #expect(try worker.accept(worker.claimBatches()) == ["applied"])
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [20, 20, 0, 0])
    }

    @Test func resumingTheAppResumesAll() throws {
        _ = try park(topic: "com.example.app")
        try database.psql("SELECT pause_app('default', 'production')")
        #expect(try database.value("SELECT resume_app('default')") == "t")
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 0)
        #expect(try states() == ["done 1", "ready 1"])
    }

    @Test func aWiderPauseKeepsItParked() throws {
        _ = try park()
        try database.psql("SELECT pause_app('default')")
        #expect(try database.value("SELECT resume_app('default', 'sandbox')") == "t")
        #expect(try states() == ["done 1", "parked 1"])
        #expect(try database.value("SELECT resume_app('default')") == "t")
        #expect(try states() == ["done 1", "ready 1"])
    }

    @Test func sweepFreesWhatWasParkedTooLate() throws {
        _ = try park()
        // As if the pause had been ended between its reading and the parking.
        try database.psql("DELETE FROM app_pauses")
        #expect(try worker.sweep()[1] == 1)
        #expect(try states() == ["done 1", "ready 1"])
    }

    @Test func oneWorkerProbesWithOneDevice() throws {
        let id = try park()
        let other = QueueWorker(database)
        #expect(try worker.probe().isEmpty, "not yet")
        #expect(try #require(try worker.nextDue()) <= 30_000)
        try database.psql("UPDATE app_pauses SET next_probe_at = now()")
        #expect(try worker.nextDue() == 0)
        let probe = try worker.probe()
        #expect(probe.map(\.deviceCount) == [1])
        #expect(try other.probe().isEmpty)
        #expect(try worker.expand(probe).map(\.ids) == [[10]])

        // Refused again: parked again, uncharged.
        var refused = Outcome(unit: probe[0])
        refused.again = [.init(devices: [10], state: "parked", isCharged: false, environment: "sandbox")]
        refused.pauses = [.init(environment: "sandbox")]
        #expect(try worker.settle(refused) == "applied")
        #expect(try database.psql("SELECT reason, probes FROM app_pauses") == [["BadEnvironmentKeyInToken", "1"]])

        try database.psql("UPDATE app_pauses SET next_probe_at = now()")
        let second = try other.probe()
        #expect(try other.accept(second) == ["applied"])
        #expect(try other.session.run("SELECT end_pause('default', 'sandbox', NULL)") == [["t"]])
        let freed = try worker.claimBatches()
        #expect(
            try worker.expand(freed).flatMap(\.ids).sorted() == [10, 20].filter { $0 != 20 || second[0].batch != 2 })
        try worker.accept(freed)
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [20, 20, 0, 0])
    }

    @Test func whatAProbeWasRefusedForIsTriedLast() throws {
        _ = try park()
        let due = "UPDATE app_pauses SET next_probe_at = now()"
        for expected in [[10], [20], [10]] {
            try database.psql(due)
            let probe = try worker.probe()
            #expect(try worker.expand(probe).map(\.ids) == [expected])
            var refused = Outcome(unit: try #require(probe.first))
            refused.again = [.init(devices: expected, state: "parked", isCharged: false, environment: "sandbox")]
            refused.pauses = [.init(environment: "sandbox")]
            #expect(try worker.settle(refused) == "applied")
        }
    }

    @Test func anOperatorsPauseIsNotProbed() throws {
        _ = try park()
        try database.psql("SELECT pause_app('default', 'sandbox', 'being repaired'); ")
        #expect(
            try database.psql("SELECT automatic, reason, next_probe_at FROM app_pauses") == [
                ["f", "being repaired", nil]
            ])
        #expect(try worker.probe().isEmpty)
        #expect(try worker.session.run("SELECT end_pause('default', 'sandbox', NULL)") == [["f"]])
        #expect(try database.refusal("SELECT pause_app('default', 'moon')") == "PN018")
    }

    @Test func aPauseWithNothingParkedEndsByItself() throws {
        let id = try park()
        try database.psql("SELECT cancel_notification(\(id)); UPDATE app_pauses SET next_probe_at = now()")
        #expect(try worker.finalise(id) == ["cancelled"])
        #expect(try worker.probe().isEmpty)
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 0)
    }

    @Test func manyReportsOfOnePause() throws {
        try database.notify()
        try database.notify("user_id", "'u2'")
        let units = try worker.claim()
        var outcomes = units.map { Outcome(unit: $0) }
        for index in outcomes.indices {
            outcomes[index].again = [.init(devices: [index + 1], state: "parked", isCharged: false)]
            outcomes[index].pauses = [.init(), .init(environment: "production"), .init()]
        }
        #expect(try worker.settle(outcomes) == ["applied", "applied"])
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 2)
        #expect(try worker.claim().isEmpty)
        try database.psql("SELECT resume_app('default')")
        #expect(try worker.accept(worker.claimBatches()) == ["applied", "applied"])
        #expect(try worker.finalise(1, 2) == ["sent", "sent"])
    }

    @Test func aProbeDoesNotRunThroughAnOperatorsPause() throws {
        _ = try park(topic: "com.example.app")
        try database.psql("UPDATE app_pauses SET next_probe_at = now(); SELECT pause_app('default', 'sandbox')")
        #expect(try worker.probe().isEmpty)
        #expect(try worker.nextDue() == nil, "nor is it waited for")
        try database.psql("SELECT resume_app('default', 'production'); DELETE FROM app_pauses WHERE NOT automatic")
        #expect(try worker.probe().count == 1)
        // The automatic pause is the wider one, the operator's covers what is parked.
        try database.psql(
            """
            UPDATE app_pauses SET environment = NULL, topic = NULL, next_probe_at = now();
            SELECT pause_app('default', 'sandbox')
            """)
        #expect(try worker.probe().isEmpty)
    }

    @Test func whatHasExpiredIsNoProbe() throws {
        _ = try park()
        try database.psql(
            """
            SET session_replication_role = replica; UPDATE scheduled_notifications SET expires_at = now() - interval '1 s';
            RESET session_replication_role; UPDATE app_pauses SET next_probe_at = now()
            """)
        #expect(try worker.probe().isEmpty)
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 1)
    }

    @Test func manyParkedBatchesAreFreedInLots() throws {
        _ = try park()
        try database.psql(
            """
            INSERT INTO notification_batches (notification_id, batch_no, app, state, device_ids, device_count, environment)
            SELECT 1, i, 'default', 'parked', '{10}', 1, 'sandbox' FROM generate_series(100, 5098) i
            """)
        func parked() throws -> Int {
            try database.number("SELECT count(*) FROM notification_batches WHERE state = 'parked'")
        }
        #expect(try database.value("SELECT resume_app('default')") == "t")
        #expect(try parked() == 3000)
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 0)
        #expect(try worker.sweep()[1] == 2000)
        #expect(try worker.nextDue() == 0)
        #expect(try worker.claimBatches(limit: 1).count == 1)
        #expect(try parked() == 0)
    }
}
