// F03 to F05, F07, F35: peers that are silent, die or end connections in every way there is.

import HTTP2
import Reactor
import TestSupport
import Testing

@Suite("Failing connections")
struct FailureTests {
    @Test("F03: streams that are never answered end by their deadline and are reset; all others go on meanwhile")
    func silentStreams() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in
                pool.maxConnections = 2
                pool.pingAfter = .milliseconds(50)
                pool.pingTimeout = .seconds(30)
            }
            defer { rig.close() }
            rig.handler.script = { request, connection in
                let path = request[":path"]
                if path != "/3/device/1" && path != "/3/device/2" { ok(request, connection) }
            }
            rig.submit(100)
            #expect(await rig.recorder.wait(for: 1))
            rig.submit(1...2, timeout: .seconds(3))
            rig.submit(101...200)
            #expect(await rig.recorder.wait(for: 103))
            #expect(rig.recorder.statuses() == [200: 101] && Set(rig.recorder.order.suffix(2)) == [1, 2])
            for tag in UInt64(1)...2 { #expect(rig.recorder.outcome(tag)?.unknownCode == .deadline) }
            #expect(await eventually(actor.loop) { rig.handler.resets.filter { $0.code == 8 }.count == 2 })
            // The connection answers PINGs, so it has lived through it.
            #expect(rig.handler.closed == 0 && rig.pool.snapshot.connectionsLost == 0)
            rig.submit(3)
            #expect(await rig.recorder.wait(for: 104))
        }
    }

    @Test("requests with mixed deadlines end each at its own, in the queue and on a stream")
    func mixedDeadlines() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 2))
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            rig.handler.script = { _, _ in }
            let timeouts = [4500, 1500, 3000, 500, 2250].map { Duration.milliseconds($0) }
            let start = MonotonicTime.now()
            var ends: [UInt64: Duration] = [:]
            rig.recorder.onEnd = { tag, _ in ends[tag] = MonotonicTime.now().since(start) }
            for (index, timeout) in timeouts.enumerated() { rig.submit(UInt64(index + 10), timeout: timeout) }
            #expect(await rig.recorder.wait(for: 6))
            for (index, timeout) in timeouts.enumerated() {
                let end = try #require(ends[UInt64(index + 10)])
                #expect(end >= timeout && end < timeout + .seconds(3), "\(timeout) ended after \(end)")
            }
            let unknown = rig.recorder.count { $0.unknownCode == .deadline }
            let unsent = rig.recorder.count { $0.notProcessedCode == .deadline }
            #expect(unknown == rig.handler.seen.count - 1 && unknown + unsent == 5 && unsent >= 1)
        }
    }

    @Test("F04: a connection that dies while idle, by RST or FIN, is replaced for the next request")
    func idleDeath() throws {
        try onLoop { actor in
            for (index, end) in [HTTP2ServerEnd.abort, .fin, .notify, .graceful].enumerated() {
                let rig = try Rig(actor.loop)
                rig.submit(1)
                #expect(await rig.recorder.wait(for: 1))
                rig.handler.opened.first?.close(end)
                #expect(await eventually(actor.loop) { rig.pool.snapshot.open == 0 }, "variant \(index)")
                rig.submit(2)
                #expect(await rig.recorder.wait(for: 2))
                #expect(rig.recorder.statuses() == [200: 2])
                #expect(rig.handler.seen.map(\.connection) == [1, 2])
                rig.close()
            }
        }
    }

    @Test("F04: a connection that dies with streams: answered, unknown, and what was not sent goes elsewhere")
    func deathWithStreams() throws {
        try onLoop { actor in
            for end in [HTTP2ServerEnd.abort, .fin, .notify] {
                let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 10))
                rig.submit(1)
                #expect(await rig.recorder.wait(for: 1))
                rig.handler.script = { request, connection in
                    guard connection.number == 1 else { return ok(request, connection) }
                    // Of ten streams on the first connection none is answered.
                    if rig.handler.seen.count == 11 { connection.close(end) }
                }
                rig.submit(2...100)
                #expect(await rig.recorder.wait(for: 100))
                #expect(rig.recorder.statuses() == [200: 90])
                #expect(rig.recorder.count { $0.unknownCode == .connectionLost } == 10)
                #expect(rig.recorder.endedTwice == [])
                #expect(rig.pool.snapshot.connectionsLost == 1)
                rig.close()
            }
        }
    }

    @Test("an answer that has come counts, even if the connection dies before its stream has ended")
    func answeredThenDeath() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.handler.script = { request, connection in
                ok(request, connection)
                connection.close(.graceful)
            }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            #expect(rig.recorder.outcome(1)?.status == 200)
        }
    }

    @Test("F05: a connection that swallows everything is found by PING; what waits goes over a new one")
    func blackHole() throws {
        try onLoop { actor in
            let target = try Rig(actor.loop)
            defer { target.close() }
            let proxy = try TCPProxy(to: Int(try #require(target.server?.port)))
            defer { proxy.close() }
            let rig = try Rig(actor.loop, port: UInt16(proxy.port)) { pool, _ in
                pool.pingAfter = .seconds(1)
                pool.pingTimeout = .seconds(1)
            }
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            proxy.freezeOpen()
            rig.submit(2...11)
            await pause(actor.loop, .milliseconds(1250))
            // The old connection is under suspicion: these do not go into the hole.
            rig.submit(12...21)
            #expect(await rig.recorder.wait(for: 21))
            #expect(rig.recorder.statuses() == [200: 11])
            #expect(rig.recorder.count { $0.unknownCode == .pingTimeout } == 10)
            #expect(rig.pool.snapshot.pingTimeouts == 1 && proxy.accepted == 2)
        }
    }

    @Test("an idle connection is asked by PING and replaced when it does not answer")
    func idlePing() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, server in
                pool.idlePing = .milliseconds(100)
                pool.pingTimeout = .milliseconds(100)
                server.answersPings = false
            }
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            #expect(await eventually(actor.loop) { rig.pool.snapshot.pingTimeouts == 1 })
            #expect(rig.pool.snapshot.open == 0)
            rig.submit(2)
            #expect(await rig.recorder.wait(for: 2))
            let answering = try Rig(actor.loop) { pool, _ in
                pool.idlePing = .milliseconds(30)
                pool.pingTimeout = .seconds(30)
            }
            defer { answering.close() }
            answering.submit(1)
            #expect(await answering.recorder.wait(for: 1))
            await pause(actor.loop, .milliseconds(300))
            #expect(answering.pool.snapshot.open == 1 && answering.pool.snapshot.pingTimeouts == 0)
        }
    }

    @Test("a request that a blocked connection has not written goes elsewhere, never lost, never twice")
    func blockedWrites() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 1000)) { pool, _ in
                pool.pingAfter = .seconds(1)
                pool.pingTimeout = .seconds(1)
                pool.queueLimit = 10_000
            }
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            rig.handler.opened.first?.pauseReading()
            let head = HTTP2RequestHead(fields: [], body: [UInt8](repeating: 65, count: 4000))
            for tag in UInt64(2)...5001 { rig.submit(tag, timeout: .seconds(60), head: head) }
            #expect(await rig.recorder.wait(for: 5001))
            let unknown = rig.recorder.count { $0.unknownCode == .pingTimeout }
            #expect(unknown > 0 && unknown <= 1000)
            #expect(rig.recorder.statuses() == [200: 5001 - unknown])
            #expect(rig.recorder.endedTwice == [])
            #expect(rig.handler.seen.count == 5001 - unknown, "nothing that came again had arrived before")
        }
    }

    @Test("F04: RST in the middle of a response's HEADERS leaves the request unknown; the next one is sent")
    func deathInHeaders() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.handler.script = { request, connection in
                guard connection.number == 1 else { return ok(request, connection) }
                // A HEADERS frame of 20 bytes for stream 1, of which 4 come.
                actor.loop.schedule(after: .milliseconds(20)) {
                    connection.sendRaw([0, 0, 20, 1, 5, 0, 0, 0, 1, 0x88, 0x40, 0x07, 0x61])
                }
                actor.loop.schedule(after: .milliseconds(40)) { connection.close(.abort) }
            }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            #expect(rig.recorder.outcome(1)?.unknownCode == .connectionLost)
            rig.submit(2)
            #expect(await rig.recorder.wait(for: 2))
            #expect(rig.recorder.outcome(2)?.status == 200)
        }
    }

    @Test("a peer that sends what is no HTTP/2 is a fault of the connection, and never a crash")
    func garbage() throws {
        try onLoop { actor in
            var generator = SystemRandomNumberGenerator()
            let noise = (0..<40).map { _ in
                (0..<200).map { _ in UInt8.random(in: 0...255, using: &generator) }
            }
            let texts = ["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"].map { Array($0.utf8) }
            // DATA on stream 0, HEADERS with a broken block, SETTINGS of a wrong size, a huge frame, an answer without status.
            let frames: [[UInt8]] = [
                [0, 0, 1, 0, 0, 0, 0, 0, 0, 7], [0, 0, 2, 1, 5, 0, 0, 0, 1, 0xFF, 0xFF],
                [0, 0, 1, 4, 0, 0, 0, 0, 0, 1], [0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1],
                [0, 0, 5, 1, 5, 0, 0, 0, 1, 0x40, 1, 0x61, 1, 0x62],
            ]
            let rig = try Rig(actor.loop) { pool, _ in
                pool.backoffFirst = .milliseconds(1)
                pool.backoffLast = .milliseconds(1)
                pool.pingAfter = .milliseconds(200)
                pool.pingTimeout = .milliseconds(200)
            }
            defer { rig.close() }
            var pending = frames + texts + noise
            rig.handler.script = { request, connection in
                guard let bytes = pending.popLast() else { return ok(request, connection) }
                connection.sendRaw(bytes)
            }
            for tag in UInt64(1)...UInt64(pending.count) {
                rig.submit(tag, timeout: .seconds(2))
                try #require(await rig.recorder.wait(for: Int(tag)))
            }
            #expect(rig.recorder.endedTwice == [])
            pending = []
            // More than one, for a machine on which a PING takes longer than it may here.
            for tag in UInt64(1000)...1009 where rig.recorder.statuses()[200] == nil {
                rig.submit(tag)
                #expect(await rig.recorder.wait(for: rig.recorder.outcomes.count + 1))
            }
            #expect(rig.recorder.statuses()[200] != nil)
        }
    }

    @Test("an answer that comes after its request's deadline does no harm")
    func lateAnswer() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            rig.handler.script = { request, connection in
                actor.loop.schedule(after: .milliseconds(130)) { ok(request, connection) }
            }
            rig.submit(2...101, timeout: .milliseconds(100))
            #expect(await rig.recorder.wait(for: 101))
            #expect(rig.recorder.endedTwice == [])
            await pause(actor.loop, .milliseconds(150))
            rig.submit(102)
            #expect(await rig.recorder.wait(for: 102))
            #expect(rig.recorder.outcome(102)?.status == 200 && rig.pool.snapshot.connectAttempts == 1)
        }
    }

    @Test("a request whose deadline has passed before its turn is not sent")
    func pastDeadline() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.submit(1...3, timeout: .zero)
            rig.submit(4)
            #expect(await rig.recorder.wait(for: 4))
            #expect(rig.handler.seen.map(\.path) == ["/3/device/4"])
            #expect(rig.recorder.count { $0.notProcessedCode == .deadline } == 3)
        }
    }

    @Test("when the only stream of an unproven connection waits in vain, another connection takes over")
    func stuckFirstStream() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.pingAfter = .milliseconds(100) }
            defer { rig.close() }
            rig.handler.script = { request, connection in
                if connection.number > 1 { ok(request, connection) }
            }
            rig.submit(1...50, timeout: .seconds(8))
            #expect(await rig.recorder.wait(for: 49))
            #expect(rig.recorder.statuses() == [200: 49])
            #expect(await rig.recorder.wait(for: 50))
            #expect(rig.recorder.outcome(1)?.unknownCode == .deadline)
            #expect(await eventually(actor.loop) { rig.pool.snapshot.open == 1 }, "the pool is back at its size")
        }
    }

    @Test("F07: the peer closes right after an answer, while more is being written, again and again")
    func closeAfterAnswer() throws {
        try onLoop { actor in
            for end in [HTTP2ServerEnd.abort, .notify] {
                let rig = try Rig(actor.loop) { pool, _ in pool.backoffFirst = .milliseconds(1) }
                var answers = 0
                rig.handler.script = { request, connection in
                    guard connection.isOpen else { return }
                    answers += 1
                    ok(request, connection)
                    if answers % 10 == 0 { connection.close(end) }
                }
                rig.submit(1...200)
                #expect(await rig.recorder.wait(for: 200))
                #expect(rig.recorder.endedTwice == [])
                let answered = rig.recorder.statuses()[200] ?? 0
                let unknown = rig.recorder.count { $0.unknownCode == .connectionLost }
                #expect(answered + unknown == 200)
                rig.close()
            }
        }
    }

    @Test("F35: after 200 lost connections of all kinds no descriptor is left behind")
    func noLeaks() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in
                pool.backoffFirst = .milliseconds(1)
                pool.pingAfter = .milliseconds(20)
                pool.pingTimeout = .milliseconds(20)
            }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            let port = try #require(rig.server?.port)
            #expect(socketCount(port: port) == 2)
            rig.handler.script = { request, connection in
                guard request.streamID >= 5 else { return ok(request, connection) }
                switch connection.number % 5 {
                case 0: connection.goAway(lastStreamID: 3)
                case 1: connection.close(.abort)
                case 2: connection.close(.notify)
                case 3: connection.close(.fin)
                default: connection.pauseReading()
                }
            }
            var tag: UInt64 = 1
            while rig.pool.snapshot.connectAttempts < 200 {
                rig.submit((tag + 1)...(tag + 4))
                tag += 4
                try #require(await rig.recorder.wait(for: Int(tag)))
            }
            rig.handler.script = { request, connection in ok(request, connection) }
            rig.submit(tag + 1)
            #expect(await rig.recorder.wait(for: Int(tag) + 1))
            #expect(rig.recorder.endedTwice == [])
            // Black holes stay open on the server's side until it closes them.
            rig.handler.opened.forEach { if $0 !== rig.handler.opened.last { $0.close(.abort) } }
            #expect(await eventually(actor.loop) { socketCount(port: port) == 2 })
            rig.close()
            #expect(await eventually(actor.loop) { socketCount(port: port) == 0 })
        }
    }
}
