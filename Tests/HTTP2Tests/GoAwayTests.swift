// F01, F02: a peer that goes away, and a stream limit that moves.

import HTTP2
import Reactor
import Testing

@Suite("GOAWAY and stream limits")
struct GoAwayTests {
    @Test("F01: after GOAWAY the rest goes over a new connection at once, each request once", arguments: [1, 2])
    func goAway(connections: Int) throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 50)) { pool, _ in
                pool.maxConnections = connections
            }
            defer { rig.close() }
            var answered = 0
            rig.handler.script = { request, connection in
                guard connection.number == 1 else { return ok(request, connection) }
                answered += 1
                if answered <= 20 { ok(request, connection) }
                // The socket stays open, and nothing new is answered on it.
                if answered == 20 {
                    connection.goAway(
                        lastStreamID: request.streamID, debug: Array(#"{"reason":"Shutdown"}"#.utf8))
                }
            }
            rig.submit(1...200)
            #expect(await rig.recorder.wait(for: 200))
            #expect(rig.recorder.statuses() == [200: 200])
            #expect(rig.recorder.endedTwice == [])
            #expect(rig.pool.snapshot.goAways == 1)
            #expect(rig.pool.snapshot.lastGoAway?.message == #"the peer goes away: NO_ERROR {"reason":"Shutdown"}"#)
            // Requests above the last stream came again, without an answer before.
            let answers = rig.handler.seen.filter { $0.connection != 1 }.count + 20
            #expect(answers == 200)
            #expect(await eventually(actor.loop) { rig.handler.closed >= 1 }, "the old connection is closed")
        }
    }

    @Test("F01: GOAWAY with last-stream-id 0, in the middle, twice in a row, and with an error code")
    func goAwayVariants() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.backoffFirst = .milliseconds(1) }
            defer { rig.close() }
            var count = 0
            rig.handler.script = { request, connection in
                guard connection.number <= 3 else { return ok(request, connection) }
                count += 1
                if request.streamID == 1 { return ok(request, connection) }
                guard request.streamID == 21 else { return }
                switch connection.number {
                case 1: connection.goAway(lastStreamID: 0, code: 2)
                case 2:
                    connection.goAway(lastStreamID: 0x7fff_ffff)
                    connection.goAway(lastStreamID: 11)
                    for id in connection.openStreams where id <= 11 {
                        connection.respond(to: id, status: 200)
                    }
                default: connection.goAway(lastStreamID: 0, code: 7, debug: Array("too many\r\n".utf8))
                }
            }
            rig.submit(1...100)
            #expect(await rig.recorder.wait(for: 100))
            #expect(rig.recorder.statuses() == [200: 100])
            #expect(rig.recorder.endedTwice == [])
            #expect(rig.pool.snapshot.lastGoAway?.message == "the peer goes away: REFUSED_STREAM too many??")
            #expect(rig.pool.snapshot.goAways == 3 || rig.pool.snapshot.goAways == 4)
        }
    }

    @Test(
        "what a peer says in GOAWAY is told to the owner, byte for byte, also of two in a row the one that says something"
    )
    func farewells() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            let text = Array(#"{"reason":"BadCertificateEnvironment"}"#.utf8) + [0, 0xff]
            rig.handler.script = { request, connection in
                if connection.number == 2 {
                    connection.goAway(lastStreamID: 0x7fff_ffff)
                    connection.goAway(lastStreamID: 0, debug: text)
                } else if connection.number == 1 {
                    connection.goAway(lastStreamID: 0, debug: [UInt8](repeating: 7, count: 10_000))
                } else {
                    ok(request, connection)
                }
            }
            var heard: [HTTP2Farewell] = []
            rig.pool.onFarewell = { heard.append($0) }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            #expect(rig.recorder.statuses() == [200: 1])
            #expect(heard.map(\.connection) == [1, 2])
            #expect(heard.map(\.debugData) == [[UInt8](repeating: 7, count: HTTP2Farewell.limit), text])
        }
    }

    @Test("a peer that answers every connection's first request with GOAWAY is not besieged")
    func goAwayStorm() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.backoffFirst = .milliseconds(100) }
            defer { rig.close() }
            rig.handler.script = { request, connection in
                connection.goAway(lastStreamID: 0, debug: Array(#"{"reason":"BadCertificateEnvironment"}"#.utf8))
            }
            rig.submit(1, timeout: .seconds(3))
            #expect(await rig.recorder.wait(for: 1))
            let fault = rig.recorder.outcome(1)
            #expect(fault?.notProcessedCode == .goAway)
            #expect(rig.handler.opened.count >= 2 && rig.handler.opened.count <= 20)
        }
    }

    @Test("a draining connection lets what it has accepted finish")
    func draining() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            var late: [(Int32, HTTP2ServerConnection)] = []
            rig.handler.script = { request, connection in
                guard connection.number == 1 else { return ok(request, connection) }
                late.append((request.streamID, connection))
                if late.count == 10 { connection.goAway() }
            }
            rig.submit(2...11)
            #expect(await eventually(actor.loop) { rig.pool.snapshot.draining == 1 })
            rig.submit(12...20)
            #expect(await rig.recorder.wait(for: 10))
            #expect(rig.pool.snapshot.draining == 1 && rig.pool.inFlight == 10)
            for (id, connection) in late { connection.respond(to: id, status: 200) }
            #expect(await rig.recorder.wait(for: 20))
            #expect(rig.recorder.statuses() == [200: 20])
            #expect(await eventually(actor.loop) { rig.pool.snapshot.draining == 0 && rig.handler.closed == 1 })
        }
    }

    @Test("a connection that its owner retires is drained and replaced")
    func retired() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            let number = try #require(rig.recorder.outcome(1)?.response?.connection)
            rig.pool.retire(connection: number)
            rig.submit(2)
            #expect(await rig.recorder.wait(for: 2))
            #expect(rig.handler.seen.map(\.connection) == [1, 2])
            #expect(rig.pool.snapshot.goAways == 0)
        }
    }

    @Test("F02: the limit moves 1, 500, 1, 500; refused streams come again; each request has exactly one 200")
    func limits() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 1)) { pool, _ in
                pool.maxConnections = 1
            }
            defer { rig.close() }
            let gateway = MovingLimit()
            rig.handler.script = { request, connection in gateway.handle(request, connection) }
            rig.submit(1...500)
            #expect(await rig.recorder.wait(for: 500))
            #expect(rig.recorder.statuses() == [200: 499, 400: 1])
            #expect(rig.recorder.endedTwice == [])
            #expect(gateway.accepted == 500 && gateway.refused > 0)
            #expect(rig.pool.snapshot.resent >= UInt64(gateway.refused))
            #expect(rig.handler.opened.count == 1, "the limit was never violated, so the connection has lived")
        }
    }

    @Test("F02: a limit of 0 strands nobody and costs no processor time")
    func limitZero() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 0))
            defer { rig.close() }
            // Before SETTINGS one request may be under way; the server refuses what it does not allow.
            rig.submit(1...100)
            #expect(await eventually(actor.loop) { rig.pool.snapshot.streamLimits == [0] })
            let before = processorTime()
            await pause(actor.loop, .milliseconds(300))
            let used = processorTime() - before
            #expect(used < .milliseconds(100), "\(used) of processor time in 300 ms")
            #expect(rig.recorder.order.isEmpty)
            rig.handler.opened.first?.submitSettings(maxConcurrentStreams: 100)
            #expect(await rig.recorder.wait(for: 100))
            #expect(rig.recorder.statuses() == [200: 100])
        }
    }

    @Test("a peer that refuses everything is asked again at a bounded rate until the deadline")
    func refusesAll() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.handler.script = { request, connection in connection.reset(request.streamID, code: 7) }
            rig.submit(1...5, timeout: .milliseconds(800))
            #expect(await rig.recorder.wait(for: 5))
            #expect(rig.recorder.count { $0.notProcessedCode == .deadline } == 5)
            #expect(rig.handler.seen.count < 60, "\(rig.handler.seen.count) tries in 0.8 s")
        }
    }

    @Test("when one connection's limit drops to 1, the others carry on")
    func oneThrottled() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 20)) { pool, _ in
                pool.maxConnections = 2
            }
            defer { rig.close() }
            var held: Set<String> = []
            rig.handler.script = { request, connection in
                // The first connection answers one request, then falls to one stream, whose answer is withheld.
                if connection.number == 1, request.streamID > 1 {
                    held.insert(request[":path"] ?? "")
                    return connection.submitSettings(maxConcurrentStreams: 1)
                }
                ok(request, connection)
            }
            rig.submit(1...1000, timeout: .seconds(6))
            #expect(await rig.recorder.wait(for: 1000 - 20))
            #expect(rig.recorder.statuses()[200].map { $0 >= 980 } == true)
            #expect(await rig.recorder.wait(for: 1000))
            #expect(held.count <= 20)
            #expect(rig.recorder.count { $0.unknownCode == .deadline } == held.count)
        }
    }
}

/// Apple's habit: one stream, many after the first success, one after a rejection with the surplus refused, many again.
private final class MovingLimit {
    private var limit = 1
    private var waiting: [(Int32, HTTP2ServerConnection)] = []
    private(set) var accepted = 0
    private(set) var refused = 0
    private var hasRejected = false

    func handle(_ request: HTTP2ServerRequest, _ connection: HTTP2ServerConnection) {
        waiting.append((request.streamID, connection))
        // Answer in rounds, so that many are in flight at once.
        guard waiting.count >= min(limit, 100) || accepted + waiting.count >= 500 else { return }
        let (first, _) = waiting.removeFirst()
        accepted += 1
        if accepted > 200 && !hasRejected {
            hasRejected = true
            connection.respond(to: first, status: 400, body: Array(#"{"reason":"BadDeviceToken"}"#.utf8))
            for (id, _) in waiting { connection.reset(id, code: 7) }
            refused += waiting.count
            waiting = []
            change(to: 1, connection)
        } else {
            connection.respond(to: first, status: 200)
            for (id, _) in waiting { connection.respond(to: id, status: 200) }
            accepted += waiting.count
            waiting = []
            change(to: 500, connection)
        }
    }

    private func change(to value: Int, _ connection: HTTP2ServerConnection) {
        guard limit != value else { return }
        limit = value
        connection.submitSettings(maxConcurrentStreams: UInt32(value))
    }
}
