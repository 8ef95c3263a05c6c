// F31 and F32: broadcasts that are large, and batches with bad apples in them.

import Foundation
import TestSupport
import Testing

@Suite("A broadcast") struct Broadcasts {
    @Test(
        "F31: to 300,000 devices with 512 MB of data at most: memory is flat, and a single that falls due is not starved",
        .disabled(if: Sanitizer.isOn, "it takes memory of its own")
    )
    func largeAudience() async throws {
        let weather = ["--latency-ms", "20", "--journal-body", "none"]
        try await Rig.run(.heavy, simulator: weather) { rig in
            try addManyDevices(300_000, rig)
            // RLIMIT_DATA: what is writable and private, which the kernel refuses beyond the limit. A limit of the address space
            // would count what is only reserved.
            let worker = try rig.worker(within: ["/usr/bin/prlimit", "--data=\(512 << 20)", "--"])
            try await rig.listeners(1)
            let all = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.simulator.wait(for: .accepted, atLeast: 30_000, within: .seconds(300))
            let early = try worker.reading()
            try await rig.simulator.wait(for: .accepted, atLeast: 100_000, within: .seconds(300))
            let one = try rig.insert("user_id, body", "'user-7', 'y'")
            try await rig.status(of: one, is: "sent")
            #expect(try rig.value("status", of: all) == "sending")
            // By rank, since a second is long on one machine and short on another: what was claimed of the 600 slices between
            // its time and its end is what both lanes hold, and a little.
            let before = try rig.database.number(
                """
                SELECT count(*) FROM notification_batches b JOIN scheduled_notifications n ON n.id = \(one)
                WHERE b.notification_id = \(all) AND b.claimed_at BETWEEN n.created_at AND n.sent_at
                """)
            #expect(before < 100, "\(before) slices of the broadcast were claimed before the single was sent")

            try await rig.status(of: all, is: "sent", within: .seconds(900))
            let late = try worker.reading()
            let peak = try #require(worker.peakMemory)
            #expect(late.resident < early.resident + 16 * 1024, "\(early) then \(late)")
            #expect(peak < 96 * 1024, "\(peak) kB")
            try await worker.stop()
            #expect(try rig.row(all) == NotificationRow("sent", 300_000, accepted: 300_000))
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == 300_001 && counts.accepted == 300_001)
            #expect(counts.distinctAccepted == 300_000)
        }
    }

    /// Without the triggers, which would take their time.
    private func addManyDevices(_ count: Int, _ rig: Rig) throws {
        try rig.psql(
            """
            BEGIN; SET LOCAL session_replication_role = replica;
            INSERT INTO devices (user_id, device_token)
            SELECT 'user-' || i, \(DeviceTokens.sql("i")) FROM generate_series(1, \(count)) i;
            COMMIT
            """)
    }

    @Test(
        "F32: one bad token, one refused, one gone, one reset and one unanswered cost the other 495 of their batch nothing",
        arguments: ["at_least_once", "at_most_once"])
    func badApples(delivery: String) async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...495)
            let magic = Dictionary(
                uniqueKeysWithValues: ["0400", "0410", "01bb", "01aa"].map { ($0, DeviceTokens.magic($0)) })
            let values = magic.values.map { "('bad', '\($0)', now() - interval '1 hour')" }
            try rig.psql(
                "INSERT INTO devices (user_id, device_token, registered_at) VALUES \(values.joined(separator: ", "))")
            // The triggers take no such token: see F17.
            try rig.psql(
                """
                BEGIN; SET LOCAL session_replication_role = replica;
                INSERT INTO devices (user_id, device_token) VALUES ('bad', 'not/a token'); COMMIT
                """)
            let id = try rig.insert("broadcast, body, delivery", "true, 'x', '\(delivery)'")
            try await rig.drain()
            let first = try rig.simulator.journal()
            // With checkpoints the reset one may go again while another is still waited for.
            #expect(first.requests.count >= 499)
            #expect(
                try rig.database.number("SELECT count(*) FROM notification_batches WHERE through_id IS NOT NULL") == 1)
            if delivery == "at_most_once" {
                #expect(try rig.row(id) == NotificationRow("sent", 500, accepted: 495, rejected: 3, unknown: 2))
            } else {
                #expect(try rig.value("status", of: id) == "sending")
                try rig.psql("UPDATE notification_batches SET not_before = now() WHERE state = 'ready'")
                try await rig.drain()
                #expect(try rig.row(id) == NotificationRow("sent", 500, accepted: 497, rejected: 3))
            }

            let journal = try rig.simulator.journal()
            let good = (1...495).map(DeviceTokens.plain)
            #expect(
                Difference(expected: good, seen: journal.requests.compactMap(\.token).filter { $0.hasPrefix("a0") })
                    == .none)
            let tries = delivery == "at_most_once" ? 1 : 2
            for (choice, token) in magic {
                let requests = journal.requests(for: token)
                #expect(
                    requests.count == (choice.hasPrefix("0") && choice.hasSuffix("00") || choice == "0410" ? 1 : tries),
                    "\(choice)")
                #expect(Set(requests.map(\.apnsId)).count == 1)
            }
            let ledger = try rig.psql(
                "SELECT device_token, http_status, reason, is_final FROM delivery_failures WHERE attempt = 1 ORDER BY 1"
            )
            let isFinal = delivery == "at_most_once" ? "t" : "f"
            #expect(
                ledger == [
                    [magic["01aa"], nil, "NoAnswer", isFinal], [magic["01bb"], nil, "ConnectionLost", isFinal],
                    [magic["0400"], "400", "BadDeviceToken", "t"], [magic["0410"], "410", "Unregistered", "t"],
                    ["not/a_token", nil, "the stored device token is not hex", "t"],
                ])
            let gone = try rig.column("SELECT device_token FROM devices WHERE deactivation_reason = 'Unregistered'")
            #expect(gone == [magic["0410"]])
        }
    }
}
