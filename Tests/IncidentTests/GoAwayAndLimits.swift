// Section "h2 goaway streams": a gateway that goes away, and stream limits that move, met by whole processes.

import TestSupport
import Testing

@Suite("GOAWAY and streams") struct GoAwayAndLimits {
    /// The gateway answers 20 requests of a connection, says GOAWAY, and leaves the socket open without another word.
    @Test("F01: a connection that goes away is left at once; 200 rows go out, each once", arguments: [1, 2])
    func lingering(connections: Int) async throws {
        let weather = ["--goaway-after", "20", "--goaway-then", "linger", "--stream-limit", "10", "--latency-ms", "20"]
        try await Rig.run(simulator: weather) { rig in
            try rig.addDevices(1...200)
            try rig.addSingles(1...200)
            let worker = try rig.worker("--lanes", "1", "--connections", "\(connections)")
            try await rig.allSinglesSent(200)
            // Everybody but the last ones has been told to go, and has hung up: the gateway never does.
            try await rig.simulator.wait(for: .closed, atLeast: 200 / 30 - connections)
            try await worker.stop()

            let journal = try rig.simulator.journal()
            expectEachOnce(journal, 200)
            try expectLeft(journal, atLeast: 200 / 30 - connections)
            // No attempt was charged: nothing waits for another time, nothing stands in the ledger.
            try rig.expectNothingCharged()
        }
    }

    private func expectLeft(_ journal: SimulatorJournal, atLeast count: Int) throws {
        let farewells = journal.connections.filter { $0.event == "goaway" }
        #expect(farewells.count >= count)
        for farewell in farewells {
            let own = journal.requests.filter { $0.connection == farewell.connection }
            // What was on its way when GOAWAY was: no more than the streams, and nothing a second later.
            let late = own.filter { $0.attempt == 0 }
            let latest = late.map(\.received).max() ?? 0
            #expect(late.count <= 10 && latest < farewell.mono + 1_000_000_000)
            // Its last stream is the highest that had come by then.
            #expect((20...30).contains(own.filter(\.isAccepted).count), "what it had taken was answered")
            let end = journal.connections.first { $0.event == "closed" && $0.connection == farewell.connection }
            #expect(end?.cause == "the sender, or its breach of HTTP/2")
        }
        let first = try #require(farewells.first?.mono)
        let last = try #require(journal.requests.map(\.mono).max())
        #expect(last - first < 15_000_000_000, "half a minute is what the incident was about")
    }
}
