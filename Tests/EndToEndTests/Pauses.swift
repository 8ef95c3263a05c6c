// Faults that are nobody's: a credential that Apple does not take, a scope that an operator has paused. Everything waits, nothing
// fails, and goes out when the fault is over.

import TestSupport
import Testing

@Suite("A pause") struct Pauses {
    @Test("for a refused credential fails no notification and retires no device")
    func refusedCredential() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...200)
            try await rig.simulator.set("answer-all", "403:InvalidProviderToken")
            let one = try rig.insert("user_id, body", "'user-1', 'x'")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain()

            let pauses = try rig.psql("SELECT app, topic, reason, automatic FROM app_pauses")
            #expect(pauses.allSatisfy { $0[0] == "default" && $0[2] == "InvalidProviderToken" && $0[3] == "t" })
            #expect(!pauses.isEmpty)
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM scheduled_notifications WHERE status IN ('pending', 'sending')") == 2)
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 0)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)
            // A fault of all is met by few, not by two hundred.
            let tries = try await rig.simulator.counts().requests
            #expect(tries < 10, "\(tries)")

            try await rig.simulator.control("calm")
            #expect(try rig.database.value("SELECT resume_app('default')") == "t")
            try await rig.drain()
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(all) == NotificationRow("sent", 200, accepted: 200))
            let counts = try await rig.simulator.counts()
            #expect(counts.accepted == 201 && counts.requests == tries + 201)
        }
    }

    @Test("ends by itself when Apple takes a probe again")
    func probe() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...50)
            try await rig.simulator.set("answer-all", "403:InvalidProviderToken")
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain()
            let tries = try await rig.simulator.counts().requests

            // The probe is due, and fails; it costs one request, and one again on another connection.
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.drain()
            let more = try await rig.simulator.counts().requests
            #expect((tries + 1...tries + 2).contains(more))
            #expect(try rig.value("status", of: id) == "sending")

            try await rig.simulator.control("calm")
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.drain()
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)
            #expect(try rig.row(id) == NotificationRow("sent", 50, accepted: 50))
            #expect(try await rig.simulator.counts().requests == more + 50)
        }
    }

    @Test("by an operator holds an app, or one environment of it, until it is resumed")
    func byAnOperator() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...10)
            try rig.psql(
                "UPDATE devices SET environment = 'sandbox' WHERE id <= 4; SELECT pause_app('default', 'sandbox')")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain()
            #expect(try rig.simulator.journal().requests.map(\.environment) == Array(repeating: "production", count: 6))
            #expect(try rig.value("status", of: all) == "sending")

            try rig.psql("SELECT pause_app('default')")
            let one = try rig.insert("user_id, body", "'user-9', 'x'")
            try await rig.drain()
            #expect(try rig.row(one) == NotificationRow("pending"))

            try rig.psql("SELECT resume_app('default')")
            try await rig.drain()
            #expect(try rig.row(all) == NotificationRow("sent", 10, accepted: 10))
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.simulator.journal().requests.count == 11)
        }
    }

    @Test("is not made by a provider token that has expired: one new one is made")
    func expiredToken() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...200)
            let worker = try rig.worker()
            try await rig.listeners(1)
            let first = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.status(of: first, is: "sent")
            try await rig.simulator.control("expire-tokens")
            let second = try rig.insert("broadcast, body", "true, 'y'")
            try await rig.status(of: second, is: "sent")
            try await worker.stop()
            #expect(try rig.row(second) == NotificationRow("sent", 200, accepted: 200))
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)
            let journal = try rig.simulator.journal()
            #expect(Set(journal.requests.compactMap(\.authorization)).count == 2)
            #expect(journal.accepted.count == 400)
        }
    }
}
