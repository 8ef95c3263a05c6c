// What a running worker outlives: a database that goes away, and a gateway that it must not trust.

import Foundation
import TLS
import TestSupport
import Testing

@Suite("A worker that is running outlives") struct Outages {
    @Test("a restart of PostgreSQL, and looks at the queue soon after it")
    func restartWhileIdle() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await Rig.run(cluster: cluster) { rig in
            try rig.addDevices(1...2)
            let worker = try rig.worker("--poll-interval", "60")
            try await rig.listeners(1)
            let first = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: first, is: "sent")

            try cluster.stop()
            #expect(worker.isRunning)
            try restart(rig)
            // At once, when the worker may not listen yet; and it last polled a moment ago.
            let second = try rig.insert("user_id, body", "'user-2', 'x'")
            try await rig.status(of: second, is: "sent", within: .seconds(50))
            #expect(worker.isRunning)
            try await worker.stop()
            #expect(try rig.simulator.journal().requests.count == 2)
        }
    }

    @Test("a restart of PostgreSQL in the middle of a broadcast, and sends nothing twice")
    func restartWhileSending() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await Rig.run(.heavy, cluster: cluster) { rig in
            try rig.addDevices(1...4000)
            // A batch takes almost two minutes.
            try await rig.simulator.set("stream-limit", 20)
            try await rig.simulator.set("latency-ms", 1000)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--lanes", "1", "--connections", "1", "--batch-size", "2000")
            try await rig.simulator.wait(for: .accepted, atLeast: 60)
            try cluster.stop()
            // What is leased goes on meanwhile.
            let sent = try await rig.simulator.counts().accepted
            try await rig.simulator.wait(for: .accepted, atLeast: sent + 60)
            try restart(rig)
            try await rig.simulator.set("latency-ms", 0)
            try await rig.simulator.set("stream-limit", 1000)
            try await rig.status(of: id, is: "sent", within: .seconds(180))
            try await worker.stop()
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == 4000)
            #expect(counts.distinctAccepted == 4000 && counts.repeatedAccepted == 0)
            #expect(try rig.row(id) == NotificationRow("sent", 4000, accepted: 4000))
        }
    }

    @Test("no end: with the database away it stops soon after the grace time, and says what it could not write")
    func endWithoutDatabase() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await Rig.run(cluster: cluster) { rig in
            try rig.addDevices(1...2000)
            try await rig.simulator.set("stream-limit", 20)
            try await rig.simulator.set("latency-ms", 1000)
            _ = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--grace", "2", "--lanes", "1", "--connections", "1")
            try await rig.simulator.wait(for: .accepted, atLeast: 60)
            try cluster.stop()
            worker.signal(SIGTERM)
            #expect(try await worker.exitCode() == 0)
            #expect(worker.log.contains("results could not be written before the end"))
        }
    }

    private func restart(_ rig: Rig) throws {
        try rig.database.cluster.start()
        // The session of the test has ended with the server; the next one is new.
        _ = try? rig.psql("SELECT")
    }

    @Test("a gateway that cannot prove who it is: nothing is sent, nothing is lost")
    func untrustedGateway() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...10)
            let other = "\(rig.simulator.folder)/other-ca.pem"
            try Data(CertificateIssuer(commonName: "Somebody else").certificatePEM).write(
                to: URL(fileURLWithPath: other))
            let one = try rig.insert("user_id, body", "'user-1', 'x'")
            let all = try rig.insert("broadcast, body", "true, 'y'")
            let worker = try rig.worker(more: ["APNS_CA_PATH": other])
            try await worker.logs("certificate")
            try await rig.status(of: all, is: "sending")
            try await worker.stop()

            #expect(try rig.simulator.journal().requests.isEmpty)
            #expect(try rig.row(one) == NotificationRow("pending"))
            #expect(try rig.value("status", of: all) == "sending")
            #expect(try rig.database.number("SELECT count(*) FROM notification_batches WHERE state <> 'ready'") == 0)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)

            try await rig.drain()
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == 11 && counts.accepted == 11)
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(all) == NotificationRow("sent", 10, accepted: 10))
        }
    }

    @Test("a sandbox that cannot be reached: production goes on")
    func sandboxAway() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...100)
            try rig.psql("UPDATE devices SET environment = 'sandbox' WHERE id % 10 = 0")
            try rig.holdRetries()
            let port = try FreePort.find()
            let worker = try rig.worker(more: ["APNS_SANDBOX_URL": "https://127.0.0.1:\(port)"])
            try await rig.listeners(1)
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let test = try rig.insert("user_id, body", "'user-20', 'x'")
            try await rig.simulator.wait(for: .accepted, atLeast: 90)
            try await worker.logs("connecting failed")
            let one = try rig.insert("user_id, body", "'user-7', 'x'")
            try await rig.status(of: one, is: "sent")
            // Once the sandbox has been away for a while, what is for it is put off, and no more.
            try await rig.eventually(
                "SELECT count(*) FROM notification_batches WHERE state = 'ready' AND not_before > now() AND attempts = 1",
                is: "2")
            let another = try rig.insert("user_id, body", "'user-8', 'x'")
            let more = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.status(of: another, is: "sent")
            try await rig.simulator.wait(for: .accepted, atLeast: 182)
            try await worker.stop()
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)

            try rig.makeRetriesDue()
            try await rig.drain()
            for id in [all, more] { #expect(try rig.row(id) == NotificationRow("sent", 100, accepted: 100)) }
            #expect(try rig.row(test) == NotificationRow("sent", 1, accepted: 1))
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == 203 && counts.accepted == 203)
        }
    }
}
