// Section "tls socket": gateways that cannot prove who they are or do not speak HTTP/2, and peers that hang up at bad moments.

import Foundation
import TestSupport
import Testing

@Suite("TLS and sockets") struct TLSAndSockets {
    /// The rows are given back, untouched; the gateway is not besieged; and nothing was sent to it.
    private func expectPatience(_ rig: Rig, _ worker: WorkerProcess, rows: Int) async throws {
        // A gateway that is out of reach for ten seconds gets nothing reserved for it.
        try await rig.eventually(
            "SELECT count(*) FROM scheduled_notifications WHERE status = 'pending'", is: "\(rows)",
            within: .seconds(180))
        // Attempts double their distance: some eight in ten seconds, with good luck a few more.
        let knocks = try await rig.simulator.counts().knocks
        let more = try? await rig.simulator.wait(for: .knocks, atLeast: knocks + 25, within: .seconds(10))
        #expect(more == nil && knocks >= 2, "\(knocks) attempts, then \(more ?? 0)")
        #expect(try await rig.simulator.counts().requests == 0)
        #expect(worker.isRunning)
        try rig.expectNothingCharged()
    }

    /// Once the gateway is as it should be, the same worker sends everything, once.
    private func expectRecovery(_ rig: Rig, _ worker: WorkerProcess, rows: Int) async throws {
        try await rig.simulator.control("set certificate good")
        try await rig.simulator.control("set alpn h2")
        try await rig.simulator.control("set admission open")
        try await rig.allSinglesSent(rows, within: .seconds(240))
        try await worker.stop()
        expectEachOnce(try rig.simulator.journal(), rows)
        try rig.expectNothingCharged()
    }

    @Test(
        "F06: a gateway that cannot prove who it is gets no payload and no token; the reason is logged, rows wait",
        arguments: [
            ("untrusted", "unable to get local issuer certificate"), ("expired", "certificate has expired"),
            ("wrong-name", "IP address mismatch"),
        ])
    func unproven(certificate: String, reason: String) async throws {
        try await Rig.run(.idle, simulator: ["--certificate", certificate]) { rig in
            try rig.addDevices(1...5)
            try rig.addSingles(1...5)
            let worker = try rig.worker("--lanes", "1", "--poll-interval", "1")
            try await worker.logs("was not accepted: \(reason)")
            try await expectPatience(rig, worker, rows: 5)
            #expect(try await rig.simulator.counts().opened == 0, "no handshake came to its end")
            try await expectRecovery(rig, worker, rows: 5)
        }
    }

    @Test("F06: verification cannot be switched off; without a bundle of one's own the system's is meant")
    func neverOff() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...5)
            try rig.addSingles(1...5)
            // What people try: nothing, words for no, the switches of other programs.
            let attempts = [
                ["APNS_CA_PATH": ""], ["APNS_CA_PATH": "none"], ["APNS_CA_PATH": "/dev/null"],
                ["APNS_CA_PATH": "", "NODE_TLS_REJECT_UNAUTHORIZED": "0", "SSL_VERIFY": "0", "PGSSLMODE": "disable"],
            ]
            for (place, variables) in attempts.enumerated() {
                let isStarted = variables["APNS_CA_PATH"] == ""
                let worker = try rig.worker("--lanes", "1", more: variables)
                if isStarted {
                    try await worker.logs("was not accepted")
                    try await worker.stop()
                } else {
                    #expect(try await worker.exitCode() == 4, "\(place)")
                }
            }
            #expect(try await rig.simulator.counts().opened == 0)
            #expect(
                try rig.database.number("SELECT count(*) FROM scheduled_notifications WHERE status = 'pending'") == 5)
            try rig.expectNothingCharged()

            try await rig.drain()
            expectEachOnce(try rig.simulator.journal(), 5)
            try await rig.allSinglesSent(5)
        }
    }

    @Test(
        "F07: a gateway that hangs up on a writer kills nobody: all is sent, and the end is in order",
        arguments: ["close", "abort", "finish", "alert"])
    func hungUpOn(end: String) async throws {
        let weather = ["--\(end)-after", "10", "--stream-limit", "5", "--latency-ms", "10"]
        try await Rig.run(simulator: weather) { rig in
            try rig.addDevices(1...100)
            try rig.addSingles(1...100)
            let worker = try rig.worker("--lanes", "1", "--connections", "2", "--poll-interval", "1")
            // What was in flight is repeated within seconds.
            try await rig.allSinglesSent(100, within: .seconds(240))
            #expect(worker.isRunning)
            // And once more while the worker is about to say goodbye.
            try await rig.simulator.control(end)
            try await worker.stop()

            let journal = try rig.simulator.journal()
            #expect(Set(journal.acceptedTokens).count == 100)
            expectSameIDs(journal)
            #expect(journal.connections.filter { $0.event == "closed" }.count >= 10)
            try rig.expectNobodyHarmed()
        }
    }

    /// However often a device was pushed to, it was always under one id.
    private func expectSameIDs(_ journal: SimulatorJournal) {
        let byToken = Dictionary(grouping: journal.requests, by: \.token)
        for (token, requests) in byToken { #expect(Set(requests.map(\.apnsId)).count == 1, "\(token ?? "")") }
    }

    @Test("F07: a gateway that hangs up in the TLS handshake kills nobody")
    func hungUpOnInHandshake() async throws {
        try await Rig.run(.idle, simulator: ["--admission", "cut"]) { rig in
            try rig.addDevices(1...10)
            try rig.addSingles(1...10)
            let worker = try rig.worker("--lanes", "1", "--poll-interval", "1")
            try await worker.logs("during the TLS handshake")
            try await rig.simulator.wait(for: .knocks, atLeast: 4)
            try await expectRecovery(rig, worker, rows: 10)
        }
    }

    @Test("F07: a database that hangs up on a writer kills nobody, by RST or in order")
    func databaseHangsUp() async throws {
        try await Rig.run(simulator: ["--latency-ms", "50"]) { rig in
            try rig.addDevices(1...120)
            let (proxy, variables) = try rig.databaseProxy()
            defer { proxy.close() }
            let worker = try rig.worker("--lanes", "1", "--poll-interval", "1", more: variables)
            try await worker.hasStarted()
            for round in 0..<6 {
                try rig.addSingles(round * 20 + 1...round * 20 + 20)
                try await rig.simulator.wait(for: .requests, atLeast: round * 20 + 1)
                if round % 2 == 0 { proxy.reset() } else { try terminateSessions(rig) }
                try await rig.allSinglesSent(round * 20 + 20, within: .seconds(180))
            }
            proxy.reset()
            try await worker.stop()
            expectEachOnce(try rig.simulator.journal(), 120)
            try rig.expectNothingCharged()
        }
    }

    private func terminateSessions(_ rig: Rig) throws {
        try rig.psql(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name LIKE 'pgpush%'
            """)
    }

    @Test(
        "F08: a peer that does not speak HTTP/2, or never answers the handshake, is named; rows wait",
        arguments: [
            (["--alpn", "none"], "does not agree to speak HTTP/2"),
            (["--alpn", "http/1.1"], "does not agree to speak HTTP/2"),
            (["--admission", "silent"], "no TLS handshake with"),
        ])
    func otherTongues(weather: [String], reason: String) async throws {
        try await Rig.run(.idle, simulator: weather) { rig in
            try rig.addDevices(1...3)
            try rig.addSingles(1...3)
            let worker = try rig.worker("--lanes", "1", "--poll-interval", "1")
            try await worker.logs(reason)
            try await expectPatience(rig, worker, rows: 3)
            try await expectRecovery(rig, worker, rows: 3)
        }
    }
}
