// Many devices, several workers, ends in the middle: nothing doubled, nothing missed.

import Foundation
import TestSupport
import Testing

@Suite("Thousands of pushes", .serialized) struct Crowds {
    @Test("shared by three replicas: a broadcast of 12,000 and 2,000 singles")
    func threeReplicas() async throws {
        // So slow at first that nobody can take it all before the others have come.
        try await Rig.run(.heavy, simulator: ["--latency-ms", "1000", "--stream-limit", "10"]) { rig in
            try rig.addDevices(1...12_000)
            let workers = try (1...3).map { _ in try rig.worker() }
            for worker in workers { try await worker.hasStarted() }
            try await rig.listeners(3)
            // In one transaction, so that all is there when they look.
            try rig.psql(
                """
                BEGIN;
                INSERT INTO scheduled_notifications (broadcast, body) VALUES (true, 'all');
                INSERT INTO scheduled_notifications (user_id, body)
                SELECT 'user-' || i * 6, 'one' FROM generate_series(1, 2000) i;
                COMMIT;
                """)
            let owner = "SELECT owner FROM notification_batches UNION SELECT owner FROM scheduled_notifications"
            try await rig.eventually("SELECT count(owner) FROM (\(owner)) x", is: "3")
            try await rig.simulator.set("latency-ms", 20)
            try await rig.simulator.set("stream-limit", 1000)
            try await rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE status <> 'sent'", is: "0", within: .seconds(240))
            let registered = try rig.column("SELECT unnest(owners) FROM pgpush_workers")
            for worker in workers { try await worker.stop() }

            let expected = try rig.column(
                """
                SELECT apns_id(n.id, d.id) FROM scheduled_notifications n JOIN devices d ON n.broadcast OR d.user_id = n.user_id
                """)
            #expect(expected.count == 14_000)
            let journal = try rig.simulator.journal()
            #expect(Difference(expected: expected, seen: journal.requests.map { $0.apnsId ?? "" }) == .none)
            #expect(journal.accepted.count == 14_000)
            let counts = try rig.psql(
                """
                SELECT broadcast, count(*), sum(device_count), sum(accepted_count), sum(rejected_count + unknown_count)
                FROM scheduled_notifications GROUP BY 1 ORDER BY 1
                """)
            #expect(counts == [["f", "2000", "2000", "2000", "0"], ["t", "1", "12000", "12000", "0"]])

            #expect(Set(try rig.column(owner)) == Set(registered) && registered.count == 3)
            #expect(try rig.database.number("SELECT count(*) FROM pgpush_workers") == 0)
        }
    }

    @Test("on three lanes of one worker, with a connection at least for each")
    func threeLanes() async throws {
        try await Rig.run(.heavy, simulator: ["--latency-ms", "20"]) { rig in
            try rig.addDevices(1...4000)
            try rig.psql(
                """
                INSERT INTO scheduled_notifications (user_id, body)
                SELECT 'user-' || i * 4, 'one' FROM generate_series(1, 1000) i;
                INSERT INTO scheduled_notifications (broadcast, body) VALUES (true, 'all');
                """)
            try await rig.drain("--lanes", "3", "--connections", "6")
            let expected = try rig.column(
                """
                SELECT apns_id(n.id, d.id)
                FROM scheduled_notifications n JOIN devices d ON n.broadcast OR d.user_id = n.user_id
                """)
            let journal = try rig.simulator.journal()
            #expect(Difference(expected: expected, seen: journal.requests.map { $0.apnsId ?? "" }) == .none)
            #expect((3...6).contains(Set(journal.accepted.map(\.connection)).count))
            let unfinished = "SELECT count(*) FROM scheduled_notifications WHERE status <> 'sent'"
            #expect(try rig.database.number(unfinished) == 0)
        }
    }

    @Test("stopped by SIGTERM in the middle of a broadcast to 20,000 and finished by a new worker")
    func stopAndGoOn() async throws {
        // 80 streams at half a second: two minutes for all of them.
        let weather = ["--latency-ms", "500", "--stream-limit", "20", "--journal-body", "none"]
        try await Rig.run(.heavy, simulator: weather) { rig in
            try rig.addDevices(1...20_000)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let first = try rig.worker("--grace", "300")
            try await rig.simulator.wait(for: .accepted, atLeast: 1000)
            // What is on the wire is answered soon; the grace time is not used up for nothing.
            try await first.stop(within: .seconds(120))
            let half = try await rig.simulator.counts()
            #expect(half.requests == half.accepted && half.accepted < 20_000)
            #expect(
                try rig.psql(
                    "SELECT state, count(*) FROM notification_batches WHERE state NOT IN ('done', 'ready') GROUP BY 1")
                    == [])
            let booked = try rig.database.number("SELECT sum(accepted_count) FROM notification_batches")
            #expect(booked == half.accepted)

            try await rig.simulator.set("latency-ms", 20)
            try await rig.simulator.set("stream-limit", 1000)
            try await rig.drain()
            let whole = try await rig.simulator.counts()
            #expect(whole.requests == 20_000)
            #expect(whole.distinctAccepted == 20_000 && whole.repeatedAccepted == 0)
            #expect(try rig.row(id) == NotificationRow("sent", 20_000, accepted: 20_000))
        }
    }

    @Test("do not make a worker grow with the audience", .disabled(if: Sanitizer.isOn, "it takes memory of its own"))
    func memory() async throws {
        try await Rig.run(.heavy, simulator: ["--journal-body", "none"]) { rig in
            try rig.addDevices(1...50_000)
            let worker = try rig.worker()
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.status(of: id, is: "sent", within: .seconds(240))
            let peak = try #require(worker.peakMemory)
            #expect(peak < 64 * 1024, "\(peak) KB")
            try await worker.stop()
            #expect(try rig.row(id) == NotificationRow("sent", 50_000, accepted: 50_000))
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == 50_000 && counts.distinctAccepted == 50_000)
        }
    }
}
