// The first promise: a row that any backend inserts goes out to the user's devices as it stands there, and the row says so.

import Foundation
import TestSupport
import Testing

@Suite("A plain INSERT") struct PlainInserts {
    @Test("goes to each active device of the user, byte for byte, and the row is sent")
    func oneRequestForEachActiveDevice() async throws {
        try await Rig.run { rig in
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, environment) VALUES
                    ('anna', '\(DeviceTokens.plain(1))', 'production'), ('anna', '\(DeviceTokens.plain(2))', 'production'),
                    ('anna', '\(DeviceTokens.plain(3))', 'sandbox'), ('berta', '\(DeviceTokens.plain(4))', 'production');
                INSERT INTO devices (user_id, device_token, is_active) VALUES ('anna', '\(DeviceTokens.plain(5))', false);
                """)
            let before = Int64(Date().timeIntervalSince1970)
            let id = try rig.insert("user_id, title, body", "'anna', 'Tea \"now\"', 'Grüße, 日本 👩‍👩‍👧\nline 2'")
            try await rig.drain()

            let requests = try rig.simulator.journal().requests
            #expect(requests.count == 3)
            // A version 8 UUID made of the numbers of the notification and of the device, in hexadecimal.
            let ids = Dictionary(
                uniqueKeysWithValues: try rig.psql("SELECT device_token, to_hex(id) FROM devices").map {
                    ($0[0], $0[1])
                })
            for (number, environment) in [(1, "production"), (2, "production"), (3, "sandbox")] {
                let token = DeviceTokens.plain(number)
                let request = try #require(requests.first { $0.token == token }, "device \(number)")
                #expect(request.environment == environment)
                #expect(request.method == "POST")
                #expect(request.path == "/3/device/\(token)")
                #expect(request.status == 200 && request.warnings == nil)
                var headers = request.headers
                let expiration = try #require(headers.removeValue(forKey: "apns-expiration").flatMap { Int64($0) })
                #expect((before...before + 60).contains(expiration - 30 * 86_400))
                #expect(
                    headers == [
                        "apns-id": pushID(notification: String(id, radix: 16), device: try #require(ids[token] ?? nil)),
                        "apns-push-type": "alert", "apns-topic": "com.example.pgpush", "apns-priority": "10",
                        "apns-collapse-id": "pgpush-\(id)",
                    ])
                let body =
                    #"{"aps":{"alert":{"body":"Grüße, 日本 👩‍👩‍👧\nline 2","title":"Tea \"now\""},"sound":"default"}}"#
                #expect(request.body == body)
                #expect(request.bodyLength == body.utf8.count)
            }

            #expect(try rig.row(id) == NotificationRow("sent", 3, accepted: 3))
            let times = try rig.value(
                "created_at <= started_at AND started_at <= sent_at AND sent_at <= finished_at AND finished_at <= now()",
                of: id)
            #expect(times == "t")
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)
        }
    }

    @Test("for a user without an active device is skipped")
    func withoutDevices() async throws {
        try await Rig.run { rig in
            try rig.psql(
                "INSERT INTO devices (user_id, device_token, is_active) VALUES ('carla', '\(DeviceTokens.plain(1))', false)"
            )
            let nobody = try rig.insert("user_id, body", "'nobody', 'x'")
            let inactive = try rig.insert("user_id, body", "'carla', 'x'")
            try await rig.drain()
            #expect(try rig.row(nobody) == NotificationRow("skipped"))
            #expect(try rig.row(inactive) == NotificationRow("skipped"))
            #expect(try rig.simulator.journal().requests.isEmpty)
        }
    }

    @Test("narrowed to one environment goes to the devices of that one only")
    func oneEnvironment() async throws {
        try await Rig.run { rig in
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, environment)
                VALUES ('anna', '\(DeviceTokens.plain(1))', 'production'), ('anna', '\(DeviceTokens.plain(2))', 'sandbox')
                """)
            let id = try rig.insert("user_id, body, environment", "'anna', 'x', 'sandbox'")
            try await rig.drain()
            let requests = try rig.simulator.journal().requests
            #expect(requests.map(\.token) == [DeviceTokens.plain(2)])
            #expect(requests.map(\.environment) == ["sandbox"])
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    @Test("that is not due yet stays, and so does one of an app that nobody serves")
    func notDue() async throws {
        try await Rig.run { rig in
            try rig.psql(
                """
                INSERT INTO devices (app, user_id, device_token)
                VALUES ('default', 'anna', '\(DeviceTokens.plain(1))'), ('other', 'anna', '\(DeviceTokens.plain(1))')
                """)
            let later = try rig.insert("user_id, body, scheduled_at", "'anna', 'x', now() + interval '1 hour'")
            let foreign = try rig.insert("user_id, body, app", "'anna', 'x', 'other'")
            try await rig.drain()
            #expect(try rig.row(later) == NotificationRow("pending"))
            #expect(try rig.row(foreign) == NotificationRow("pending"))
            #expect(try rig.simulator.journal().requests.isEmpty)
        }
    }

    @Test("with the key of an earlier one is refused, and enqueued again gives the same notification, sent once")
    func idempotency() async throws {
        try await Rig.run { rig in
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(DeviceTokens.plain(1))')")
            let id = try rig.insert("user_id, body, idempotency_key", "'anna', 'x', 'order-7'")
            #expect(throws: SQLFailure.self) {
                try rig.insert("user_id, body, idempotency_key", "'anna', 'x', 'order-7'")
            }
            let again = "SELECT enqueue_notification(user_id => 'anna', body => 'x', idempotency_key => 'order-7')"
            #expect(try rig.database.number(again) == id)
            try await rig.drain()
            #expect(try rig.database.number(again) == id)
            try await rig.drain()
            #expect(try rig.simulator.journal().requests.count == 1)
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    /// The apns-id that is documented for two numbers, from their hexadecimal digits.
    private func pushID(notification: String, device: String) -> String {
        func padded(_ digits: String) -> String { String(repeating: "0", count: 15 - digits.count) + digits }
        let digits = Array(
            padded(notification).prefix(12) + "8" + padded(notification).suffix(3) + "8" + padded(device))
        let parts = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }
        return parts.joined(separator: "-")
    }
}
