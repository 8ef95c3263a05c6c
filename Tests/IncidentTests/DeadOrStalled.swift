// Section "h2 dead or stalled": streams without an answer, connections that are gone and do not say so.

import TestSupport
import Testing

@Suite("Connections that die or stall") struct DeadOrStalled {
    private func register(_ user: String, _ token: String, _ rig: Rig) throws {
        try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(user)', '\(token)')")
    }

    /// Two requests take the two connections of the pool for themselves, the very first ones or later.
    @Test(
        "F03: two requests that are never answered hold up nobody, and end by their deadline", arguments: [true, false])
    func neverAnswered(fromTheStart: Bool) async throws {
        try await Rig.run(.idle) { rig in
            let (again, once) = (DeviceTokens.magic("01aa", 1), DeviceTokens.magic("00aa", 2))
            try rig.addDevices(1...101)
            try register("again", again, rig)
            try register("once", once, rig)
            let worker = try rig.worker("--lanes", "1", "--connections", "2")
            try await rig.listeners(1)
            if !fromTheStart {
                try rig.addSingles(101...101)
                try await rig.allSinglesSent(1)
            }
            let first = try rig.insert("user_id, body", "'again', 'x'")
            let second = try rig.insert("user_id, body, delivery", "'once', 'x', 'at_most_once'")
            try await rig.simulator.wait(for: .held, atLeast: 2)
            try rig.addSingles(1...100)

            // The first is tried again and accepted; the other may have arrived, and is not.
            try await rig.status(of: first, is: "sent")
            try await rig.status(of: second, is: "failed")
            #expect(try rig.row(second) == NotificationRow("failed", 1, unknown: 1, error: "NoAnswer"))
            let ledger = "SELECT reason, http_status, is_final FROM delivery_failures WHERE device_token = "
            #expect(try rig.psql(ledger + "'\(again)'") == [["NoAnswer", nil, "f"]])
            #expect(try rig.psql(ledger + "'\(once)'") == [["NoAnswer", nil, "t"]])
            try await rig.allSinglesSent(fromTheStart ? 101 : 102)
            #expect(worker.isRunning)
            try await worker.stop()

            let journal = try rig.simulator.journal()
            try expectOvertaken(journal.requests(for: again)[0], in: journal)
            try expectOvertaken(journal.requests(for: once)[0], in: journal)
            #expect(journal.requests(for: again).map(\.isAccepted) == [false, true])
            #expect(Set(journal.requests(for: again).map(\.apnsId)).count == 1)
            #expect(journal.requests(for: once).count == 1)
        }
    }

    /// It was reset by the sender in good time, and a hundred others were accepted before.
    private func expectOvertaken(_ request: SimulatedRequest, in journal: SimulatorJournal) throws {
        #expect(request.outcome == "abandoned" && request.code == 8, "its stream was reset with CANCEL")
        #expect(request.mono - request.received <= 30_000_000_000)
        #expect(journal.accepted.filter { $0.mono < request.mono }.count >= 100)
    }

    @Test(
        "F04: a connection that ends while it is idle is noticed, and the next row goes over another",
        arguments: ["abort", "finish", "close", "alert"])
    func idleEnd(end: String) async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...2)
            let worker = try rig.worker("--lanes", "1")
            try await rig.listeners(1)
            let first = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: first, is: "sent")
            try await rig.simulator.control(end)
            try await worker.logs("connection lost")
            let second = try rig.insert("user_id, body", "'user-2', 'x'")
            try await rig.status(of: second, is: "sent")
            try await worker.stop()
            let requests = try rig.simulator.journal().requests
            #expect(requests.map(\.isAccepted) == [true, true])
            #expect(requests.map(\.connection) == [1, 2])
            try rig.expectNothingCharged()
        }
    }

    @Test("F04: a connection that is reset in the middle of an answer's headers leaves no row behind")
    func endInHeaders() async throws {
        try await Rig.run(.idle) { rig in
            let token = DeviceTokens.magic("05cc")
            try rig.addDevices(1...1)
            try register("cut", token, rig)
            let worker = try rig.worker("--lanes", "1")
            try await rig.listeners(1)
            let first = try rig.insert("user_id, body", "'cut', 'x'")
            // Nobody knows whether it arrived: it comes again by itself.
            try await rig.status(of: first, is: "sent")
            try await worker.logs("connection lost")
            let second = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: second, is: "sent")
            try await worker.stop()
            let requests = try rig.simulator.journal().requests(for: token)
            #expect(requests.map(\.outcome) == ["cut off", "answered"])
            #expect(Set(requests.map(\.apnsId)).count == 1 && Set(requests.map(\.connection)).count == 2)
            #expect(try rig.psql("SELECT reason, is_final FROM delivery_failures") == [["ConnectionLost", "f"]])
            try rig.expectNobodyHarmed()
        }
    }

    @Test(
        "F05: a connection that swallows everything is found by PING, and what it held goes out in well under a minute")
    func swallowed() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...11)
            let (proxy, variables) = try rig.productionProxy()
            defer { proxy.close() }
            let worker = try rig.worker("--lanes", "1", more: variables)
            try await rig.listeners(1)
            try rig.addSingles(11...11)
            try await rig.allSinglesSent(1)
            proxy.freezeOpen()
            try rig.addSingles(1...10)
            try await rig.allSinglesSent(11, within: .seconds(90))
            try await worker.logs("did not answer a PING")
            #expect(proxy.accepted == 2 && worker.isRunning)
            try await worker.stop()
            let journal = try rig.simulator.journal()
            expectEachOnce(journal, 11)
            #expect(Set(journal.requests.map(\.connection)) == [1, 2])
            try rig.expectNobodyHarmed()
        }
    }
}
