// Results that the database will not write down, because of something that people have put into it. What was sent stays known as
// sent: it is not sent again, and it is written down when the fault is mended.

import TestSupport
import Testing

@Suite("A result that the database refuses") struct RefusedResults {
    /// Moves on as long as somebody keeps the lease.
    private func lease(_ rig: Rig, of id: Int, movesOnBy seconds: Int) async throws {
        let first = try #require(
            try rig.database.value("SELECT lease_until FROM scheduled_notifications WHERE id = \(id)"))
        try await rig.eventually(
            """
            SELECT lease_until > '\(first)'::timestamptz + interval '\(seconds) s' FROM scheduled_notifications WHERE id = \(id)
            """, is: "t", within: .seconds(180))
    }

    @Test("for a broken trigger on the ledger waits under its lease until that is mended")
    func brokenTrigger() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            try rig.psql(
                "INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(DeviceTokens.magic("0410"))')")
            try rig.psql(
                """
                CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.no_such_column := 1; RETURN NEW; END $$;
                CREATE TRIGGER audit BEFORE INSERT ON delivery_failures FOR EACH ROW EXECUTE FUNCTION audit()
                """)
            let worker = try rig.worker("--poll-interval", "1")
            let anna = try rig.insert("user_id, body", "'anna', 'x'")
            try await worker.logs("results cannot be written until", within: .seconds(180))
            try await lease(rig, of: anna, movesOnBy: 15)
            #expect(try rig.value("status", of: anna) == "sending")

            try rig.psql("DROP TRIGGER audit ON delivery_failures")
            try await rig.status(of: anna, is: "failed", within: .seconds(180))
            try await worker.stop()
            #expect(try rig.row(anna) == NotificationRow("failed", 1, rejected: 1, error: "Unregistered"))
            #expect(try rig.simulator.journal().requests.count == 1)
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 1)
        }
    }

    @Test("by a trigger on the ledger that raises holds up only what it refuses, and loses no ledger row")
    func raisingTrigger() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let gone = (1...3).map { "('anna-\($0)', '\(DeviceTokens.magic("0410", $0))', now() - interval '1 hour')" }
            try rig.psql(
                "INSERT INTO devices (user_id, device_token, registered_at) VALUES \(gone.joined(separator: ", "))")
            try rig.psql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON delivery_failures FOR EACH ROW EXECUTE FUNCTION refuse()
                """)
            let refused = try (1...3).map { try rig.insert("user_id, body", "'anna-\($0)', 'x'") }
            let worker = try rig.worker("--poll-interval", "1", "--lanes", "1")
            try await worker.logs("a result could not be written; it waits until", within: .seconds(180))
            let plain = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: plain, is: "sent", within: .seconds(180))
            try await lease(rig, of: refused[0], movesOnBy: 15)
            #expect(try refused.allSatisfy { try rig.value("status", of: $0) == "sending" })
            // A line for all of them, not one a second.
            #expect(worker.log.count(of: "a result could not be written") == 1)

            try rig.psql("DROP TRIGGER refuse ON delivery_failures")
            for id in refused { try await rig.status(of: id, is: "failed", within: .seconds(240)) }
            try await worker.stop()
            #expect(try rig.simulator.journal().requests.count == 4)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE http_status = 410") == 3)
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 3)
        }
    }

    @Test("for a row alone waits aside; the others are written, and it is not sent again")
    func oneRow() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2)
            let first = try rig.insert("user_id, body", "'user-1', 'x'")
            try rig.psql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON scheduled_notifications FOR EACH ROW
                WHEN (NEW.id = \(first) AND NEW.status = 'sent') EXECUTE FUNCTION refuse()
                """)
            let worker = try rig.worker("--poll-interval", "1")
            try await worker.logs("a result could not be written", within: .seconds(180))
            let second = try rig.insert("user_id, body", "'user-2', 'x'")
            try await rig.status(of: second, is: "sent", within: .seconds(180))
            try await lease(rig, of: first, movesOnBy: 15)
            #expect(try rig.value("status", of: first) == "sending")

            try rig.psql("DROP TRIGGER refuse ON scheduled_notifications")
            try await rig.status(of: first, is: "sent", within: .seconds(240))
            try await worker.stop()
            #expect(try rig.simulator.journal().requests.count == 2)
        }
    }
}
