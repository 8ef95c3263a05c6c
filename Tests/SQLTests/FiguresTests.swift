// The queue in figures, as the metrics of a worker read it: what view queue_health says, and bounded.

import TestSupport
import Testing

@Suite struct FiguresTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(20)
    }

    private func figures(_ apps: String = "'{default}'", limit: String = "") throws -> [[String?]] {
        try database.psql(
            """
            SELECT app, due_count, sending_count, ready_batches, leased_batches, parked_batches, live_workers
            FROM queue_figures(\(apps)\(limit))
            """)
    }

    @Test func nothingIsAllZeros() throws {
        #expect(
            try figures("'{default,none}'")
                == [["default", "0", "0", "0", "0", "0", "0"], ["none", "0", "0", "0", "0", "0", "0"]])
        #expect(try figures("'{}'").isEmpty && figures("NULL").isEmpty)
        #expect(
            try database.psql("SELECT oldest_due_age, oldest_ready_age FROM queue_figures('{default}')") == [
                ["0", "0"]
            ])
    }

    @Test func sayWhatTheViewSays() throws {
        for user in ["u1", "u2", "u3"] { _ = try database.notify("user_id", "'\(user)'") }
        _ = try database.notify("broadcast", "true")
        _ = try database.notify("user_id, scheduled_at", "'u4', now() + interval '1 h'")
        _ = try database.notify("broadcast, scheduled_at", "true, now() + interval '1 h'")
        #expect(try figures() == [["default", "4", "0", "0", "0", "0", "0"]])
        #expect(try figures(limit: ", 2") == [["default", "2", "0", "0", "0", "0", "0"]])

        _ = try worker.claimBroadcast(batches: 1)
        let view = """
            SELECT app, due_count, sending_count, ready_batches, leased_batches, parked_batches, live_workers FROM queue_health
            """
        #expect(try figures() == database.psql(view))
        #expect(try figures()[0].prefix(3) == ["default", "3", "1"])

        try database.psql("UPDATE scheduled_notifications SET scheduled_at = now() - interval '90 s' WHERE id = 2")
        let age = try #require(
            Double(try database.value("SELECT oldest_due_age FROM queue_figures('{default}')") ?? ""))
        let seen = try #require(
            Double(try database.value("SELECT extract(epoch FROM oldest_due_age) FROM queue_health") ?? ""))
        #expect(age >= 90 && age <= seen + 1 && seen >= 90)
    }

    @Test func tellOfBatchesThatWait() throws {
        _ = try database.notify("broadcast", "true")
        var outcome = Outcome(unit: try worker.claimBroadcast(batches: 1)[0], accepted: 17)
        outcome.again = [
            .init(devices: [3]),
            .init(devices: [10, 20], state: "parked", isCharged: false, environment: "sandbox"),
        ]
        outcome.pauses = [.init(environment: "sandbox", reason: "BadEnvironmentKeyInToken")]
        #expect(try worker.settle(outcome) == "applied")
        #expect(try figures() == [["default", "0", "1", "1", "0", "1", "0"]])
        try database.psql(
            "UPDATE notification_batches SET not_before = now() - interval '60 s' WHERE state = 'ready'")
        #expect(
            try database.value("SELECT oldest_ready_age >= 60 FROM queue_figures('{default}')") == "t")
    }

    @Test func rowsThatCamePastTheTriggersDoNoHarm() throws {
        let id = try database.notify()
        try database.psql(
            """
            SET session_replication_role = replica;
            UPDATE scheduled_notifications SET scheduled_at = '-infinity' WHERE id = \(id);
            SET session_replication_role = origin
            """)
        #expect(try figures() == [["default", "1", "0", "0", "0", "0", "0"]])
        #expect(try database.value("SELECT oldest_due_age > 1e6 FROM queue_figures('{default}')") == "t")
    }
}
