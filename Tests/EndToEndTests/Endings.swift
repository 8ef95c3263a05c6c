// What is too late is not sent, and what did not get through can be sent again.

import TestSupport
import Testing

@Suite("A notification") struct Endings {
    @Test("that is past its end, or a day late, expires and is not sent")
    func tooLate() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...5)
            let past = "now() - interval '2 hours', now() - interval '1 hour'"
            let ended = try rig.insert("user_id, body, scheduled_at, expires_at", "'user-1', 'x', \(past)")
            let all = try rig.insert("broadcast, body, scheduled_at, expires_at", "true, 'x', \(past)")
            let old = try rig.insert("user_id, body, scheduled_at", "'user-2', 'x', now() - interval '25 hours'")
            let late = try rig.insert("user_id, body, scheduled_at", "'user-3', 'x', now() - interval '23 hours'")
            try await rig.drain()
            #expect(
                try rig.row(ended) == NotificationRow("expired", error: "expires_at passed before it could be sent"))
            #expect(try rig.row(all) == NotificationRow("expired", error: "expires_at passed before it could be sent"))
            #expect(try rig.row(old) == NotificationRow("expired", error: "later than the app's max_lateness"))
            #expect(try rig.row(late) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.simulator.journal().requests.map(\.token) == [DeviceTokens.plain(3)])
        }
    }

    @Test("whose end comes while it is being sent stops there, and its counts say how far it came")
    func endsWhileSending() async throws {
        try await Rig.run(.heavy) { rig in
            try rig.addDevices(1...10_000)
            try await rig.simulator.set("stream-limit", 10)
            try await rig.simulator.set("latency-ms", 200)
            let worker = try rig.worker()
            try await rig.listeners(1)
            let id = try rig.insert("broadcast, body, expires_at", "true, 'x', now() + interval '8 s'")
            try await rig.status(of: id, is: "expired", within: .seconds(180))
            try await worker.stop()
            let journal = try rig.simulator.journal()
            let end = try #require(try rig.value("extract(epoch FROM expires_at)", of: id).flatMap { Double($0) })
            let last = Double(journal.requests.map(\.wall).max() ?? 0) / 1e9
            let row = try #require(try rig.row(id))
            #expect(row.counts[1...] == [journal.accepted.count, 0, 0])
            #expect(row.error == "expires_at passed before all devices were reached")
            // All of them would have taken 50 s.
            #expect(last - end < 15)
        }
    }

    @Test("that is sent again reaches only those that it had not reached, under the same ids")
    func sentAgain() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...30)
            // Neither says that the token is dead: a time before the registration, and a fault of the request.
            try await rig.simulator.set("answer-all", "400:BadMessageId")
            let failed = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.drain()
            try await rig.simulator.control("calm")
            let mixed = try rig.insert("broadcast, body", "true, 'y'")
            // Refused now, accepted next time.
            try await rig.simulator.set("gone-timestamp", "day-before")
            try await rig.simulator.set("gone-share", 0.4)
            try await rig.drain()
            #expect(try rig.row(failed) == NotificationRow("failed", 1, rejected: 1, error: "BadMessageId"))
            let first = try #require(try rig.row(mixed))
            let rejected = first.counts[2]
            #expect(rejected > 0 && rejected < 30)
            let sentAt = try rig.value("sent_at", of: mixed)

            try await rig.simulator.control("calm")
            #expect(try rig.database.number("SELECT retry_notification(\(mixed))") == rejected)
            #expect(try rig.pgpush("retry", "\(failed)").status == 0)
            try await rig.drain()
            #expect(try rig.row(mixed) == NotificationRow("sent", 30, accepted: 30))
            #expect(try rig.value("sent_at", of: mixed) == sentAt)
            #expect(try rig.row(failed) == NotificationRow("sent", 1, accepted: 1))
            let expected = try rig.column(
                "SELECT apns_id(\(mixed), id) FROM devices UNION ALL SELECT apns_id(\(failed), 1)")
            let accepted = try rig.simulator.journal().accepted.compactMap(\.apnsId)
            #expect(Difference(expected: expected, seen: accepted) == .none)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)
        }
    }
}
