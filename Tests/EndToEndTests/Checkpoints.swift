// A batch on the wire is written back about once a second, so that whoever takes over from a killed worker knows where it was.

import Foundation
import TestSupport
import Testing

@Suite("A checkpoint") struct Checkpoints {
    @Test("leaves about a second of answers to repeat, under the same ids, when a worker is killed in a slow batch")
    func killed() async throws {
        try await Rig.run(.idle, simulator: ["--first-limit", "40", "--stream-limit", "40"]) { rig in
            try rig.addDevices(1...6000)
            // Some of it must be written into the ledger, and some sent again later.
            let gone = stride(from: 50, through: 6000, by: 50).map { (id: $0, token: DeviceTokens.magic("0410", $0)) }
            let busy = stride(from: 75, through: 6000, by: 150).map { (id: $0, token: DeviceTokens.magic("0503", $0)) }
            for one in gone + busy {
                try rig.psql("UPDATE devices SET device_token = '\(one.token)' WHERE id = \(one.id)")
            }
            try rig.psql("UPDATE devices SET registered_at = now() - interval '1 hour'")
            try await rig.simulator.set("latency-ms", 200)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let first = try rig.worker("--batch-size", "10000", "--connections", "1", "--lanes", "1")
            try await rig.simulator.wait(for: .accepted, atLeast: 2800)
            // One batch, and it is known how far it got.
            #expect(
                try rig.psql(
                    """
                    SELECT batch_no, state, done_through > 0, accepted_count > 0, rejected_count > 0
                    FROM notification_batches WHERE after_id IS NOT NULL
                    """) == [["1", "leased", "t", "t", "t"]])
            await first.kill()
            let before = try rig.simulator.journal()
            let end = before.requests.map(\.mono).max() ?? 0
            try await rig.simulator.control("calm")
            try rig.psql(
                """
                UPDATE notification_batches SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL;
                UPDATE notification_batches SET not_before = now() WHERE state = 'ready'
                """)
            let second = try rig.worker("--poll-interval", "1")
            try await rig.status(of: id, is: "sent", within: .seconds(300))
            try await second.stop()

            let journal = try rig.simulator.journal()
            #expect(Set(journal.requests.compactMap(\.token)).count == 6000)
            let requests = Dictionary(grouping: journal.requests) { $0.token ?? "" }
            #expect(requests.values.allSatisfy { Set($0.map(\.apnsId)).count == 1 })
            // Repeated is only what had been answered just before; the machine may be slow, so ten seconds instead of one.
            let long = before.requests.filter { $0.status != 503 && $0.mono < end - 10_000_000_000 }
            #expect(long.count > 100, "\(long.count)")
            #expect(long.allSatisfy { requests[$0.token ?? ""]?.count == 1 })

            #expect(
                try rig.row(id) == NotificationRow("sent", 6000, accepted: 6000 - gone.count, rejected: gone.count))
            let ledger = try rig.column(
                "SELECT device_id FROM delivery_failures WHERE is_final AND http_status = 410 ORDER BY device_id")
            #expect(ledger == gone.map { "\($0.id)" })
            #expect(
                try rig.column("SELECT id FROM devices WHERE NOT is_active ORDER BY id") == gone.map { "\($0.id)" })
        }
    }

    @Test("is made of a list too, though it would fit into one batch")
    func list() async throws {
        try await Rig.run(.idle, simulator: ["--first-limit", "20", "--stream-limit", "20"]) { rig in
            try await rig.simulator.set("latency-ms", 800)
            let tokens = (1...1000).map { "'\(DeviceTokens.plain($0))'" }.joined(separator: ", ")
            let id = try rig.insert("device_tokens, body", "ARRAY[\(tokens)], 'x'")
            let first = try rig.worker("--batch-size", "1000", "--connections", "1", "--lanes", "1")
            try await rig.simulator.wait(for: .accepted, atLeast: 400)
            try await rig.eventually("SELECT max(accepted_count) > 0 FROM notification_batches", is: "t")
            await first.kill()
            let before = try rig.simulator.journal()
            let end = before.requests.map(\.mono).max() ?? 0
            try await rig.simulator.control("calm")
            try rig.psql(
                "UPDATE notification_batches SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL"
            )
            let second = try rig.worker("--poll-interval", "1")
            try await second.hasStarted()
            try await rig.status(of: id, is: "sent", within: .seconds(300))
            try await second.stop()
            let requests = Dictionary(grouping: try rig.simulator.journal().requests) { $0.token ?? "" }
            #expect(requests.count == 1000)
            // As above.
            let long = before.requests.filter { $0.mono < end - 10_000_000_000 }
            #expect(!long.isEmpty && long.allSatisfy { requests[$0.token ?? ""]?.count == 1 })
            #expect(try rig.row(id) == NotificationRow("sent", 1000, accepted: 1000))
        }
    }

    @Test("that is refused, since somebody else has the batch by now, stops it")
    func fenced() async throws {
        try await Rig.run(.idle, simulator: ["--first-limit", "20", "--stream-limit", "20"]) { rig in
            try rig.addDevices(1...4000)
            try await rig.simulator.set("latency-ms", 200)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--batch-size", "4000", "--connections", "1", "--lanes", "1")
            try await rig.eventually("SELECT accepted_count > 0 FROM notification_batches", is: "t")
            try rig.psql(
                "UPDATE notification_batches SET owner = gen_random_uuid(), epoch = epoch + 1 RETURNING accepted_count")
            let counted = try rig.database.number("SELECT accepted_count FROM notification_batches")
            // The renewal of the lease would find it out too, but only twenty seconds after the last checkpoint.
            try await worker.logs("leases were lost", within: .seconds(18))
            try await worker.stop()
            #expect(try await rig.simulator.counts().requests < 4000)
            // What was answered afterwards is nobody's to count but the new holder's.
            #expect(try rig.database.number("SELECT accepted_count FROM notification_batches") == counted)
            #expect(try rig.value("status", of: id) == "sending")
        }
    }
}
