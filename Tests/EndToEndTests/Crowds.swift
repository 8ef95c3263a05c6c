// Many devices, several workers, ends in the middle: nothing doubled, nothing missed.

import Foundation
import TestSupport
import Testing

@Suite("Thousands of pushes", .serialized) struct Crowds {
    @Test("shared by three replicas: a broadcast of 12,000 and 2,000 singles")
    func threeReplicas() async throws {
        try await Rig.run(.heavy, simulator: ["--latency-ms", "20"]) { rig in
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
            try await rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE status <> 'sent'", is: "0", within: .seconds(120))
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

            let owners = try rig.column(
                "SELECT DISTINCT owner FROM (SELECT owner FROM notification_batches UNION SELECT owner FROM scheduled_notifications) x"
            )
            #expect(Set(owners) == Set(registered) && registered.count == 3)
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
        try await Rig.run(.heavy, simulator: ["--latency-ms", "20", "--journal-body", "none"]) { rig in
            try rig.addDevices(1...20_000)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let first = try rig.worker()
            try await rig.simulator.wait(for: .accepted, atLeast: 4000)
            let start = ContinuousClock.now
            try await first.stop(within: .seconds(25))
            // What was on the wire was answered after 20 ms; the grace time is not used up for nothing.
            #expect(ContinuousClock.now - start < .seconds(10))
            let half = try await rig.simulator.counts()
            #expect(half.requests == half.accepted && half.accepted < 20_000)
            #expect(
                try rig.psql(
                    "SELECT state, count(*) FROM notification_batches WHERE state NOT IN ('done', 'ready') GROUP BY 1")
                    == [])
            let booked = try rig.database.number("SELECT sum(accepted_count) FROM notification_batches")
            #expect(booked == half.accepted)

            try await rig.drain(within: .seconds(120))
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
            try await rig.status(of: id, is: "sent", within: .seconds(120))
            let peak = try #require(worker.peakMemory)
            #expect(peak < 64 * 1024, "\(peak) KB")
            try await worker.stop()
            #expect(try rig.row(id) == NotificationRow("sent", 50_000, accepted: 50_000))
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == 50_000 && counts.distinctAccepted == 50_000)
        }
    }
}
