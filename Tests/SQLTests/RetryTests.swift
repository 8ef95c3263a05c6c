// retry_notification: what was not accepted is sent again, what was accepted is not.

import TestSupport
import Testing

@Suite struct RetryTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(20)
    }

    private func retry(_ id: Int) throws -> Int { try database.number("SELECT retry_notification(\(id))") }

    @Test func rejectedAndUnknownDevicesOfABroadcast() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 10)
        var first = Outcome(unit: units[0], accepted: 7, rejected: 2, unknown: 1)
        first.failures = [
            .init(device: 1, status: 410, reason: "Unregistered"),
            .init(device: 2, status: 400, reason: "BadDeviceToken"),
            .init(device: 3, status: 0, reason: "Timeout"),
        ]
        first.retired = [.init(device: 1, before: "now() + interval '1 s'")]
        try worker.settle([first, Outcome(unit: units[1], accepted: 10)])
        #expect(try retry(id) == 0, "not finished")
        #expect(try worker.finalise(id) == ["sent"])
        let sentAt = try database.value("SELECT sent_at FROM scheduled_notifications")

        #expect(try retry(id) == 2, "device 1 is dead")
        #expect(
            try database.psql("SELECT status, sent_at, finished_at FROM scheduled_notifications") == [
                ["sending", sentAt, nil]
            ])
        let again = try worker.claimBatches()
        #expect(again.map(\.deviceCount) == [2])
        #expect(try worker.expand(again).map(\.ids) == [[2, 3]])
        var second = Outcome(unit: again[0], accepted: 1, rejected: 1)
        second.failures = [.init(device: 2, status: 400, reason: "BadDeviceToken")]
        try worker.settle(second)
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [20, 18, 2, 0])
        #expect(try database.value("SELECT sent_at FROM scheduled_notifications") == sentAt)
        #expect(
            try database.psql(
                "SELECT device_id, count(*), count(*) FILTER (WHERE is_final) FROM delivery_failures GROUP BY 1 ORDER BY 1"
            )
                == [["1", "1", "1"], ["2", "2", "1"], ["3", "1", "0"]])
    }

    @Test func aFailedSingle() throws {
        let id = try database.notify()
        var outcome = Outcome(unit: try worker.claim()[0], unknown: 1)
        outcome.failures = [.init(device: 1, status: 0, reason: "Timeout")]
        try worker.settle(outcome)
        #expect(try database.status(id) == "failed")
        #expect(try retry(id) == 1)
        #expect(try worker.accept(worker.claimBatches()) == ["applied"])
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1, 1, 0, 0])
        #expect(try database.value("SELECT sent_at IS NOT NULL FROM scheduled_notifications") == "t")
        #expect(try retry(id) == 0)
        #expect(try database.status(id) == "sent")
    }

    @Test func aDeviceThatChangedHandsIsNotSentTo() throws {
        let id = try database.notify()
        var outcome = Outcome(unit: try worker.claim()[0], unknown: 1)
        outcome.failures = [.init(device: 1, status: 0, reason: "Timeout")]
        try worker.settle(outcome)
        try database.psql("SELECT register_device('other', lpad('1', 64, '0'))")
        #expect(try retry(id) == 0)
        #expect(try database.status(id) == "failed")
    }

    @Test func whatACancelLeftOut() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 5)
        try database.psql("SELECT cancel_notification(\(id))")
        var half = Outcome(unit: units[1], accepted: 2)
        half.again = [.init(devices: [8, 9, 10], isCharged: false)]
        try worker.settle([Outcome(unit: units[0], accepted: 5), half])
        #expect(try worker.finalise(id) == ["cancelled"])
        #expect(try database.counts(id) == [10, 7, 0, 0])
        #expect(try retry(id) == 13)
        let rest = try worker.claimBatches() + worker.claimBroadcast()
        #expect(try worker.expand(rest).flatMap(\.ids).sorted() == Array(8...20))
        #expect(try worker.accept(rest).allSatisfy { $0 == "applied" })
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [20, 20, 0, 0])
        #expect(
            try database.psql("SELECT cancelled_at, cancelled_by, error FROM scheduled_notifications") == [
                [nil, nil, nil]
            ])
    }

    @Test func whatNeverStarted() throws {
        let cancelled = try database.notify()
        try database.psql("SELECT cancel_notification(\(cancelled))")
        let late = try database.notify("user_id, scheduled_at", "'u2', now() - interval '2 days'")
        #expect(try worker.claim().isEmpty)
        let expired = try database.notify("user_id, scheduled_at, expires_at", "'u3', '2001-01-01', '2001-01-02'")
        _ = try worker.sweep()
        #expect(try retry(cancelled) == 1)
        #expect(try retry(late) == 1)
        #expect(try database.refusal("SELECT retry_notification(\(expired))") == "PN035")
        #expect(try retry(999) == 0)
        #expect(try worker.claim().map(\.notification) == [cancelled, late])
    }

    @Test func tokensAndChannels() throws {
        let tokens = try database.notify("device_tokens", "'{aa000001,aa000002}'")
        let channel = try database.notify(
            "channel_id, push_type, aps", "'YWJj', 'liveactivity', '{\"event\": \"end\"}'")
        let units = try worker.claim()
        var first = Outcome(unit: units[0], accepted: 1, rejected: 1)
        first.failures = [.init(device: -2, status: 400, reason: "BadDeviceToken")]
        var second = Outcome(unit: units[1], unknown: 1)
        second.failures = [.init(device: 0, status: 0, reason: "Timeout")]
        try worker.settle([first, second])
        #expect(try retry(tokens) == 1)
        #expect(try retry(channel) == 1)
        let again = try worker.claimBatches()
        #expect(try worker.expand(again).map(\.ids) == [[-2], [0]])
        #expect(try worker.accept(again) == ["applied", "applied"])
        #expect(try worker.finalise(tokens, channel) == ["sent", "sent"])
        #expect(try database.counts(tokens) == [2, 2, 0, 0])
    }

    @Test func manyDevicesBecomeSeveralBatches() throws {
        try database.addMore(1200)
        let id = try database.notify("broadcast", "true")
        for unit in try worker.claimBroadcast(batches: 4, batchSize: 400) {
            let devices = try worker.expand([unit]).flatMap(\.ids)
            var outcome = Outcome(unit: unit, rejected: devices.count)
            outcome.failures = devices.map { .init(device: $0, status: 400, reason: "BadTopic") }
            try worker.settle(outcome)
        }
        #expect(try worker.finalise(id) == ["failed"])
        #expect(try retry(id) == 1220)
        let again = try worker.claimBatches()
        #expect(again.map(\.deviceCount) == [500, 500, 220])
        try worker.accept(again)
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1220, 1220, 0, 0])
    }

    @Test func twiceWithNobodyToReach() throws {
        let id = try database.notify()
        var outcome = Outcome(unit: try worker.claim()[0], rejected: 1)
        outcome.failures = [.init(device: 1, status: 410, reason: "Unregistered")]
        outcome.retired = [.init(device: 1, before: "now() + interval '1 s'")]
        try worker.settle(outcome)
        #expect(try retry(id) == 0)
        #expect(try retry(id) == 0)
        #expect(try database.number("SELECT count(*) FROM notification_batches") == 0)
        #expect(try database.status(id) == "failed")
        try database.psql("UPDATE devices SET is_active = true")
        #expect(try retry(id) == 1)
    }

    @Test func rejectedWithoutAnAnswer() throws {
        let id = try database.notify("user_ids", "'{u1,u2,u3}'")
        var outcome = Outcome(unit: try worker.claim()[0], rejected: 2, unknown: 1)
        outcome.failures = [
            .init(device: 1, status: 0, reason: "TooManyAttempts"),
            .init(device: 2, status: 0, reason: "TooManyAttempts"),
            .init(device: 3, status: 0, reason: "Timeout"),
        ]
        try worker.settle(outcome)
        let single = try database.notify()
        var given = Outcome(unit: try worker.claim()[0], rejected: 1)
        given.failures = [.init(device: 1, status: 0, reason: "TooManyAttempts")]
        try worker.settle(given)
        #expect(
            try database.psql("SELECT outcome, explanation FROM delivery_report WHERE notification_id = \(single)") == [
                ["rejected", "given up without an answer: TooManyAttempts"]
            ])
        #expect(try retry(id) == 3)
        #expect(try retry(single) == 1)
        #expect(
            try database.psql(
                """
                SELECT DISTINCT device_count, rejected_count, unknown_count FROM notification_batches WHERE batch_no = 0
                """) == [["0", "0", "0"]])
        #expect(try worker.accept(worker.claimBatches()) == ["applied", "applied"])
        #expect(try worker.finalise(id, single) == ["sent", "sent"])
        #expect(try database.counts(id) == [3, 3, 0, 0])
        #expect(try database.counts(single) == [1, 1, 0, 0])
    }
}
