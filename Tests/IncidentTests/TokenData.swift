// F16 to F18: device tokens as clients, old exports and other people's tables spell them, from the table to `:path`. An import is
// shown by what it consists of, register_device and INSERT; SQLTests show under the same numbers what the functions return.

import TestSupport
import Testing

@Suite("Token data") struct TokenData {
    private static let lower = String(repeating: "ab12cd34", count: 8)
    private static let upper = lower.uppercased()
    private static let mixed = String(repeating: "Ab12cD34", count: 8)

    @Test("F16: one token in three spellings is one device: one request each time, one 410 retires it")
    func spellings() async throws {
        try await Rig.run { rig in
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(Self.upper)')")
            for spelling in [Self.lower, Self.mixed] {
                let failure = #expect(throws: SQLFailure.self) {
                    try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(spelling)')")
                }
                #expect(failure?.sqlState == "23505" && failure?.hint?.contains("register_device") == true)
            }
            try importAgain(rig)

            let single = try rig.insert("user_id, body", "'anna', 'x'")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let list = try rig.insert("device_tokens, body", "'{\(Self.mixed),\(Self.lower),\(Self.upper)}', 'x'")
            try await rig.drain()
            for id in [single, all, list] { #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1)) }
            let paths = try rig.simulator.journal().requests.map(\.path)
            #expect(paths == Array(repeating: "/3/device/\(Self.lower)", count: 3))

            // It retires the device, though it was addressed in capitals; nothing goes to any spelling of it any more.
            try rig.psql("UPDATE devices SET registered_at = now() - interval '1 hour'")
            try await rig.simulator.set("answer-all", "410:Unregistered")
            let dead = try rig.insert("device_tokens, body", "'{\(Self.upper)}', 'x'")
            try await rig.drain()
            #expect(try rig.row(dead) == NotificationRow("failed", 1, rejected: 1, error: "Unregistered"))
            #expect(try rig.psql("SELECT is_active, deactivation_reason FROM devices") == [["f", "Unregistered"]])
            try await rig.simulator.control("calm")
            let later = try rig.insert("broadcast, body", "true, 'y'")
            let named = try rig.insert("device_tokens, body", "'{\(Self.mixed)}', 'y'")
            try await rig.drain()
            for id in [later, named] { #expect(try rig.row(id) == NotificationRow("skipped")) }
            #expect(try rig.simulator.journal().requests.count == 4)

            try importAgain(rig)
            let back = try rig.insert("user_id, body", "'anna', 'z'")
            try await rig.drain()
            #expect(try rig.row(back) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    /// Registers all spellings in all ways; there is one device, as before.
    private func importAgain(_ rig: Rig) throws {
        try rig.psql(
            """
            INSERT INTO devices (user_id, device_token) SELECT 'anna', t
            FROM unnest('{\(Self.lower),\(Self.upper),\(Self.mixed)}'::text[]) t ON CONFLICT DO NOTHING
            """)
        for spelling in [Self.lower, Self.upper, Self.mixed] {
            let call = "SELECT register_device(user_id => 'anna', device_token => '\(spelling)')"
            #expect(try rig.database.number(call) == 1)
            let result = try rig.pgpush("devices", "register", "--user", "anna", "--token", spelling)
            #expect(result.status == 0 && result.output == "1\n", "\(result)")
        }
        #expect(try rig.psql("SELECT device_token, is_active FROM devices") == [[Self.lower, "t"]])
    }

    /// What is no token, with the reason that a refusal must name.
    private static let bad = [
        ("{length = 32, bytes = 0x00112233 44556677 ... 8899aabb ccddeeff}", "shortened description"),
        ("", "empty"), ("null", "not hex digits"), (String(repeating: "a", count: 63), "odd number"),
        ("xyz0xyz0xyz0", "not hex digits"), ("ab/../cd", "not hex digits"), ("ab12\r\ncd34", "not hex digits"),
        ("🦊🦊🦊🦊", "not hex digits"),
    ]

    @Test("F17: shortened and malformed tokens are refused one by one; bracketed and spaced ones are sent to")
    func refused() async throws {
        try await Rig.run { rig in
            for (token, reason) in Self.bad {
                for statement in [
                    "INSERT INTO devices (user_id, device_token) VALUES ('anna', $t$\(token)$t$)",
                    "SELECT register_device(user_id => 'anna', device_token => $t$\(token)$t$)",
                    "INSERT INTO scheduled_notifications (device_tokens, body) VALUES (ARRAY['ab12cd34', $t$\(token)$t$], 'x')",
                ] {
                    let failure = #expect(throws: SQLFailure.self) { try rig.psql(statement) }
                    #expect(failure?.sqlState == "PN015" && failure?.message.contains(reason) == true, "\(token)")
                }
                let result = try rig.pgpush("devices", "register", "--user", "anna", "--token=\(token)")
                // Nothing at all is a mistake in the command line.
                #expect(result.status == (token.isEmpty ? 2 : 1), "\(token): \(result)")
                #expect(result.errors.contains(token.isEmpty ? "--token is missing" : reason), "\(result)")
            }
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token) VALUES
                    ('anna', '<\(Self.upper.prefix(8)) \(Self.upper.dropFirst(8))>'), ('bert', ' 0011 2233 4455 6677'),
                    ('carl', '\(DeviceTokens.plain(1))')
                """)
            let all = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain()
            // The shortest of them is Apple's to judge: it is hex.
            let expected = [Self.lower, "0011223344556677", DeviceTokens.plain(1)]
            let paths = try rig.simulator.journal().requests.map(\.path)
            #expect(Difference(expected: expected.map { "/3/device/\($0)" }, seen: paths) == .none)
            #expect(try rig.row(all) == NotificationRow("sent", 3, accepted: 2, rejected: 1))
        }
    }

    @Test("F17: what came past the triggers reaches no path, is booked with its reason, and shifts nobody else's token")
    func pastTheTriggers() async throws {
        try await Rig.run { rig in
            // As a restore without triggers does it, or a subscription of the table.
            let rows = Self.bad.enumerated().map { number, bad in "(\(10 * number + 5), 'bad', $t$\(bad.0)$t$)" }
            try rig.psql(
                """
                BEGIN; SET LOCAL session_replication_role = replica;
                INSERT INTO devices (id, user_id, device_token)
                SELECT 10 * i, 'user-' || i, \(DeviceTokens.sql("i")) FROM generate_series(1, 20) i;
                INSERT INTO devices (id, user_id, device_token) VALUES \(rows.joined(separator: ", "));
                COMMIT
                """)
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let own = try rig.insert("user_id, body", "'bad', 'x'")
            let list = try rig.insert(
                "device_tokens, body", "'{\(DeviceTokens.plain(1)),\(DeviceTokens.plain(2))}', 'x'")
            try rig.psql(
                """
                BEGIN; SET LOCAL session_replication_role = replica;
                UPDATE scheduled_notifications SET device_tokens[1] = '{length = 32, bytes = 0x00 … ff}' WHERE id = \(list);
                COMMIT
                """)
            let worker = try await rig.drain()

            let expected = try rig.column(
                """
                SELECT apns_id(\(all), id) || device_token FROM devices WHERE user_id <> 'bad'
                UNION ALL SELECT apns_id(\(list), -2) || '\(DeviceTokens.plain(2))'
                """)
            let requests = try rig.simulator.journal().requests
            let seen = requests.map { ($0.apnsId ?? "") + $0.path.dropFirst("/3/device/".count) }
            #expect(Difference(expected: expected, seen: seen) == .none)
            let count = Self.bad.count
            #expect(try rig.row(all) == NotificationRow("sent", 20 + count, accepted: 20, rejected: count))
            let reason = "the stored device token is not hex"
            #expect(try rig.row(own) == NotificationRow("failed", count, rejected: count, error: reason))
            #expect(try rig.row(list) == NotificationRow("sent", 2, accepted: 1, rejected: 1))
            let ledger = try rig.psql("SELECT DISTINCT http_status, reason, is_final FROM delivery_failures")
            #expect(ledger == [[nil, reason, "t"]])
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 2 * count + 1)
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 0)
            #expect(!worker.log.contains("length ="))
            let why = try rig.pgpush("why", "\(own)")
            #expect(why.status == 0 && why.output.contains(reason), "\(why)")
        }
    }

    @Test("F18: a phone that changes hands gets what is for its new owner, once, and nothing for the one before")
    func newOwner() async throws {
        try await Rig.run { rig in
            let token = DeviceTokens.plain(1)
            try rig.psql("SELECT register_device(user_id => 'anna', device_token => '\(token)')")
            // Stored while the phone was still hers: who is reached is decided when it is sent.
            let before = try rig.insert("user_id, body", "'anna', 'for anna'")
            let result = try rig.pgpush("devices", "register", "--user", "bert", "--token", token.uppercased())
            #expect(result.status == 0, "\(result)")
            let after = try rig.insert("user_id, body", "'anna', 'for anna'")
            let his = try rig.insert("user_id, body", "'bert', 'for bert'")
            let both = try rig.insert("user_ids, body", "'{anna,bert}', 'for both'")
            let all = try rig.insert("broadcast, body", "true, 'for all'")
            try await rig.drain()

            for id in [before, after] { #expect(try rig.row(id) == NotificationRow("skipped")) }
            for id in [his, both, all] { #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1)) }
            let requests = try rig.simulator.journal().requests
            #expect(requests.allSatisfy { $0.token == token })
            let bodies = ["for all", "for bert", "for both"].map {
                #"{"aps":{"alert":{"body":"\#($0)"},"sound":"default"}}"#
            }
            #expect(requests.compactMap(\.body).sorted() == bodies)
            let devices = try rig.pgpush("devices", "list", "--user", "anna", "--json")
            #expect(devices.output.isEmpty, "\(devices)")
            let why = try rig.pgpush("why", "\(after)", "--user", "anna")
            #expect(why.output.contains("no registered device"), "\(why)")
        }
    }
}
