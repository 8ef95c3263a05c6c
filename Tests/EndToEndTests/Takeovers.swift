// How workers end, and who goes on with what they held: told to stop, told twice, killed.

import Foundation
import TestSupport
import Testing

@Suite("A worker that ends") struct Takeovers {
    @Test("waits for answers no longer than the grace time, books what has none, and gives the rest back")
    func graceTime() async throws {
        try await Rig.run { rig in
            // Never answered; accepted after 2 s, and 5 s more.
            try await rig.simulator.set("latency-ms", 5000)
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token)
                VALUES ('mute', '\(DeviceTokens.magic("00aa"))'), ('slow', '\(DeviceTokens.magic("02aa"))')
                """)
            let mute = try rig.insert("user_id, body", "'mute', 'x'")
            let slow = try rig.insert("user_id, body", "'slow', 'x'")
            let worker = try rig.worker("--grace", "8")
            // Neither is answered yet: the first opens a connection, the other one of its own or waits for it.
            try await rig.simulator.wait(for: .held, atLeast: 2)
            try await worker.stop()
            #expect(try rig.row(slow) == NotificationRow("sent", 1, accepted: 1))
            // Whether it arrived, nobody knows: it goes again, as after any unknown outcome.
            #expect(try rig.value("status", of: mute) == "sending")
            #expect(try rig.psql("SELECT reason, is_final FROM delivery_failures") == [["ConnectionLost", "f"]])
            #expect(
                try rig.psql("SELECT state, attempts FROM notification_batches WHERE state <> 'done'") == [
                    ["ready", "2"]
                ])
        }
    }

    @Test("by a second signal ends at once, with 130")
    func secondSignal() async throws {
        try await Rig.run { rig in
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('mute', '\(DeviceTokens.magic("00aa"))')")
            try rig.insert("user_id, body", "'mute', 'x'")
            let worker = try rig.worker()
            try await rig.simulator.wait(for: .held, atLeast: 1)
            worker.signal(SIGTERM)
            try await worker.logs("stopping")
            worker.signal(SIGTERM)
            #expect(try await worker.exitCode() == 130)
        }
    }

    @Test("without work ends at once on SIGINT as on SIGTERM, and takes its name off the list")
    func idle() async throws {
        try await Rig.run { rig in
            for signal in [SIGTERM, SIGINT] {
                let worker = try rig.worker()
                try await worker.hasStarted()
                try await rig.eventually("SELECT count(*) FROM pgpush_workers", is: "1")
                worker.signal(signal)
                #expect(try await worker.exitCode() == 0)
                #expect(try rig.database.number("SELECT count(*) FROM pgpush_workers") == 0)
            }
        }
    }

    @Test("by SIGKILL leaves its work to another one, which finishes it under the same ids")
    func killed() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...300)
            try await rig.simulator.set("latency-ms", 600_000)
            let one = try rig.insert("user_id, body", "'user-1', 'one'")
            let once = try rig.insert("user_id, body, delivery", "'user-2', 'once', 'at_most_once'")
            let all = try rig.insert("broadcast, body", "true, 'all'")
            let first = try rig.worker("--batch-size", "100")
            try await rig.simulator.wait(for: .held, atLeast: 4)
            await first.kill()
            let held = try rig.simulator.journal().held.compactMap(\.apnsId)
            try await rig.simulator.control("calm")
            // Its leases have run out long ago.
            try rig.psql(
                """
                UPDATE scheduled_notifications SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL;
                UPDATE notification_batches SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL
                """)
            let second = try rig.worker("--poll-interval", "1")
            // Whoever takes over must have had its connection for half a minute; then it looks around once a minute.
            try await rig.status(of: all, is: "sent", within: .seconds(240))
            try await rig.status(of: one, is: "sent", within: .seconds(240))
            try await rig.status(of: once, is: "failed", within: .seconds(240))
            try await second.stop()

            #expect(try rig.row(all) == NotificationRow("sent", 300, accepted: 300))
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(once) == NotificationRow("failed", 1, unknown: 1, error: "Worker lost"))
            let accepted = try rig.simulator.journal().accepted.compactMap(\.apnsId)
            let expected = try rig.column(
                "SELECT apns_id(\(all), id) FROM devices UNION ALL SELECT apns_id(\(one), 1)")
            #expect(Difference(expected: expected, seen: accepted) == .none)
            // What may have arrived twice has one id.
            let doubtful = Set(held).subtracting(try rig.column("SELECT apns_id(\(once), 2)"))
            #expect(doubtful.isSubset(of: accepted))
        }
    }
}
