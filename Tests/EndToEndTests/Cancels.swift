// What is cancelled is not sent, however it was cancelled; what was sent cannot be.

import TestSupport
import Testing

@Suite("Cancelling") struct Cancels {
    /// The ways to cancel a pending notification.
    enum Way: String, CaseIterable {
        case update = "by UPDATE", function = "by function", command = "by command"

        func cancel(_ id: Int, _ rig: Rig) throws {
            switch self {
            case .update: try rig.psql("UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = \(id)")
            case .function: #expect(try rig.database.value("SELECT cancel_notification(\(id))") == "cancelled")
            case .command:
                let result = try rig.pgpush("cancel", "\(id)")
                #expect(result.status == 0 && result.output.contains("cancelled"), "\(result)")
            }
        }
    }

    @Test("a pending notification by UPDATE, by function and by command sends nothing of it")
    func threeWays() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2)
            var cancelled: [Int] = []
            for way in Way.allCases {
                for target in ["user_id", "broadcast"] {
                    let id = try rig.insert("\(target), body", "\(target == "user_id" ? "'user-1'" : "true"), 'no'")
                    try way.cancel(id, rig)
                    cancelled.append(id)
                }
            }
            let other = try rig.insert("user_id, body", "'user-2', 'yes'")
            try await rig.drain()

            let requests = try rig.simulator.journal().requests
            #expect(requests.map(\.token) == [DeviceTokens.plain(2)])
            for id in cancelled {
                #expect(try rig.row(id) == NotificationRow("cancelled"))
                #expect(try rig.value("cancelled_by", of: id) == "postgres")
                #expect(try rig.database.value("SELECT cancel_notification(\(id))") == "already_cancelled")
            }
            #expect(try rig.row(other) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    @Test("a sent notification is refused with a clear error and changes nothing")
    func tooLate() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.drain()
            let before = try rig.value("md5(scheduled_notifications::text)", of: id)

            let failure = #expect(throws: SQLFailure.self) {
                try rig.psql("UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = \(id)")
            }
            #expect(failure?.sqlState == "PN023")
            #expect(failure?.message == "notification \(id) is already sent: its status cannot become cancelled")
            #expect(failure?.hint?.isEmpty == false)
            #expect(try rig.database.value("SELECT cancel_notification(\(id))") == "already_sent")
            let result = try rig.pgpush("cancel", "\(id)")
            #expect(result.status == 1 && result.output.contains("already_sent"), "\(result)")
            #expect(try rig.pgpush("cancel", "987654").status == 3)

            #expect(try rig.value("md5(scheduled_notifications::text)", of: id) == before)
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    @Test("while a worker waits for the due time sends nothing")
    func whileAWorkerIsIdle() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2)
            let worker = try rig.worker()
            try await rig.listeners(1)
            let due = "now() + interval '10 s'"
            let cancelled = try rig.insert("user_id, body, scheduled_at", "'user-1', 'no', \(due)")
            let kept = try rig.insert("user_id, body, scheduled_at", "'user-2', 'yes', \(due)")
            #expect(try rig.database.value("SELECT cancel_notification(\(cancelled), actor => 'ana')") == "cancelled")
            // Both were due at the same moment: when one is out, the other's time has come as well.
            try await rig.status(of: kept, is: "sent")
            try await worker.stop()
            #expect(try rig.row(cancelled) == NotificationRow("cancelled"))
            #expect(try rig.value("cancelled_by", of: cancelled) == "ana")
            #expect(try rig.simulator.journal().requests.map(\.token) == [DeviceTokens.plain(2)])
        }
    }

    @Test("what only waits to be tried again ends it at once, without waiting for the sweep")
    func onlyRetriesLeft() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...3)
            try rig.psql("UPDATE devices SET device_token = '\(DeviceTokens.magic("0429"))' WHERE id = 2")
            try rig.holdRetries()
            let worker = try rig.worker()
            try await rig.listeners(1)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.eventually("SELECT count(*) FROM notification_batches WHERE state = 'ready'", is: "1")
            #expect(try rig.database.value("SELECT cancel_notification(\(id))") == "cancelling")
            try await rig.status(of: id, is: "cancelled", within: .seconds(60))
            try await worker.stop()
            // Who was not reached counts as a device all the same.
            #expect(try rig.row(id) == NotificationRow("cancelled", 3, accepted: 2))
            #expect(try rig.simulator.journal().requests.count == 3)
        }
    }

    @Test("a broadcast in work ends it soon, and the counts say how far it came")
    func inTheMiddle() async throws {
        try await Rig.run(.heavy) { rig in
            try rig.addDevices(1...10_000)
            // 40 streams at half a second: two minutes for all of them.
            try await rig.simulator.set("stream-limit", 10)
            try await rig.simulator.set("latency-ms", 500)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker()
            try await rig.simulator.wait(for: .accepted, atLeast: 200)
            #expect(try rig.database.value("SELECT cancel_notification(\(id))") == "cancelling")
            try await rig.status(of: id, is: "cancelled", within: .seconds(60))
            try await worker.stop()

            let counts = try await rig.simulator.counts()
            #expect(counts.accepted < 5000)
            #expect(counts.repeatedAccepted == 0)
            let row = try #require(try rig.row(id))
            #expect(row.counts[1...] == [counts.accepted, 0, 0])
            #expect(row.hasCancelTime && row.hasEndTime && !row.hasSentTime)
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM notification_batches WHERE state NOT IN ('done', 'abandoned')")
                    == 0)
        }
    }
}
