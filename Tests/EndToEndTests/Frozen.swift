// A worker that is stopped for longer than its leases last, and goes on afterwards as if nothing had happened.

import Foundation
import TestSupport
import Testing

@Suite("A worker that is frozen past its leases") struct Frozen {
    @Test("starts nothing when it wakes: another one has done its work")
    func pastTheLease() async throws {
        // Few streams and slow answers: most of what is leased waits in the worker, for a stream or for its turn.
        let simulator = ["--first-limit", "10", "--stream-limit", "10", "--latency-ms", "500"]
        try await Rig.run(.idle, simulator: simulator) { rig in
            try rig.addDevices(1...2000)
            let all = try rig.insert("broadcast, body", "true, 'all'")
            let frozen = try rig.worker("--lanes", "1", "--connections", "1")
            try await rig.simulator.wait(for: .accepted, atLeast: 40)
            frozen.signal(SIGSTOP)
            let leased = try rig.database.number("SELECT count(*) FROM notification_batches WHERE state = 'leased'")
            #expect(leased > 0)
            let booked = try rig.database.number("SELECT sum(accepted_count) FROM notification_batches")
            try await rig.simulator.control("answer-held")
            try await rig.simulator.control("calm")
            // What was in its socket has arrived by now.
            let arrived = try await rig.simulator.counts().requests
            try await rig.simulator.set("stream-limit", 1000)
            let other = try rig.worker("--lanes", "1")
            try await rig.status(of: all, is: "sent", within: .seconds(300))
            let before = try rig.simulator.journal().requests.count
            frozen.signal(SIGCONT)
            // It notices: its results are refused, its leases are somebody else's.
            try await frozen.logs("leases were lost")
            try await frozen.stop()
            try await other.stop()
            let journal = try rig.simulator.journal()
            // Requests that were under way have ended since; none has come.
            let lateComers = journal.requests.dropFirst(before).filter { $0.outcome == "answered" }
            #expect(lateComers.isEmpty, "\(lateComers.count) requests after it woke")
            let ids = journal.accepted.compactMap(\.apnsId)
            #expect(Set(ids).count == 2000)
            // What was on the wire, and what had been answered since it last wrote down how far it was.
            #expect(ids.count - 2000 <= arrived - booked, "\(arrived) had arrived, \(booked) were booked")
            #expect(try rig.row(all) == NotificationRow("sent", 2000, accepted: 2000))
        }
    }
}
