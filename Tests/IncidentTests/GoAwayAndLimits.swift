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
            // What was on its way when GOAWAY was: no more than the streams, and nothing much later.
            let late = own.filter { $0.attempt == 0 }
            let latest = late.map(\.received).max() ?? 0
            #expect(late.count <= 10 && latest < farewell.mono + 20_000_000_000)
            // Its last stream is the highest that had come by then.
            #expect((20...30).contains(own.filter(\.isAccepted).count), "what it had taken was answered")
            let end = journal.connections.first { $0.event == "closed" && $0.connection == farewell.connection }
            #expect(end?.cause == "the sender, or its breach of HTTP/2")
        }
        let first = try #require(farewells.first?.mono)
        let last = try #require(journal.requests.map(\.mono).max())
        #expect(last - first < 29_000_000_000, "half a minute is what the incident was about")
    }

    /// One stream, then 500, then one again after a 400, with streams in flight beyond it refused; and so on.
    @Test("F02: the limit moves 1, 500, 1, 500; what is beyond it waits or comes again, and each device has one 200")
    func movingLimit() async throws {
        let weather = ["--stream-limit", "500", "--latency-ms", "2000", "--refuse-in-flight", "on"]
        try await Rig.run(simulator: weather) { rig in
            try rig.addDevices(1...250)
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('bad', '\(DeviceTokens.magic("0400"))')")
            try rig.addDevices(251...500)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--lanes", "1", "--connections", "1")
            try await rig.status(of: id, is: "sent")
            try await worker.stop()

            #expect(try rig.row(id) == NotificationRow("sent", 501, accepted: 500, rejected: 1))
            let journal = try rig.simulator.journal()
            #expect(journal.accepted.count == 500 && Set(journal.acceptedTokens).count == 500)
            let refused = journal.requests.filter { $0.outcome == "refused" }
            #expect(refused.count >= 100, "so many were in flight when the limit fell")
            // A client that opens more than it may gets GOAWAY, as RFC 9113 wants it: it never did.
            // One that seems silent on a busy machine is replaced; nothing more.
            #expect(journal.connections.filter { $0.event == "opened" }.count <= 2)
            #expect(journal.connections.filter { $0.event == "goaway" }.isEmpty)
            // To be refused counts neither as an answer nor as an attempt.
            let ledger = try rig.psql("SELECT http_status, reason FROM delivery_failures")
            #expect(ledger == [["400", "BadDeviceToken"]])
            #expect(try rig.database.number("SELECT count(*) FROM notification_batches WHERE attempts > 1") == 0)
        }
    }

    @Test("F02: a limit of 0 for two seconds strands nobody, and nobody runs in circles meanwhile")
    func noStreams() async throws {
        try await Rig.run(.idle, simulator: ["--stream-limit", "10", "--latency-ms", "20"]) { rig in
            try rig.addDevices(1...500)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--lanes", "1", "--connections", "1")
            try await rig.simulator.wait(for: .accepted, atLeast: 50)
            try await rig.simulator.set("stream-limit", 0)
            // Those that were on their way are let in or refused.
            try await quiet(rig)
            let before = try worker.processorTime()
            try await expectNoMore(rig, .seconds(2))
            #expect(try worker.processorTime() - before < .milliseconds(700))
            try await rig.simulator.set("stream-limit", 100)
            try await rig.status(of: id, is: "sent")
            try await worker.stop()
            #expect(try rig.row(id) == NotificationRow("sent", 500, accepted: 500))
            let counts = try await rig.simulator.counts()
            #expect(counts.distinctAccepted == 500 && counts.repeatedAccepted == 0)
            // One that seems silent on a busy machine is replaced; nothing more.
            #expect(counts.opened <= 4)
            try rig.expectNothingCharged()
        }
    }

    /// Waits until a second has passed without a request; at most half a minute.
    private func quiet(_ rig: Rig) async throws {
        for _ in 1...30 {
            let seen = try await rig.simulator.counts().requests
            let next = try? await rig.simulator.wait(for: .requests, atLeast: seen + 1, within: .seconds(1))
            if next == nil { return }
        }
    }

    /// Hardly a request comes within this time: one alone tries another connection, which is refused as well.
    private func expectNoMore(_ rig: Rig, _ time: Duration) async throws {
        let seen = try await rig.simulator.counts().requests
        let some = try? await rig.simulator.wait(for: .requests, atLeast: seen + 3, within: time)
        #expect(some == nil)
    }
}
