// Lists of users, lists of tokens, users with many devices: who is reached, and in how many pieces.

import TestSupport
import Testing

@Suite("A target") struct Targets {
    @Test("of user ids reaches all active devices of these users once, in batches when they are many")
    func userIDs() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1300, active: "i % 10 <> 0")
            // A second device for some, in the sandbox.
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, environment)
                SELECT 'user-' || i, \(DeviceTokens.sql("10000 + i")), 'sandbox' FROM generate_series(1, 100) i
                """)
            // Named twice, and named without a device.
            let users = "SELECT 'user-' || i FROM generate_series(101, 1400) i"
            let big = try rig.insert("user_ids, body", "ARRAY(\(users) UNION ALL SELECT 'user-1200'), 'x'")
            let small = try rig.insert("user_ids, body", "ARRAY['user-1', 'user-2', 'user-10', 'nobody'], 'y'")
            try await rig.drain()

            let expected = try rig.column(
                """
                SELECT apns_id(\(big), id) FROM devices
                WHERE is_active AND environment = 'production' AND substr(user_id, 6)::int BETWEEN 101 AND 1300
                UNION ALL SELECT apns_id(\(small), id) FROM devices WHERE is_active AND user_id IN ('user-1', 'user-2', 'user-10')
                """)
            #expect(expected.count == 1080 + 5)
            let journal = try rig.simulator.journal()
            #expect(Difference(expected: expected, seen: journal.accepted.compactMap(\.apnsId)) == .none)
            #expect(journal.requests.count == expected.count)
            #expect(try rig.row(big) == NotificationRow("sent", 1080, accepted: 1080))
            #expect(try rig.row(small) == NotificationRow("sent", 5, accepted: 5))
            let batches = try rig.column("SELECT device_count FROM notification_batches WHERE notification_id = \(big)")
            #expect(batches.count >= 3 && batches.allSatisfy { (Int($0) ?? .max) <= 500 })
        }
    }

    @Test("of device tokens reaches unregistered ones too, each once, and passes over known inactive ones")
    func deviceTokens() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...400, active: "i > 100")
            try rig.psql("UPDATE devices SET environment = 'sandbox' WHERE id % 5 = 0")
            let tokens = "SELECT \(DeviceTokens.sql("i")) FROM generate_series(1, 700) i"
            // The same again in capitals.
            let big = try rig.insert(
                "device_tokens, body",
                "ARRAY(\(tokens) UNION ALL SELECT upper(\(DeviceTokens.sql("i"))) FROM generate_series(690, 700) i), 'x'"
            )
            let small = try rig.insert(
                "device_tokens, body",
                "ARRAY['\(DeviceTokens.plain(1))', '\(DeviceTokens.plain(200))', '\(DeviceTokens.plain(9000))'], 'y'")
            try await rig.drain()

            let accepted = try rig.simulator.journal().accepted
            func reached(_ id: Int) throws -> [String] {
                let prefix = try #require(try rig.database.value("SELECT left(apns_id(\(id), 0)::text, 18)"))
                return accepted.filter { $0.apnsId?.hasPrefix(prefix) == true }.compactMap(\.token)
            }
            #expect(Difference(expected: (101...700).map(DeviceTokens.plain), seen: try reached(big)) == .none)
            #expect(Difference(expected: [200, 9000].map(DeviceTokens.plain), seen: try reached(small)) == .none)
            #expect(accepted.count == 602)
            // The number in the id is the position in the list, and the environment that of the device where it is known.
            let (second, last) = (accepted.filter { $0.body?.contains("\"y\"") == true }, DeviceTokens.plain(9000))
            #expect(
                second.first { $0.token == last }?.apnsId
                    == (try rig.database.value("SELECT apns_id(\(small), -3)")))
            #expect(second.first { $0.token == DeviceTokens.plain(200) }?.environment == "sandbox")
            #expect(second.first { $0.token == last }?.environment == "production")
            #expect(try rig.row(big) == NotificationRow("sent", 600, accepted: 600))
            #expect(try rig.row(small) == NotificationRow("sent", 2, accepted: 2))
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM notification_batches WHERE notification_id = \(big) AND device_count BETWEEN 1 AND 500"
                )
                    >= 2)
        }
    }

    @Test("of known inactive tokens only is skipped")
    func nobody() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2, active: "false")
            let id = try rig.insert(
                "device_tokens, body", "ARRAY['\(DeviceTokens.plain(1))', '\(DeviceTokens.plain(2))'], 'x'")
            try await rig.drain()
            #expect(try rig.row(id) == NotificationRow("skipped"))
            #expect(try rig.simulator.journal().requests.isEmpty)
        }
    }

    @Test("of one user with more devices than a batch holds reaches all of them")
    func manyDevices() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...25)
            try rig.psql("UPDATE devices SET user_id = 'farm'")
            let id = try rig.insert("user_id, body", "'farm', 'x'")
            try await rig.drain("--batch-size", "10")
            #expect(
                Difference(
                    expected: try rig.column("SELECT apns_id(\(id), id) FROM devices"),
                    seen: try rig.simulator.journal().requests.compactMap(\.apnsId)) == .none)
            #expect(try rig.row(id) == NotificationRow("sent", 25, accepted: 25))
        }
    }

    @Test("that is a channel is one request to the channel, without a topic")
    func channel() async throws {
        try await Rig.run { rig in
            let id = try rig.insert(
                "channel_id, push_type, aps",
                "'dHN0LXNyY2gtY2hubA==', 'liveactivity', '{\"event\": \"update\", \"content-state\": {}, \"timestamp\": 1}'"
            )
            try await rig.drain()
            let requests = try rig.simulator.journal().requests
            #expect(requests.map(\.path) == ["/4/broadcasts/apps/com.example.pgpush"])
            var headers = try #require(requests.first).headers
            #expect(headers.removeValue(forKey: "apns-expiration") != nil)
            headers["apns-id"] = nil
            #expect(
                headers == [
                    "apns-channel-id": "dHN0LXNyY2gtY2hubA==", "apns-push-type": "liveactivity", "apns-priority": "10",
                ])
            #expect(requests.first?.body == #"{"aps":{"event":"update","timestamp":1,"content-state":{}}}"#)
            #expect(try rig.row(id)?.status == "failed", "nobody has made that channel")
        }
    }
}
