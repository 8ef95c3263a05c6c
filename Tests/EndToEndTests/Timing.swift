// When a row goes out: at once when the worker hears of it, at its due time to the second, and by the poll when nobody says a word.

import Foundation
import TestSupport
import Testing

@Suite("A running worker") struct Timing {
    @Test("hears of a new row and sends it long before its next poll")
    func notify() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let worker = try rig.worker("--poll-interval", "60")
            try await rig.listeners(1)
            for round in 1...3 {
                let id = try rig.insert("user_id, body", "'user-1', 'x'")
                try await rig.status(of: id, is: "sent", within: .seconds(120))
                // A poll alone would let at least two of the three wait for a minute, or nearly.
                let delay = try #require(
                    try rig.value("extract(epoch FROM sent_at - created_at)", of: id).flatMap { Double($0) })
                #expect(delay < 30, "round \(round)")
            }
            try await worker.stop()
        }
    }

    @Test("finds by its poll what nobody told it about")
    func poll() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let worker = try rig.worker("--poll-interval", "1")
            try await rig.listeners(1)
            let id = try rig.database.number(
                """
                SET pgpush.notify = off;
                INSERT INTO scheduled_notifications (user_id, body) VALUES ('user-1', 'x') RETURNING id;
                """)
            try await rig.status(of: id, is: "sent")
            try await worker.stop()
        }
    }

    @Test("behind a pooler, without a way around it, says that it cannot listen and polls")
    func behindAPooler() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let pooler = try Pooler.shared(before: rig.database.cluster)
            let worker = try rig.worker(
                "--poll-interval", "1",
                more: [
                    "DATABASE_URL": pooler.connectionString(database: rig.database.name), "DATABASE_DIRECT_URL": "",
                ])
            try await worker.logs("notifications are not available")
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: id, is: "sent")
            try await worker.stop()
        }
    }

    @Test("sends at the due time, not before and not much later")
    func dueTime() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2)
            let worker = try rig.worker("--poll-interval", "600")
            try await rig.listeners(1)
            let kept = try rig.insert("user_id, body, scheduled_at", "'user-1', 'x', now() + interval '3 s'")
            let moved = try rig.insert("user_id, body, scheduled_at", "'user-2', 'x', now() + interval '15 s'")
            let later = "SELECT reschedule_notification(\(moved), now() + interval '17 s')"
            #expect(try rig.database.value(later) == "rescheduled")
            for (id, token) in [(kept, DeviceTokens.plain(1)), (moved, DeviceTokens.plain(2))] {
                try await rig.status(of: id, is: "sent")
                let due = try #require(try rig.value("extract(epoch FROM scheduled_at)", of: id).flatMap { Double($0) })
                let requests = try rig.simulator.journal().requests(for: token)
                #expect(requests.count == 1)
                let delay = Double(requests.first?.wall ?? 0) / 1e9 - due
                #expect(delay >= 0 && delay < 15)
            }
            try await worker.stop()
        }
    }
}

@Suite("A worker with --once") struct OnceTiming {
    @Test("ends when nothing is due, however slow the database is")
    func slowDatabase() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            // Each claim asks for the pauses, too.
            try rig.psql(
                """
                ALTER FUNCTION current_pauses() RENAME TO pgpush_quick_pauses;
                CREATE FUNCTION current_pauses() RETURNS TABLE (
                    app text, environment text, topic text, reason text, automatic boolean, paused_at timestamptz,
                    next_probe_at timestamptz)
                LANGUAGE sql AS $$ SELECT pg_sleep(0.6); SELECT * FROM pgpush_quick_pauses() $$;
                """)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.drain()
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    @Test("ends although the gateway cannot be reached, and leaves everything pending")
    func unreachableGateway() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...3)
            let one = try rig.insert("user_id, body", "'user-1', 'x'")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let port = try FreePort.find()
            let worker = try rig.worker("--once", more: ["APNS_PRODUCTION_URL": "https://127.0.0.1:\(port)"])
            #expect(try await worker.exitCode() == 6)
            #expect(try rig.row(one) == NotificationRow("pending"))
            #expect(try rig.database.number("SELECT count(*) FROM notification_batches WHERE state <> 'ready'") == 0)
            try await rig.drain()
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(all) == NotificationRow("sent", 3, accepted: 3))
        }
    }
}
