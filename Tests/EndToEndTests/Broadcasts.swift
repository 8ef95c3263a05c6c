// A broadcast reaches every active device once, in batches.

import TestSupport
import Testing

@Suite("A broadcast") struct Broadcasts {
    @Test("to 1,750 active of 1,800 devices goes out in four batches, to each active device once")
    func eachActiveDeviceOnce() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1800, active: "i % 36 <> 0")
            let id = try rig.insert("broadcast, title", "true, 'All'")
            try await rig.drain()

            let journal = try rig.simulator.journal()
            #expect(
                Difference(
                    expected: try rig.column("SELECT apns_id(\(id), id) FROM devices WHERE is_active"),
                    seen: journal.requests.map { $0.apnsId ?? "" }) == .none)
            #expect(
                Difference(
                    expected: try rig.column("SELECT device_token FROM devices WHERE is_active"),
                    seen: journal.acceptedTokens) == .none)
            #expect(try rig.row(id) == NotificationRow("sent", 1750, accepted: 1750))
            try rig.expectWholeBatches(of: id, sizes: [500, 500, 500, 250])
        }
    }

    @Test("goes to both environments, each device by its own host")
    func bothEnvironments() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...300)
            try rig.psql("UPDATE devices SET environment = 'sandbox' WHERE id % 3 = 0")
            let id = try rig.insert("broadcast, title", "true, 'All'")
            try await rig.drain("--batch-size", "70")
            let accepted = try rig.simulator.journal().accepted
            #expect(
                Difference(
                    expected: try rig.column("SELECT environment || device_token FROM devices"),
                    seen: accepted.map { $0.environment + ($0.token ?? "") }) == .none)
            #expect(try rig.row(id) == NotificationRow("sent", 300, accepted: 300))
            try rig.expectWholeBatches(of: id, sizes: [70, 70, 70, 70, 20])
        }
    }

    @Test("to nobody is skipped")
    func nobody() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...3, active: "false")
            let id = try rig.insert("broadcast, title", "true, 'All'")
            try await rig.drain()
            #expect(try rig.row(id) == NotificationRow("skipped"))
            #expect(try rig.simulator.journal().requests.isEmpty)
        }
    }

    @Test("is not held up by, and does not hold up, single notifications")
    func besideSingles() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...600)
            let all = try rig.insert("broadcast, title", "true, 'All'")
            let one = try rig.insert("user_id, title", "'user-7', 'You'")
            try await rig.drain()
            let expected = try rig.column(
                "SELECT apns_id(\(all), id) FROM devices UNION ALL SELECT apns_id(\(one), id) FROM devices WHERE user_id = 'user-7'"
            )
            let seen = try rig.simulator.journal().requests.map { $0.apnsId ?? "" }
            #expect(Difference(expected: expected, seen: seen) == .none)
            #expect(try rig.row(all) == NotificationRow("sent", 600, accepted: 600))
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
        }
    }
}
