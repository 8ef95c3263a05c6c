// The views that operators and monitoring read, and the ledger's partitions.

import TestSupport
import Testing

@Suite struct ViewTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
    }

    private func report(_ id: Int) throws -> [[String?]] {
        try database.psql(
            "SELECT device_id, outcome FROM delivery_report WHERE notification_id = \(id) ORDER BY abs(device_id) NULLS LAST"
        )
    }

    @Test func whyDidThisPersonNotGetIt() throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token, environment, is_active) VALUES ('a', 'aa000001', 'production', true),
                ('a', 'aa000002', 'production', true), ('a', 'aa000003', 'production', true), ('a', 'aa000004', 'production', false),
                ('a', 'aa000005', 'sandbox', true), ('a', 'aa000006', 'production', true)
            """)
        let id = try database.notify("user_id, environment", "'a', 'production'")
        #expect(
            try report(id).map { $0[1] } == ["waiting", "waiting", "waiting", "inactive", "not addressed", "waiting"])
        var outcome = Outcome(unit: try worker.claim()[0], accepted: 1, rejected: 1, unknown: 1)
        outcome.failures = [
            .init(device: 2, status: 410, reason: "Unregistered"), .init(device: 3, status: 0, reason: "Timeout"),
            .init(device: 6, status: 503, reason: "Shutdown", isFinal: false),
        ]
        outcome.again = [.init(devices: [6])]
        try worker.settle(outcome)
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', 'aa000007')")
        #expect(
            try report(id) == [
                ["1", "accepted"], ["2", "rejected"], ["3", "unknown"], ["4", "inactive"], ["5", "not addressed"],
                ["6", "waiting"],
                ["7", "not addressed"],
            ])
        let words = try database.psql(
            "SELECT explanation FROM delivery_report WHERE notification_id = \(id) AND device_id IN (2, 6) ORDER BY 1")
        #expect(words == [["Apple answered 410 Unregistered"], ["to be tried again after 503 Shutdown"]])
        try worker.accept(worker.claimBatches())
        try worker.finalise(id)
        #expect(
            try report(id).map { $0[1] } == [
                "accepted", "rejected", "unknown", "inactive", "not addressed", "accepted", "not addressed",
            ])
        let nobody = try database.notify("user_id", "'nobody'")
        #expect(try report(nobody) == [[nil, "no device"]])
    }

    @Test func reportsOfOtherTargets() throws {
        try database.addDevices(20)
        let list = try database.notify("user_ids", "'{u1,nobody}'")
        let tokens = try database.notify("device_tokens", "'{ffff0001}'")
        let channel = try database.notify(
            "channel_id, push_type, aps", "'YWJj', 'liveactivity', '{\"event\": \"end\"}'")
        let units = try worker.claim()
        try worker.settle(units.map { Outcome(unit: $0, accepted: 1) })
        #expect(try report(list) == [["1", "accepted"], [nil, "no device"]])
        #expect(try report(tokens) == [["-1", "accepted"]])
        #expect(try report(channel) == [["0", "accepted"]])

        let all = try database.notify("broadcast", "true")
        let batches = try worker.claimBroadcast(batches: 2, batchSize: 5)
        #expect(try report(all).map { $0[1] } == Array(repeating: "waiting", count: 20))
        try database.psql("SELECT cancel_notification(\(all))")
        var half = Outcome(unit: batches[1], accepted: 3)
        half.again = [.init(devices: [9, 10], isCharged: false)]
        try worker.settle([Outcome(unit: batches[0], accepted: 5), half])
        try worker.finalise(all)
        #expect(
            try report(all).map { $0[1] } == Array(repeating: "accepted", count: 8)
                + Array(repeating: "not reached", count: 12))
        #expect(
            try database.psql("SELECT outcome FROM delivery_report WHERE notification_id = \(all) AND user_id = 'u9'")
                == [["not reached"]])
    }

    @Test func progressOfABroadcast() throws {
        try database.addDevices(1000)
        let id = try database.notify("broadcast", "true")
        func progress() throws -> [String?] {
            try database.psql(
                """
                SELECT target, device_count, accepted_count, open_batches, round(share_done, 2), devices_per_second > 0, estimated_end > now()
                FROM notification_progress WHERE id = \(id)
                """)[0]
        }
        #expect(try progress() == ["broadcast", "0", "0", "0", "0.00", nil, nil])
        let units = try worker.claimBroadcast(batches: 2, batchSize: 100)
        #expect(try progress() == ["broadcast", "1000", "0", "2", "0.00", "f", nil])
        try worker.accept([units[0]])
        #expect(try progress() == ["broadcast", "1000", "100", "1", "0.10", "t", "t"])
        try worker.accept([units[1]])
        while case let more = try worker.claimBroadcast(), !more.isEmpty { try worker.accept(more) }
        try worker.finalise(id)
        #expect(try progress() == ["broadcast", "1000", "1000", "0", "1.00", "t", nil])
        try database.psql("UPDATE scheduled_notifications SET finished_at = now() - interval '25 h'")
        #expect(try database.psql("SELECT * FROM notification_progress").isEmpty)
    }

    @Test func healthOfTheQueue() throws {
        func health() throws -> [[String?]] {
            try database.psql(
                "SELECT app, due_count, oldest_due_age > interval '1 h', sending_count, message FROM queue_health")
        }
        #expect(try health().isEmpty)
        try database.notify("user_id, scheduled_at", "'a', now() - interval '2 h'")
        try database.notify("user_id, scheduled_at, app", "'a', now() + interval '2 h', 'later'")
        try database.notify("broadcast, app", "true, 'shouting'")
        #expect(
            try health() == [
                ["default", "1", "t", "0", "no live worker serves this app"], ["later", "0", nil, "0", "ok"],
                ["shouting", "1", "f", "0", "no live worker serves this app"],
            ])
        try database.psql("SELECT heartbeat(gen_random_uuid(), 'h', 1, 'v', 1, '{default,shouting}')")
        #expect(try health().map { $0[4] } == ["late", "ok", "ok"])
        try database.psql("SELECT pause_app('default', reason => 'moving')")
        #expect(try health()[0][4] == "paused: moving")
    }

    @Test func reasonsOfTheLastDay() throws {
        try database.addDevices(3)
        try database.notify("user_ids", "'{u1,u2,u3}'")
        var outcome = Outcome(unit: try worker.claim()[0], rejected: 2)
        outcome.failures = [
            .init(device: 1, status: 410, reason: "Unregistered"),
            .init(device: 2, status: 410, reason: "Unregistered"),
            .init(device: 3, status: 429, reason: "TooManyRequests", isFinal: false),
        ]
        outcome.again = [.init(devices: [3])]
        try worker.settle(outcome)
        #expect(
            try database.psql(
                "SELECT app, environment, http_status, reason, final_count, retried_count, notification_count FROM failure_reasons"
            )
                == [
                    ["default", "production", "410", "Unregistered", "2", "0", "1"],
                    ["default", "production", "429", "TooManyRequests", "0", "1", "1"],
                ])
    }

    @Test func theLedgerHasADayEach() throws {
        func partitions() throws -> [String?] {
            try database.psql(
                """
                SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
                WHERE inhparent = 'delivery_failures'::regclass ORDER BY 1
                """
            ).map { $0[0] }
        }
        let today = try database.psql(
            "SELECT 'delivery_failures_' || to_char(now() + d * interval '1 day', 'YYYYMMDD') FROM generate_series(0, 2) d"
        ).map { $0[0] }
        #expect(try partitions() == today + ["delivery_failures_default"])
        // A day that is missing is made again, and takes its rows out of the default partition.
        try database.psql(
            """
            DROP TABLE \(today[0] ?? "");
            INSERT INTO delivery_failures (notification_id, batch_no, app, device_id, reason, attempt, is_final, occurred_at)
            VALUES (1, 0, 'default', 1, 'x', 1, true, now()), (1, 0, 'default', 1, 'x', 1, true, now() - interval '40 days'),
                   (1, 0, 'default', 1, 'x', 1, true, now() - interval '4 days')
            """)
        #expect(try database.number("SELECT count(*) FROM delivery_failures_default") == 3)
        try worker.sweep()
        #expect(try partitions() == today + ["delivery_failures_default"])
        #expect(try database.number("SELECT count(*) FROM \(today[0] ?? "")") == 1)
        #expect(try database.number("SELECT count(*) FROM delivery_failures_default") == 1, "one is too old")
        try database.psql("SELECT set_config('pgpush.keep_failures', 'for ever', false)")
        #expect(try database.value("SELECT pgpush_keep_failures()") == "30 days")
        try database.psql("SELECT set_config('pgpush.keep_failures', '90 days', false)")
        #expect(try database.value("SELECT pgpush_keep_failures()") == "90 days")
        try database.psql("RESET pgpush.keep_failures")
        // Old days go.
        try database.psql("SELECT pgpush_add_failures_day('delivery_failures_20200102', '2020-01-02')")
        #expect(try partitions().first == "delivery_failures_20200102")
        try worker.sweep()
        #expect(try partitions() == today + ["delivery_failures_default"])
        #expect(try database.value("SELECT pgpush_maintain_failures()") == "f")
        try database.psql("SELECT pgpush_add_failures_day('delivery_failures_20200102', '2020-01-02')")
        #expect(try database.value("SELECT pgpush_maintain_failures('100 years')") == "f")
        #expect(
            try database.psql(
                "SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'delivery_failures_20200102'::regclass"
            ).count == 1)
    }

    @Test func whoWasNotSentToHasNotAccepted() throws {
        try database.addDevices(12)
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 6)
        try worker.settle([
            Outcome(unit: units[0], accepted: 6),
            Outcome(unit: units[1], accepted: 3, isDone: false, doneThrough: 9),
        ])
        #expect(try worker.release([units[1]]) == ["t"])
        try database.psql("SELECT cancel_notification(\(id))")
        #expect(try worker.finalise(id) == ["cancelled"])
        let expected = (1...12).map { $0 <= 9 ? "accepted" : "not reached" }
        #expect(try report(id).map { $0[1] } == expected)

        // The same under the name sent: part of it was given up.
        try database.psql(
            """
            SET session_replication_role = replica; UPDATE scheduled_notifications SET status = 'sent';
            RESET session_replication_role
            """)
        #expect(try report(id).map { $0[1] } == expected)
    }
}
