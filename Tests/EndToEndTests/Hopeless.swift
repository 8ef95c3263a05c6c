// What Apple refuses for its content would be refused for every device: it costs a few requests and not one each.

import TestSupport
import Testing

@Suite("A notification that Apple refuses for everybody") struct Hopeless {
    @Test(
        "costs a handful of requests, and fails with the reason",
        arguments: [("413:PayloadTooLarge", "PayloadTooLarge"), ("400:BadPriority", "BadPriority")])
    func broadcast(answer: String, reason: String) async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...3000)
            try await rig.simulator.set("answer-all", answer)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try await rig.drain("--batch-size", "200")
            let requests = try await rig.simulator.counts().requests
            #expect((3...40).contains(requests), "\(requests)")
            #expect(worker.log.contains("a notification is given up"))
            let row = try #require(try rig.row(id))
            #expect(row.status == "failed" && row.error == reason, "\(row)")
            #expect(row.counts[1...] == [0, requests, 0], "\(row)")
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 0)
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM notification_batches WHERE state NOT IN ('done', 'abandoned')") == 0)

            // Nothing of it comes back by itself.
            try await rig.simulator.control("calm")
            try await rig.drain()
            #expect(try await rig.simulator.counts().requests == requests)
        }
    }

    @Test("is given up as a list too, and others go out meanwhile")
    func list() async throws {
        try await Rig.run(simulator: ["--first-limit", "5", "--stream-limit", "5"]) { rig in
            let tokens = (1...300).map { "'\(DeviceTokens.magic("7400", $0))'" }.joined(separator: ", ")
            try rig.addDevices(1...5)
            let list = try rig.insert("device_tokens, body", "ARRAY[\(tokens)], 'x'")
            let all = try rig.insert("broadcast, body", "true, 'y'")
            try await rig.drain("--connections", "1", "--lanes", "1")
            let row = try #require(try rig.row(list))
            #expect(row.status == "failed" && row.error == "BadCollapseId", "\(row)")
            #expect((3...40).contains(row.counts[2]) && row.counts[1] == 0, "\(row)")
            #expect(try rig.row(all) == NotificationRow("sent", 5, accepted: 5))
        }
    }

    @Test("is not one of which a single device is refused and another accepted")
    func oneBadDevice() async throws {
        try await Rig.run { rig in
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token) VALUES
                    ('anna', '\(DeviceTokens.magic("a400"))'), ('anna', '\(DeviceTokens.plain(1))'),
                    ('bert', '\(DeviceTokens.magic("0413"))')
                """)
            try rig.addDevices(2...600)
            try rig.psql(
                """
                UPDATE devices SET device_token = '5ca1ab1ea400' || lpad(to_hex(id), 52, '0') WHERE id % 100 = 0
                """)
            let anna = try rig.insert("user_id, body", "'anna', 'x'")
            let bert = try rig.insert("user_id, body", "'bert', 'x'")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain()
            #expect(try rig.row(anna) == NotificationRow("sent", 2, accepted: 1, rejected: 1))
            #expect(try rig.row(bert) == NotificationRow("failed", 1, rejected: 1, error: "PayloadTooLarge"))
            #expect(try rig.row(all) == NotificationRow("sent", 602, accepted: 594, rejected: 8))
        }
    }

    @Test("is not said to be one when the database knows of an acceptance; everybody is asked then")
    func refusedGivingUp() async throws {
        try await Rig.run(simulator: ["--first-limit", "2", "--stream-limit", "2"]) { rig in
            try rig.holdRetries()
            try rig.addDevices(1...2)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            // A slice that was accepted long ago, and one whose devices are all refused.
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token)
                SELECT 'bert', '5ca1ab1e0429' || lpad(to_hex(n), 52, '0') FROM generate_series(1, 12) n
                """)
            try await rig.drain()
            try await rig.eventually(
                """
                SELECT sum(cardinality(device_ids)) FROM notification_batches WHERE state = 'ready'
                """, is: "12")
            try await rig.simulator.set("answer-all", "413:PayloadTooLarge")
            try rig.letRetriesGo()
            let worker = try rig.worker("--poll-interval", "1", "--lanes", "1")
            // Nothing is left to be sent again, whatever was put off meanwhile.
            try await rig.status(of: id, is: "sent")
            try await worker.stop()
            #expect(!worker.log.contains("a notification is given up"))
            #expect(try rig.row(id) == NotificationRow("sent", 14, accepted: 2, rejected: 12))
        }
    }

    @Test("is not one that somebody accepted before")
    func acceptedBefore() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            try rig.addDevices(1...5)
            // Batches of one, so that each is sent again by itself, whatever the waits that chance gives them.
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token) VALUES
                    ('anna', '\(DeviceTokens.magic("0500"))'), ('bert', '\(DeviceTokens.magic("0429"))')
                """)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain("--batch-size", "1")
            #expect(
                try rig.column("SELECT device_ids FROM notification_batches WHERE state = 'ready' ORDER BY device_ids")
                    == ["{6}", "{7}"])
            try rig.psql("UPDATE notification_batches SET not_before = now() WHERE device_ids = '{6}'")
            try await rig.simulator.set("answer-all", "413:PayloadTooLarge")
            try await rig.drain()
            try await rig.simulator.control("calm")
            try rig.makeRetriesDue()
            try await rig.drain()
            #expect(try rig.row(id) == NotificationRow("sent", 7, accepted: 6, rejected: 1))
        }
    }
}
