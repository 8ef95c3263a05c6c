// Section "provider jwt clock": one provider token for all connections, renewed in time, and exactly once when Apple wants it.

import TestSupport
import Testing

@Suite("Provider tokens") struct ProviderTokens {
    /// The gateway counts token changes for all its connections together and refuses the second within 20 minutes.
    @Test("F09: one token serves four connections and survives five reconnections")
    func oneToken() async throws {
        let weather = ["--token-change-shared", "on", "--stream-limit", "10", "--latency-ms", "1000"]
        try await Rig.run(.heavy, simulator: weather) { rig in
            try rig.addDevices(1...1000)
            try rig.addSingles(1...1000)
            let worker = try rig.worker("--lanes", "2", "--connections", "4")
            for round in 1...5 {
                try await rig.simulator.wait(for: .accepted, atLeast: round * 50)
                try await rig.simulator.control("goaway")
            }
            try await rig.simulator.set("latency-ms", 20)
            try await rig.allSinglesSent(1000, within: .seconds(180))
            try await worker.stop()
            let journal = try rig.simulator.journal()
            expectEachOnce(journal, 1000)
            #expect(Set(journal.requests.compactMap(\.authorization)).count == 1)
            #expect(journal.connections.filter { $0.event == "opened" }.count >= 5 + 2)
            try rig.expectNothingCharged()
        }
    }

    @Test("F09: TooManyProviderTokenUpdates makes no other token: sending rests, no row fails, and it goes on later")
    func tooManyUpdates() async throws {
        try await Rig.run(.idle, simulator: ["--stream-limit", "10", "--latency-ms", "20"]) { rig in
            try rig.addDevices(1...51)
            let worker = try rig.worker("--lanes", "2", "--poll-interval", "1")
            try await rig.listeners(1)
            try rig.addSingles(51...51)
            try await rig.allSinglesSent(1)
            try await rig.simulator.set("answer-all", "429:TooManyProviderTokenUpdates")
            try rig.addSingles(1...50)
            try await worker.logs("sending is paused")
            try await rig.eventually("SELECT count(*) FROM app_pauses", is: "1")
            // Those in flight on two lanes, and once more one of each; then nothing.
            let tries = try await rig.simulator.counts().requests
            let more = try? await rig.simulator.wait(for: .requests, atLeast: max(tries + 1, 60), within: .seconds(3))
            #expect(more == nil, "\(tries) requests, then \(more ?? 0)")
            try rig.expectNobodyHarmed()

            try await rig.simulator.control("calm")
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.allSinglesSent(51, within: .seconds(180))
            try await worker.stop()
            let journal = try rig.simulator.journal()
            #expect(journal.accepted.count == 51 && Set(journal.acceptedTokens).count == 51)
            #expect(Set(journal.requests.compactMap(\.authorization)).count == 1)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)
            try rig.expectNobodyHarmed()
        }
    }

    @Test("F10: ExpiredProviderToken for fifty requests in flight makes one new token, and all fifty are sent")
    func expired() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...51)
            // One lane, whose connection has proved itself: all fifty are on the way when the first is refused.
            let worker = try rig.worker("--lanes", "1")
            try await rig.listeners(1)
            try rig.addSingles(51...51)
            try await rig.allSinglesSent(1)
            try await rig.simulator.set("latency-ms", 500)
            try await rig.simulator.control("expire-tokens")
            try rig.addSingles(1...50)
            try await rig.allSinglesSent(51)
            try await worker.stop()
            try expectOneRenewal(try rig.simulator.journal())
            try rig.expectNothingCharged()
        }
    }

    private func expectOneRenewal(_ journal: SimulatorJournal) throws {
        #expect(journal.accepted.count == 51 && Set(journal.acceptedTokens).count == 51)
        let refused = journal.requests.filter { $0.status == 403 }
        #expect(refused.count >= 10, "so many were in flight")
        #expect(refused.allSatisfy { $0.reason == "ExpiredProviderToken" })
        let tokens = journal.requests.sorted { $0.received < $1.received }.compactMap(\.authorization)
        #expect(Set(tokens).count == 2)
        #expect(Set(refused.compactMap(\.authorization)) == [tokens[0]], "the new one was never refused")
    }

    @Test("F10: with a clock that is an hour wrong one more token is tried, not many; rows wait until it is put right")
    func wrongClock() async throws {
        try await Rig.run(.idle, simulator: ["--clock-offset-s", "4000"]) { rig in
            try rig.addDevices(1...50)
            let worker = try rig.worker("--lanes", "2", "--poll-interval", "1")
            try rig.addSingles(1...50)
            try await worker.logs("sending is paused")
            try await rig.eventually("SELECT count(*) FROM app_pauses WHERE reason = 'ExpiredProviderToken'", is: "1")
            try rig.expectNobodyHarmed()
            #expect(Set(try rig.simulator.journal().requests.compactMap(\.authorization)).count <= 2)

            try await rig.simulator.set("clock-offset-s", 0)
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.allSinglesSent(50, within: .seconds(180))
            try await worker.stop()
            let journal = try rig.simulator.journal()
            #expect(journal.accepted.count == 50 && Set(journal.acceptedTokens).count == 50)
            #expect(Set(journal.requests.compactMap(\.authorization)).count == 2)
            #expect(journal.requests.count <= 110, "no siege meanwhile")
        }
    }
}
