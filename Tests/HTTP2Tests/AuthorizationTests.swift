// Apple refuses what changes its provider token too often on one connection: one that took its authorization up a short while ago is
// replaced, and does not change it.

import HTTP2
import Reactor
import Testing

@Suite("A change of the authorization")
struct AuthorizationTests {
    private let second = HTTP2SharedValue("bearer second")

    @Test("within the hold replaces the connection; what is on it finishes there, and nothing is sent again")
    func within() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.authorizationHold = .seconds(3600) }
            defer { rig.close() }
            var waiting: (HTTP2ServerRequest, HTTP2ServerConnection)?
            rig.handler.script = { request, connection in
                if request[":path"] == "/3/device/2" {
                    waiting = (request, connection)
                } else {
                    ok(request, connection)
                }
            }
            rig.submit(1, timeout: .seconds(60))
            #expect(await rig.recorder.wait(for: 1))
            rig.submit(2, timeout: .seconds(60))
            #expect(await eventually(actor.loop, .seconds(20)) { waiting != nil })
            rig.authorization.authorization = second
            rig.submit(3...40, timeout: .seconds(60))
            #expect(await rig.recorder.wait(for: 39, .seconds(30)))
            #expect(rig.handler.closed == 0, "one request waits on it")
            let (request, connection) = try #require(waiting)
            ok(request, connection)
            #expect(await rig.recorder.wait(for: 40, .seconds(30)))
            #expect(rig.recorder.statuses() == [200: 40] && rig.recorder.endedTwice == [])
            #expect(await eventually(actor.loop, .seconds(20)) { rig.handler.closed == 1 })
            #expect(rig.pool.snapshot.resent == 0 && rig.handler.opened.count == 2)
            for seen in rig.handler.seen {
                let old = ["/3/device/1", "/3/device/2"].contains(seen.path)
                #expect(seen.connection == (old ? 1 : 2), "\(seen.path)")
                #expect(seen.request["authorization"] == (old ? "bearer test.token" : "bearer second"))
            }
        }
    }

    @Test("and back again is a change like any other: three connections, each with one value")
    func back() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.authorizationHold = .seconds(3600) }
            defer { rig.close() }
            let first = rig.authorization.authorization
            for (round, value) in [first, second, first].enumerated() {
                rig.authorization.authorization = value
                rig.submit(UInt64(round * 10 + 1)...UInt64(round * 10 + 10), timeout: .seconds(60))
                #expect(await rig.recorder.wait(for: round * 10 + 10, .seconds(30)))
            }
            let byConnection = Dictionary(grouping: rig.handler.seen, by: \.connection)
            #expect(byConnection.keys.sorted() == [1, 2, 3])
            #expect(byConnection.values.allSatisfy { Set($0.map { $0.request["authorization"] }).count == 1 })
        }
    }

    @Test("the same value again, or none for a while, is no change")
    func same() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.authorizationHold = .seconds(3600) }
            defer { rig.close() }
            let first = rig.authorization.authorization
            rig.submit(1, timeout: .seconds(60))
            #expect(await rig.recorder.wait(for: 1))
            rig.authorization.authorization = nil
            rig.submit(2, timeout: .seconds(60))
            await pause(actor.loop, .milliseconds(30))
            rig.authorization.authorization = first
            rig.pool.authorizationChanged()
            #expect(await rig.recorder.wait(for: 2, .seconds(30)))
            #expect(rig.handler.opened.count == 1)
        }
    }

    @Test("after the hold it shows on the same connection")
    func after() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.authorizationHold = .milliseconds(10) }
            defer { rig.close() }
            rig.submit(1, timeout: .seconds(60))
            #expect(await rig.recorder.wait(for: 1))
            await pause(actor.loop, .milliseconds(20))
            rig.authorization.authorization = second
            rig.submit(2, timeout: .seconds(60))
            #expect(await rig.recorder.wait(for: 2, .seconds(30)))
            #expect(rig.handler.opened.count == 1)
            #expect(rig.handler.seen.map { $0.request["authorization"] } == ["bearer test.token", "bearer second"])
        }
    }
}
