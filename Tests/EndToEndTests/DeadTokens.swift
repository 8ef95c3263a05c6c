// When Apple says that a device token is dead, and whether that still holds: the device may have registered again meanwhile.

import TestSupport
import Testing

@Suite("An answer 410") struct DeadTokens {
    /// A device whose token chooses its answer.
    private struct Case {
        let choice: String
        var number = 0
        /// How long ago the app registered it.
        let registered: String
        var reason = "Unregistered"
        let isRetired: Bool

        var token: String { DeviceTokens.magic(choice, number) }
    }

    private static let cases = [
        Case(choice: "0410", registered: "1 hour", isRetired: true),
        // It says since when the token is dead: a day ago. Registered after that, the token lives.
        Case(choice: "1410", registered: "1 hour", isRetired: false),
        Case(choice: "1410", number: 1, registered: "2 days", isRetired: true),
        // Without a readable time, the time of sending counts.
        Case(choice: "2410", registered: "1 hour", isRetired: true),
        Case(choice: "4410", registered: "1 hour", isRetired: true),
        Case(choice: "5410", registered: "1 hour", isRetired: true),
        Case(choice: "6410", registered: "1 hour", isRetired: true),
        // Seconds are told from milliseconds.
        Case(choice: "7410", registered: "1 hour", isRetired: true),
        // A time ahead of now says nothing more than now.
        Case(choice: "8410", registered: "1 hour", isRetired: true),
        Case(choice: "3410", registered: "1 hour", reason: "ExpiredToken", isRetired: true),
        Case(choice: "9410", registered: "1 hour", reason: "ExpiredToken", isRetired: true),
    ]

    @Test("F14: retires the devices that registered before its time, keeps the others, and stands in the ledger")
    func retirement() async throws {
        try await Rig.run { rig in
            let values = Self.cases.map { "('anna', '\($0.token)', now() - interval '\($0.registered)')" }
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, registered_at)
                VALUES ('anna', '\(DeviceTokens.plain(1))', now()), \(values.joined(separator: ", "))
                """)
            let id = try rig.insert("user_id, body", "'anna', 'x'")
            try await rig.drain()

            for one in Self.cases {
                let device = try rig.psql(
                    """
                    SELECT is_active, deactivation_reason, deactivated_at BETWEEN created_at AND now() FROM devices
                    WHERE device_token = '\(one.token)'
                    """)
                let expected: [String?] = one.isRetired ? ["f", one.reason, "t"] : ["t", nil, nil]
                #expect(device == [expected], "\(one)")
            }
            let ledger = try rig.psql(
                """
                SELECT f.device_token, f.http_status, f.reason, f.attempt, f.is_final, f.environment, f.batch_no, f.app,
                       f.apns_id = apns_id(f.notification_id, d.id), f.device_id = d.id,
                       f.occurred_at BETWEEN d.created_at AND now()
                FROM delivery_failures f JOIN devices d USING (device_token)
                WHERE f.notification_id = \(id) ORDER BY f.device_token
                """)
            let expected = Self.cases.sorted { $0.token < $1.token }.map {
                [$0.token, "410", $0.reason, "1", "t", "production", "0", "default", "t", "t", "t"] as [String?]
            }
            #expect(ledger == expected)
            #expect(try rig.row(id) == NotificationRow("sent", 12, accepted: 1, rejected: 11))

            // The next one goes to those that are left.
            try await rig.simulator.control("forget")
            try rig.insert("user_id, body", "'anna', 'y'")
            try await rig.drain()
            let later = try rig.simulator.journal().requests.dropFirst(12).compactMap(\.token).sorted()
            #expect(later == [DeviceTokens.magic("1410"), DeviceTokens.plain(1)].sorted())
        }
    }

    @Test("about all devices of a notification makes it failed, with the reason")
    func nobodyLeft() async throws {
        try await Rig.run { rig in
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(DeviceTokens.magic("0410"))')")
            try rig.psql("UPDATE devices SET registered_at = now() - interval '1 minute'")
            let id = try rig.insert("user_id, body", "'anna', 'x'")
            try await rig.drain()
            #expect(try rig.row(id) == NotificationRow("failed", 1, rejected: 1, error: "Unregistered"))
        }
    }

    @Test("does not retire a device that registers while its push is on the way")
    func registeredMeanwhile() async throws {
        try await Rig.run { rig in
            // A push is on its way for as long as the worker waits for its answer, so a test that was held up begins again.
            var tries = 1
            while try await !isRegisteredInTime(rig) {
                tries += 1
                try #require(tries <= 10, "ten times the test itself was too slow to say anything")
            }
        }
    }

    /// False when more time went by than a push may take.
    private func isRegisteredInTime(_ rig: Rig) async throws -> Bool {
        try rig.psql("DELETE FROM devices")
        // No time in the answer; a time ahead of the registration; both are given after the device has registered again.
        for (choice, user) in [("2410", "anna"), ("8410", "berta")] {
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, registered_at)
                VALUES ('\(user)', '\(DeviceTokens.magic(choice))', now() - interval '1 hour')
                """)
        }
        try await rig.simulator.control("forget")
        try await rig.simulator.set("latency-ms", 12_000)
        let id = try rig.insert("broadcast, body", "true, 'x'")
        let worker = try rig.worker("--once", "--connections", "1")
        // One stream until the first answer: the second push is sent only then, so that it is registered again before.
        try await rig.simulator.wait(for: .held, atLeast: 1)
        let started = ContinuousClock.now
        let held = try #require(try rig.simulator.journal().held.last?.token)
        try rig.psql("SELECT register_device(user_id => user_id, device_token => device_token) FROM devices")
        try await rig.simulator.set("latency-ms", 0)
        guard ContinuousClock.now - started < .seconds(8) else {
            await worker.kill()
            return false
        }
        #expect(try await worker.exitCode() == 0)
        #expect(try rig.row(id) == NotificationRow("failed", 2, rejected: 2, error: "Unregistered"))
        #expect(try rig.database.value("SELECT is_active FROM devices WHERE device_token = '\(held)'") == "t")
        return true
    }

    @Test("about a token given by value retires its device, if there is one")
    func namedTokens() async throws {
        try await Rig.run { rig in
            let (known, unknown) = (DeviceTokens.magic("0410", 1), DeviceTokens.magic("0410", 2))
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, registered_at)
                VALUES ('anna', '\(known)', now() - interval '1 hour')
                """)
            let id = try rig.insert("device_tokens, body", "ARRAY['\(known)', '\(unknown)'], 'x'")
            try await rig.drain()
            #expect(try rig.row(id) == NotificationRow("failed", 2, rejected: 2, error: "Unregistered"))
            let ledger = try rig.psql(
                "SELECT device_id, device_token, http_status, is_final FROM delivery_failures ORDER BY device_id DESC")
            #expect(ledger == [["-1", known, "410", "t"], ["-2", unknown, "410", "t"]])
            #expect(try rig.psql("SELECT is_active, deactivation_reason FROM devices") == [["f", "Unregistered"]])
        }
    }
}

@Suite("Other refusals") struct OtherRefusals {
    @Test("stand in the ledger with Apple's own reason and retire nobody")
    func nobodyIsRetired() async throws {
        let cases = [
            ("0400", 400, "BadDeviceToken"), ("3400", 400, "DeviceTokenNotForTopic"), ("a400", 400, "BadPriority"),
            ("0413", 413, "PayloadTooLarge"), ("0404", 404, "BadPath"), ("05dd", 400, "SomethingNobodyHasHeardOf"),
            ("02dd", 400, "HTTP 400"), ("08dd", 400, "BadDeviceToken"),
        ]
        try await Rig.run { rig in
            for (choice, _, _) in cases {
                try rig.psql(
                    """
                    INSERT INTO devices (user_id, device_token, registered_at)
                    VALUES ('anna', '\(DeviceTokens.magic(choice))', now() - interval '1 hour')
                    """)
            }
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(DeviceTokens.plain(1))')")
            let id = try rig.insert("user_id, body", "'anna', 'x'")
            try await rig.drain()
            let ledger = try rig.psql(
                """
                SELECT device_token, http_status, reason FROM delivery_failures
                WHERE is_final AND attempt = 1 ORDER BY device_token
                """)
            let expected = cases.map { [DeviceTokens.magic($0.0), "\($0.1)", $0.2] as [String?] }
            #expect(ledger == expected.sorted { ($0[0] ?? "") < ($1[0] ?? "") })
            #expect(try rig.row(id) == NotificationRow("sent", cases.count + 1, accepted: 1, rejected: cases.count))
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 0)
        }
    }

    @Test("that cannot be written down costs nobody else's result, nor a second push")
    func refusedLedger() async throws {
        try await Rig.run { rig in
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token)
                VALUES ('anna', '\(DeviceTokens.plain(1))'), ('anna', '\(DeviceTokens.magic("0410"))'),
                       ('bert', '\(DeviceTokens.plain(2))')
                """)
            try rig.psql(
                """
                CREATE FUNCTION refuse_all() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN RAISE EXCEPTION 'not here'; END $$
                """)
            try rig.psql(
                """
                CREATE TRIGGER refuse_all BEFORE INSERT ON delivery_failures
                FOR EACH ROW EXECUTE FUNCTION refuse_all()
                """)
            let anna = try rig.insert("user_id, body", "'anna', 'x'")
            let bert = try rig.insert("user_id, body", "'bert', 'x'")
            let worker = try await rig.drain()

            #expect(worker.log.contains("a result could not be written"))
            #expect(try rig.row(anna) == NotificationRow("sent", 2, accepted: 1, rejected: 1))
            #expect(try rig.row(bert) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.simulator.journal().requests.count == 3)
        }
    }
}
