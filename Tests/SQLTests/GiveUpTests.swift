// give_up_rest: Apple refuses a notification for what it is. release_lost: a claim that nobody knows of. What both leave behind.

import TestSupport
import Testing

@Suite struct GiveUpTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(40)
    }

    private func hopeless(_ unit: Unit, _ devices: [Int]) -> Outcome {
        Outcome.answers(unit, bad: devices, reason: "PayloadEmpty").with(noProposals: true)
    }

    @Test func theWalkEndsAndWhatIsOutEndsByItself() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 3, batchSize: 5)
        var parked = hopeless(units[0], [1, 2, 3])
        parked.again = [
            .init(devices: [4], delayMilliseconds: 0), .init(devices: [5], state: "parked", isCharged: false),
        ]
        try worker.settle(parked)
        #expect(try worker.giveUp(id, id, reason: "PayloadEmpty") == 1)
        #expect(try worker.giveUp(id, reason: "BadTopic") == 0, "the first reason stays")
        #expect(try worker.finalise(id) == [])
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try worker.claimBatches().isEmpty)
        #expect(try worker.nextDue() == nil)
        #expect(
            try database.psql("SELECT status, given_up, error FROM scheduled_notifications") == [
                ["sending", "t", "PayloadEmpty"]
            ])

        // What would be sent again of a leased one is given up too.
        var second = hopeless(units[1], [6, 7, 8])
        second.again = [.init(devices: [9, 10], isCharged: false)]
        try worker.settle([second, hopeless(units[2], Array(11...15))])
        #expect(try worker.finalise(id) == ["failed"])
        #expect(try database.value("SELECT error FROM scheduled_notifications") == "PayloadEmpty")
        #expect(try database.counts(id) == [15, 0, 11, 0], "4 of the batches were not reached")
        let outcomes = try database.psql(
            "SELECT outcome, count(*) FROM delivery_report WHERE notification_id = \(id) GROUP BY 1 ORDER BY 1")
        #expect(outcomes == [["not reached", "29"], ["rejected", "11"]])

        // By hand all of it can be sent again.
        #expect(try database.number("SELECT retry_notification(\(id))") == 40)
        while case let units = try worker.claimBatches() + worker.claimBroadcast(batchSize: 5), !units.isEmpty {
            try worker.accept(units)
        }
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [40, 40, 0, 0])
        #expect(try database.psql("SELECT given_up, error FROM scheduled_notifications") == [["f", nil]])
    }

    @Test func whoeverAcceptedItHasGotIt() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 5)
        try worker.settle(hopeless(units[1], Array(6...10)))
        #expect(try worker.giveUp(id) == 1)
        try worker.settle(Outcome(unit: units[0], accepted: 5))
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [10, 5, 5, 0])
    }

    @Test func whatSomebodyHasAcceptedIsNotGivenUp() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 5)
        try worker.settle([Outcome(unit: units[0], accepted: 5), hopeless(units[1], Array(6...10))])
        #expect(try worker.giveUp(id) == 0)
        while case let units = try worker.claimBroadcast(batchSize: 5), !units.isEmpty { try worker.accept(units) }
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [40, 35, 5, 0])
    }

    @Test("what was out when it was given up is not sent again, however it comes back")
    func nothingComesBack() throws {
        let id = try database.notify("broadcast", "true")
        let single = try database.notify("user_id", "'u1'")
        let lone = try database.notify("user_id", "'u2'")
        let units = try worker.claimBroadcast(batches: 4, batchSize: 5)
        let direct = try worker.claim(limit: 1)
        let other = QueueWorker(database)
        let others = try other.claim() + other.claimBroadcast(batches: 1, batchSize: 5)
        try worker.settle(hopeless(units[3], Array(16...20)))
        #expect(try worker.giveUp(id, single, lone) == 3)
        #expect(try worker.release([units[0]] + direct) == ["t", "t"])
        #expect(try worker.releaseLost(knowing: [units[1]]) == 1)
        try database.psql(
            """
            UPDATE notification_batches SET lease_until = now() - interval '1 h' WHERE lease_until IS NOT NULL;
            UPDATE scheduled_notifications SET lease_until = now() - interval '1 h' WHERE lease_until IS NOT NULL
            """)
        #expect(try other.claimBatches(rescue: true).isEmpty)
        #expect(try other.claim().isEmpty)
        #expect(try worker.renew(units + others).allSatisfy { $0.hasPrefix("false") })
        #expect(
            try database.psql(
                "SELECT state, count(*), bool_and(finished_at IS NOT NULL) FROM notification_batches GROUP BY 1 ORDER BY 1"
            )
                == [["abandoned", "4", "t"], ["done", "1", "t"]])

        // One that came back in the moment of giving up is not claimed, and the sweep closes it.
        try database.psql(
            "UPDATE notification_batches SET state = 'ready', not_before = now(), finished_at = NULL WHERE batch_no = 1"
        )
        #expect(try other.claimBatches().isEmpty)
        #expect(try other.finalise(id) == [])
        try other.sweep()
        #expect(try [id, single, lone].map { try database.status($0) } == ["failed", "failed", "failed"])
        #expect(try database.number("SELECT retry_notification(\(id))") == 40)
    }

    @Test func onlyWhatIsBeingSent() throws {
        let pending = try database.notify("user_id, scheduled_at", "'u1', now() + interval '1 h'")
        let cancelled = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 1, batchSize: 5)
        try database.psql("SELECT cancel_notification(\(cancelled))")
        #expect(try worker.giveUp(pending, cancelled, 999) == 0)
        #expect(try database.status(pending) == "pending")
        try worker.settle(hopeless(units[0], Array(1...5)))
        #expect(try worker.finalise(cancelled) == ["cancelled"])
    }

    @Test func nothingRefusedAndStillGivenUp() throws {
        // Everything was parked before the fault was known elsewhere: it fails with that reason, and is not stuck.
        let id = try database.notify("broadcast", "true")
        var parked = Outcome(unit: try worker.claimBroadcast(batches: 1, batchSize: 40)[0])
        parked.again = [.init(devices: Array(1...40), state: "parked", isCharged: false)]
        try worker.settle(parked)
        #expect(try worker.giveUp(id, reason: "BadTopic") == 1)
        #expect(try worker.sweep()[3] == 1)
        #expect(
            try database.psql("SELECT status, error, device_count, rejected_count FROM scheduled_notifications")
                == [["failed", "BadTopic", "40", "0"]])
        #expect(try database.number("SELECT retry_notification(\(id))") == 40)
    }

    @Test func aClaimOfUnknownOutcomeGoesBack() throws {
        for number in 1...4 { try database.notify("user_id", "'u\(number)'") }
        let all = try database.notify("broadcast", "true")
        let known = try worker.claim(limit: 2) + worker.claimBroadcast(batches: 1, batchSize: 10)
        let lost = try worker.claim(limit: 1) + worker.claimBroadcast(batches: 2, batchSize: 10)
        let other = QueueWorker(database)
        let others = try other.claim()
        try database.psql("SELECT cancel_notification(\(lost[0].notification))")

        worker.apps = "{another}"
        #expect(try worker.releaseLost(knowing: known) == 0)
        worker.apps = "{default}"
        #expect(try worker.releaseLost(knowing: known) == 3)
        #expect(try worker.releaseLost(knowing: known) == 0)
        #expect(try database.status(lost[0].notification) == "cancelled")
        #expect(
            try database.psql("SELECT state, owner IS NULL FROM notification_batches ORDER BY batch_no")
                == [["leased", "f"], ["ready", "t"], ["ready", "t"]])
        #expect(try worker.renew(lost) == ["false cancelled", "false sending", "false sending"])
        #expect(try worker.accept(known).allSatisfy { $0 == "applied" })
        #expect(try other.accept(others) == ["applied"])
        let again = try other.claimBatches()
        #expect(again.map(\.batch) == [2, 3])
        #expect(again.map(\.epoch) == [2, 2])
        try other.accept(again)
        try other.accept(other.claimBroadcast(batches: 1, batchSize: 10))
        #expect(try other.finalise(all) == ["sent"])
        #expect(try database.counts(all) == [40, 40, 0, 0])
    }

    @Test func nothingKnownEverythingGoesBack() throws {
        let id = try database.notify()
        #expect(try worker.claim().count == 1)
        #expect(try worker.releaseLost() == 1)
        #expect(
            try database.psql("SELECT status, owner, lease_until, started_at FROM scheduled_notifications") == [
                ["pending", nil, nil, nil]
            ])
        #expect(try worker.accept(worker.claim()) == ["applied"])
        #expect(try database.status(id) == "sent")
    }
}
