// Versions are exchanged one by one: an old worker meets rows that only a newer one can read. They cost nothing but time.

import TestSupport
import Testing

@Suite("A row that a worker cannot read") struct NewerSchema {
    /// Gives notifications a push type past all triggers, as a newer schema would let it in.
    private func setType(_ rig: Rig, _ type: String) throws {
        try rig.psql(
            """
            BEGIN; SET LOCAL session_replication_role = replica;
            UPDATE scheduled_notifications SET push_type = '\(type)'; COMMIT
            """)
    }

    @Test("goes back after a while, is never booked, and is sent by one that can")
    func rollingUpgrade() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...3)
            let once = try rig.insert("user_id, body, delivery", "'user-1', 'x', 'at_most_once'")
            let all = try rig.insert("broadcast, body, delivery", "true, 'y', 'at_most_once'")
            let list = try rig.insert(
                "device_tokens, body", "ARRAY['\(DeviceTokens.plain(8))', '\(DeviceTokens.plain(9))'], 'z'")
            try setType(rig, "hologram")
            let worker = try rig.worker("--poll-interval", "1", "--lanes", "1")
            try await worker.logs("cannot be read", within: .seconds(180))
            try await rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE status = 'sending'", is: "3", within: .seconds(180))
            // It was given back and met again.
            try await rig.eventually(
                "SELECT epoch > 1 AND lease_until > now() FROM scheduled_notifications WHERE id = \(once)", is: "t",
                within: .seconds(240))
            #expect(worker.log.count(of: "cannot be read") == 1)
            #expect(try await rig.simulator.counts().requests == 0)

            try setType(rig, "alert")
            for id in [once, all, list] { try await rig.status(of: id, is: "sent", within: .seconds(240)) }
            try await worker.stop()
            #expect(try rig.row(once) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(all) == NotificationRow("sent", 3, accepted: 3))
            #expect(try rig.row(list) == NotificationRow("sent", 2, accepted: 2))
            #expect(try rig.simulator.journal().requests.count == 6)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)
        }
    }

    @Test("is pending again when a worker ends, which drains the rest")
    func once() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2)
            let strange = try rig.insert("user_id, body, delivery", "'user-1', 'x', 'at_most_once'")
            try setType(rig, "hologram")
            let plain = try rig.insert("user_id, body", "'user-2', 'x'")
            let worker = try await rig.drain()
            #expect(worker.log.contains("cannot be read"))
            #expect(try rig.row(plain) == NotificationRow("sent", 1, accepted: 1))
            #expect(
                try rig.psql("SELECT status, owner, unknown_count FROM scheduled_notifications WHERE id = \(strange)")
                    == [["pending", nil, "0"]])
            try setType(rig, "alert")
            try await rig.drain()
            #expect(try rig.row(strange) == NotificationRow("sent", 1, accepted: 1))
        }
    }
}
