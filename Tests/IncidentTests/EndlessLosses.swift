// Section "operations": a day in small. Connections are lost in every way there is, the database restarts again and again, and the
// worker holds no more at the end than at the beginning.

import Foundation
import TestSupport
import Testing

@Suite("A day in small") struct EndlessLosses {
    /// Ways for the gateway to end a connection after 20 requests; `mute` is the black hole, which takes the longest to be found.
    private static let ends = ["mute", "goaway", "abort", "alert"]
    private static let rounds = 2
    private static let lossesInRound = 25

    @Test(
        "F35: 200 lost connections and 20 restarts of the database leave descriptors, threads and memory where they were"
    )
    func losses() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        // One stream, so that a lost connection takes one push with it, and a connection lives for two seconds.
        let weather = ["--stream-limit", "1", "--latency-ms", "100", "--journal-body", "none"]
        try await Rig.run(.idle, cluster: cluster, simulator: weather) { rig in
            let devices = 40_000
            try rig.addDevices(1...devices)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--lanes", "2", "--connections", "16", "--poll-interval", "5")
            // The first of each kind are there to fill caches and arenas.
            for end in Self.ends { try await lose(6, by: end, rig) { try restart(rig) } }
            let before = try await calmReading(rig, worker)
            let (lost, start) = (try await rig.simulator.counts().closed, ContinuousClock.now)

            var readings: [ProcessReading] = []
            for round in 0..<Self.rounds * Self.ends.count {
                // 20 restarts in 8 rounds, in turn in order and as in a crash, while connections are being lost.
                let restarts = (round + 1) * 20 / 8 - round * 20 / 8
                try await lose(Self.lossesInRound, by: Self.ends[round % Self.ends.count], rig) {
                    for place in 0..<restarts { try restart(rig, place % 2 == 0 ? .fast : .immediate) }
                }
                readings.append(try worker.reading())
            }
            let counts = try await rig.simulator.counts()
            #expect(counts.closed - lost >= 200)
            try expectSpacing(counts.knocks, ContinuousClock.now - start)

            let after = try await calmReading(rig, worker)
            expectNoTrend(before, readings, after)
            try await expectAllSent(rig, id, devices)
            #expect(worker.isRunning)
            try await worker.stop()
        }
    }

    /// Has connections end in one way until so many have, and does something else meanwhile.
    private func lose(_ count: Int, by end: String, _ rig: Rig, _ meanwhile: () throws -> Void) async throws {
        let closed = try await rig.simulator.counts().closed
        try await rig.simulator.set("\(end)-after", 20)
        try meanwhile()
        try await rig.simulator.wait(for: .closed, atLeast: closed + count, within: .seconds(300))
        try await rig.simulator.set("\(end)-after", 0)
    }

    private func restart(_ rig: Rig, _ mode: PostgresCluster.StopMode = .fast) throws {
        try rig.database.cluster.stop(mode)
        try rig.database.cluster.start()
        // The session of the test has ended with the server; the next one is new.
        _ = try? rig.psql("SELECT")
    }

    /// What the worker holds when its connections are left in peace and the database is back: it keeps on sending meanwhile.
    private func calmReading(_ rig: Rig, _ worker: WorkerProcess) async throws -> ProcessReading {
        try await rig.listeners(1)
        let answered = try await rig.simulator.counts().answered
        // The black holes were given up some rounds ago; the connections that are there now carry all this.
        try await rig.simulator.wait(for: .answered, atLeast: answered + 800, within: .seconds(300))
        return try worker.reading()
    }

    private func expectSpacing(_ knocks: Int, _ time: Duration) throws {
        // Two lanes: 40 at once and 4 a second each, and as much for what came before.
        let most = 2 * (40 + 4 * Int(time.components.seconds + 60))
        #expect(knocks <= most, "\(knocks) connections in \(time)")
    }

    private func expectNoTrend(_ before: ProcessReading, _ readings: [ProcessReading], _ after: ProcessReading) {
        let all = readings.map(\.description).joined(separator: "\n")
        #expect(after.threads <= before.threads, "\(before)\n\(all)\n\(after)")
        #expect(after.descriptors <= before.descriptors + 2, "\(before)\n\(all)\n\(after)")
        // A thousand losses cost less than one megabyte and then nothing more: what the allocator keeps.
        #expect(Sanitizer.isOn || after.anonymous <= before.anonymous + 4_000, "\(before)\n\(all)\n\(after)")
        for reading in readings {
            // Twice the pool and two, for those that are being replaced.
            #expect(reading.sockets <= 2 * (2 * 8 + 2) + 16, "\(reading)")
        }
    }

    /// Whatever was lost with its connection came again: nobody is missing.
    private func expectAllSent(_ rig: Rig, _ id: Int, _ devices: Int) async throws {
        try await rig.simulator.set("stream-limit", 1000)
        try await rig.simulator.set("latency-ms", 0)
        try await rig.status(of: id, is: "sent", within: .seconds(300))
        #expect(try rig.row(id) == NotificationRow("sent", devices, accepted: devices))
        #expect(try await rig.simulator.counts().distinctAccepted == devices)
        try rig.expectNobodyHarmed()
    }
}
