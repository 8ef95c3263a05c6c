// Four things that operators ask about, each with its figures: a worker that is killed again and again, a database that goes away
// for a moment or for long, a broadcast that is cancelled.

import TestSupport
import Testing

@Suite("A broadcast") struct WhatItShows {
    private func field(
        devices: Int, replicas: Int = 1, streams: Int, _ body: (Field) async throws -> Void
    ) async throws {
        let weather = ["--latency-ms", "100", "--stream-limit", "\(streams)"]
        try await Field.run(replicas: replicas, simulator: weather) { field in
            var random = SeededGenerator(seed: 1)
            try field.register(Workload(&random, devices: devices, length: .zero, isPlain: true))
            for replica in field.replicas { try replica.start() }
            for replica in field.replicas { try await replica.worker?.hasStarted(within: .seconds(60)) }
            try await body(field)
        }
    }

    @Test("to 20,000 whose worker is killed three times: nobody is missed, few are repeated, and it ends in time")
    func killedThreeTimes() async throws {
        try await field(devices: 20_408, streams: 20) { field in
            let id = try field.broadcast()
            var last = 0.0
            for count in [3000, 8000, 13_000] {
                try await field.rig.simulator.wait(for: .accepted, atLeast: count, within: .seconds(240))
                last = Clock.now
                await field.strikeDown(field.replicas[0])
                try field.replicas[0].start()
            }
            try await field.ends(id, within: .seconds(240))
            let took = Clock.now - last
            try await field.replicas[0].stop()
            let violations = try field.judge { $0.health.checkpointWindow = Self.checkpointWindow }
            #expect(violations.map(\.description) == [])
            let counts = try await field.rig.simulator.counts()
            Scenario.say(
                "killed three times: \(counts.repeatedAccepted) of 20,000 repeated, over \(took) s after the last")
            #expect(counts.distinctAccepted == 20_000)
            #expect(try field.rig.row(id) == NotificationRow("sent", 20_000, accepted: 20_000))
            // Lease, grace, 15 s; and something for a machine that does much else.
            #expect(took < 75 + 15 + 15 + 60)
        }
    }

    /// A checkpoint each second, and the time a busy machine takes to write it.
    private static let checkpointWindow = 10.0

    @Test("to 15,000 whose database is stopped at once for 5 s, twice: nobody is missed, nobody gets it twice")
    func databaseAwayTwice() async throws {
        try await field(devices: 15_306, streams: 20) { field in
            let id = try field.broadcast()
            for count in [2000, 8000] {
                try await field.rig.simulator.wait(for: .accepted, atLeast: count, within: .seconds(240))
                try await ServerStopped(mode: .immediate, lasts: .seconds(5)).strike(field)
            }
            try await field.ends(id, within: .seconds(240))
            try await field.replicas[0].stop()
            #expect(try field.judge().map(\.description) == [])
            let counts = try await field.rig.simulator.counts()
            #expect(counts.distinctAccepted == 15_000 && counts.repeatedAccepted == 0 && counts.requests == 15_000)
            #expect(try field.rig.row(id) == NotificationRow("sent", 15_000, accepted: 15_000))
        }
    }

    @Test(
        "whose database is away for two lease times is taken over by nobody, repeated for nobody, and ends",
        .enabled(if: RandomScenarios.Wish.minutes != nil))
    func databaseAwayForLong() async throws {
        try await field(devices: 15_306, replicas: 3, streams: 5) { field in
            let id = try field.broadcast()
            try await field.rig.simulator.wait(for: .accepted, atLeast: 2000, within: .seconds(240))
            try await ServerStopped(mode: .immediate, lasts: .seconds(150)).strike(field)
            try await field.ends(id, within: .seconds(240))
            for replica in field.replicas { try await replica.stop() }
            #expect(try field.judge().map(\.description) == [])
            let counts = try await field.rig.simulator.counts()
            #expect(counts.distinctAccepted == 15_000 && counts.repeatedAccepted == 0)
            // Whoever takes a batch over raises its epoch.
            let taken = try field.rig.psql(
                "SELECT batch_no FROM notification_batches WHERE after_id IS NOT NULL AND epoch > 1")
            #expect(taken.isEmpty, "\(taken.count) of the batches were taken over")
        }
    }

    @Test("to 20,000 that is cancelled in the middle ends at once, and its counts are the journal's, to the device")
    func cancelled() async throws {
        try await field(devices: 20_408, replicas: 3, streams: 10) { field in
            let id = try field.broadcast()
            try await field.rig.simulator.wait(for: .accepted, atLeast: 3000, within: .seconds(240))
            let cancel = try #require(try await field.cancel(id))
            #expect(cancel.answer == "cancelling")
            field.record { $0.cancels[0].isHeard = true }
            try await field.rig.status(of: id, is: "cancelled", within: .seconds(60))
            for replica in field.replicas { try await replica.stop() }
            #expect(try field.judge().map(\.description) == [])
            let counts = try await field.rig.simulator.counts()
            let row = try #require(try field.rig.row(id))
            #expect(row.counts[1...] == [counts.accepted, 0, 0] && counts.repeatedAccepted == 0)
            #expect(counts.accepted < 18_000 && row.hasCancelTime && !row.hasSentTime)
        }
    }
}

extension Field {
    /// Waits until a notification is finished, whatever becomes of the database meanwhile.
    fileprivate func ends(_ id: Int, within limit: Duration) async throws {
        try await until("notification \(id) is finished", within: limit) {
            try await insist("SELECT finished_at IS NOT NULL FROM scheduled_notifications WHERE id = \(id)").first?
                .first == "t"
        }
    }
}
