// What settle writes into the ledger of failures when a row is odd, or its device is gone.

import TestSupport
import Testing

@Suite struct LedgerTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
    }

    @Test func oneRowDoesNotStopTheOthers() throws {
        let far = 1_152_921_504_606_846_976
        try database.psql("INSERT INTO devices (id, user_id, device_token) VALUES (\(far), 'far', 'ab12cd34')")
        _ = try database.notify("user_id", "'far'")
        var outcome = Outcome(unit: try worker.claim()[0], rejected: 1)
        outcome.failures = [.init(device: far, status: 400, reason: "BadDeviceToken")]
        #expect(try worker.settle(outcome) == "applied")
        #expect(
            try database.psql("SELECT device_id, device_token, apns_id FROM delivery_failures") == [
                ["\(far)", "ab12cd34", nil]
            ])
    }

    @Test func aPersonForgottenWhileSendingLeavesNoToken() throws {
        try database.psql(
            "INSERT INTO devices (user_id, device_token) VALUES ('p', 'aa000001'), ('p', 'aa000002'), ('q', 'aa000003')"
        )
        let list = try database.notify("user_ids", "'{p,q}'")
        let tokens = try database.notify("device_tokens", "'{aa000001,aa000003}'")
        let units = try worker.claim()
        let devices = try worker.expand([units[0]]).flatMap(\.ids)
        try database.psql("SELECT forget_user('p')")
        var first = Outcome(unit: units[0], rejected: 3)
        first.failures = devices.map { .init(device: $0, status: 400, reason: "BadTopic") }
        var second = Outcome(unit: units[1], rejected: 2)
        second.failures = [-1, -2].map { .init(device: $0, status: 400, reason: "BadTopic") }
        #expect(try worker.settle([first, second]) == ["applied", "applied"])
        func kept(_ id: Int) throws -> [[String?]] {
            try database.psql(
                "SELECT device_id FROM delivery_failures WHERE notification_id = \(id) AND device_token IS NOT NULL")
        }
        #expect(try kept(list) == [["\(devices[2])"]])
        #expect(try kept(tokens) == [["-2"]])
    }
}
