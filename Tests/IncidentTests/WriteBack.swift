// F24: the answer is there and the database is not.

import Foundation
import TestSupport
import Testing

@Suite("A result") struct WriteBack {
    @Test(
        "F24: that cannot be written down for 30 s is kept, and written once the database is back; the push is not repeated"
    )
    func databaseAway() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await Rig.run(.idle, cluster: cluster, simulator: ["--latency-ms", "8000"]) { rig in
            try rig.addDevices(1...1)
            // Gone, and Apple does not say since when.
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, registered_at)
                VALUES ('gone', '\(DeviceTokens.magic("2410"))', now() - interval '1 hour')
                """)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            let gone = try rig.insert("user_id, body", "'gone', 'x'")
            let (proxy, variables) = try rig.databaseProxy()
            defer { proxy.close() }
            let worker = try rig.worker(more: variables.merging(["DATABASE_DIRECT_URL": ""]) { $1 })
            try await rig.simulator.wait(for: .requests, atLeast: 2)
            proxy.refuse()
            try rig.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pgpush%'")
            proxy.reset()
            try await rig.simulator.wait(for: .answered, atLeast: 2)
            try rig.psql("SELECT register_device(user_id => 'gone', device_token => '\(DeviceTokens.magic("2410"))')")
            let answered = Double(try rig.simulator.journal().accepted.first?.wall ?? 0) / 1e9

            let away = "SELECT clock_timestamp() > to_timestamp(\(answered)) + interval '30 s'"
            try await rig.eventually(away, is: "t")
            #expect(worker.isRunning && worker.log.contains("settle failed, will be repeated"))
            #expect(try rig.value("status", of: id) == "sending")
            try proxy.thaw()
            try await rig.status(of: id, is: "sent")
            try await rig.status(of: gone, is: "failed")
            try await worker.stop()

            let requests = try await rig.simulator.counts().requests
            #expect(requests == 2)
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
            // When it was sent, not when that could be written down.
            let times = try rig.psql(
                """
                SELECT abs(extract(epoch FROM sent_at) - \(answered)) < 20, extract(epoch FROM finished_at) - \(answered) >= 30
                FROM scheduled_notifications WHERE id = \(id)
                """)
            #expect(times == [["t", "t"]])
            // It has come back since, whenever the answer is written down.
            #expect(try rig.psql("SELECT is_active FROM devices") == [["t"], ["t"]])
        }
    }
}
