// delivery_report where the tables do not say it outright: devices that became inactive while a notification was being sent, and
// notifications that were cancelled in the middle.

import TestSupport
import Testing

@Suite struct ReportTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(12)
    }

    private func report(_ id: Int) throws -> [String?] {
        try database.psql("SELECT outcome FROM delivery_report WHERE notification_id = \(id) ORDER BY abs(device_id)")
            .map { $0[0] }
    }

    private func retire(_ ids: Int...) throws {
        try database.psql(
            "UPDATE devices SET is_active = false WHERE id IN (\(ids.map { "\($0)" }.joined(separator: ", ")))")
    }

    @Test func deactivatedBetweenTheStartAndTheReadingOfTokens() throws {
        // Of several devices one; the only one of somebody; one after it was sent to.
        try database.psql("UPDATE devices SET user_id = 'm' WHERE id <= 3")
        let many = try database.notify("user_id", "'m'")
        let only = try database.notify("user_id", "'u4'")
        let list = try database.notify("user_ids", "'{u5,u6}'")
        let units = try worker.claim()
        try retire(2, 4, 6)
        #expect(try worker.accept(units).count == 3)
        try retire(3)
        #expect(try report(many) == ["accepted", "inactive", "accepted"])
        #expect(try database.status(only) == "skipped")
        #expect(try report(only) == ["inactive"])
        #expect(try report(list) == ["accepted", "inactive"])
        #expect(
            try database.psql(
                "SELECT explanation ~ '^the device is inactive since' FROM delivery_report WHERE device_id = 4")
                == [["t"]])
    }

    @Test func deactivatedBeforeItsSliceOrItsRetryWasTaken() throws {
        let id = try database.notify("broadcast", "true")
        let first = try worker.claimBroadcast(batches: 1, batchSize: 6)[0]
        try retire(8)
        var outcome = Outcome(unit: first, accepted: 5)
        outcome.failures = [.init(device: 3, status: 429, reason: "TooManyRequests", isFinal: false)]
        outcome.again = [.init(devices: [3], delayMilliseconds: 0)]
        try worker.settle(outcome)
        #expect(try report(id)[2] == "waiting")
        try retire(3, 5)  // 5 has accepted it
        try worker.accept(worker.claimBroadcast(batches: 1, batchSize: 6))
        try worker.accept(worker.claimBatches())
        #expect(try worker.finalise(id) == ["sent"])
        try retire(9)
        #expect(
            try report(id) == (1...12).map { [3, 8].contains($0) ? "inactive" : "accepted" })
        #expect(try database.counts(id) == [10, 10, 0, 0])
    }

    @Test func cancelledInTheMiddleOfADirectUnit() throws {
        try database.psql("UPDATE devices SET user_id = 'm' WHERE id <= 3")
        let id = try database.notify("user_id", "'m'")
        var outcome = Outcome(unit: try worker.claim()[0], accepted: 1, rejected: 1)
        try database.psql("SELECT cancel_notification(\(id))")
        outcome.failures = [.init(device: 2, status: 410, reason: "Unregistered")]
        outcome.again = [.init(devices: [3], isCharged: false)]
        try worker.settle(outcome)
        #expect(try worker.finalise(id) == ["cancelled"])
        #expect(try report(id) == ["accepted", "rejected", "not reached"])
        #expect(try database.counts(id) == [3, 1, 1, 0])
    }

    @Test func cancelledWithoutAWordOfWhoWasLeftOut() throws {
        try database.psql("UPDATE devices SET user_id = 'm' WHERE id <= 3")
        let id = try database.notify("user_id", "'m'")
        var outcome = Outcome(unit: try worker.claim()[0], accepted: 1, rejected: 1)
        try database.psql("SELECT cancel_notification(\(id))")
        outcome.failures = [.init(device: 2, status: 410, reason: "Unregistered")]
        try worker.settle(outcome)
        #expect(try database.status(id) == "cancelled")
        #expect(try report(id) == ["unknown", "rejected", "unknown"])
        #expect(
            try database.psql("SELECT explanation FROM delivery_report WHERE device_id = 1")
                == [["cancelled while it was being sent: some of the devices accepted it"]])
        let whole = try database.notify("user_id", "'u4'")
        let unit = try worker.claim()[0]
        try database.psql("SELECT cancel_notification(\(whole))")
        try worker.settle(Outcome(unit: unit, accepted: 1))
        #expect(try report(whole) == ["accepted"])
    }
}
