// Requests and answers when nothing goes wrong: each exactly once, every byte as it was meant.

import HTTP2
import Reactor
import Testing

@Suite("Exchange")
struct ExchangeTests {
    @Test("thousands of requests are answered exactly once, over one connection and over several", arguments: [1, 4])
    func manyOnce(connections: Int) throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in
                pool.maxConnections = connections
                pool.queueLimit = 10_000
            }
            defer { rig.close() }
            rig.submit(1...5000)
            #expect(await rig.recorder.wait(for: 5000))
            #expect(rig.recorder.statuses() == [200: 5000])
            #expect(rig.recorder.endedTwice == [])
            #expect(Set(rig.handler.seen.map(\.path)).count == 5000 && rig.handler.seen.count == 5000)
            #expect(rig.pool.inFlight == 0 && rig.pool.queued == 0)
            #expect(rig.pool.snapshot.answered == 5000 && rig.pool.snapshot.resent == 0)
            #expect(rig.handler.opened.count <= connections)
        }
    }

    @Test("the request's fields and body arrive as they were given, for different heads in turn")
    func exactFields() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            let other = HTTP2RequestHead(
                method: "DELETE", fields: [HTTP2Field("apns-channel-id", "Y2hhbm5lbA==")], body: [])
            for tag in UInt64(1)...6 { rig.submit(tag, head: tag % 2 == 0 ? other : nil) }
            #expect(await rig.recorder.wait(for: 6))
            for seen in rig.handler.seen {
                let tag = try #require(UInt64(seen.path.dropFirst("/3/device/".count)))
                let fields = seen.request.fields.map { "\($0.name): \($0.value)" }
                let port = try #require(rig.server?.port)
                let ends = [":authority: localhost:\(port)", ":path: /3/device/\(tag)"]
                let tail = ["apns-id: id-\(tag)", "authorization: bearer test.token"]
                if tag % 2 == 0 {
                    let middle = ["apns-channel-id: Y2hhbm5lbA=="]
                    #expect(fields == [":method: DELETE", ":scheme: https"] + ends + middle + tail)
                    #expect(seen.request.body == [])
                } else {
                    let middle = ["apns-topic: com.example.app", "apns-push-type: alert", "apns-expiration: 0"]
                    #expect(fields == [":method: POST", ":scheme: https"] + ends + middle + tail)
                    #expect(seen.request.body == Rig.body)
                }
            }
        }
    }

    @Test("a body larger than the peer's windows is sent as the windows open")
    func flowControl() throws {
        try onLoop { actor in
            let settings = HTTP2ServerSettings(maxConcurrentStreams: 100, initialWindowSize: 100)
            let rig = try Rig(actor.loop, server: settings)
            defer { rig.close() }
            let body = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let head = HTTP2RequestHead(fields: [], body: body)
            rig.handler.script = { request, connection in
                connection.respond(to: request.streamID, status: request.body.count == 65_536 ? 200 : 500)
            }
            for tag in UInt64(1)...20 { rig.submit(tag, head: head) }
            #expect(await rig.recorder.wait(for: 20))
            #expect(rig.recorder.statuses() == [200: 20])
            #expect(rig.handler.seen.allSatisfy { $0.request.body == Array(body.prefix(65_536)) })
        }
    }

    @Test("a change of the authorization value shows in the next requests; without one nothing is sent")
    func authorization() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            rig.authorization.authorization = nil
            rig.submit(2)
            await pause(actor.loop, .milliseconds(30))
            #expect(rig.recorder.order == [1] && rig.pool.queued == 1)
            rig.authorization.authorization = HTTP2SharedValue("bearer second")
            rig.pool.authorizationChanged()
            #expect(await rig.recorder.wait(for: 2))
            #expect(rig.handler.seen.map { $0.request["authorization"] } == ["bearer test.token", "bearer second"])
        }
    }

    @Test("the queue is bounded, and its owner hears once when half of it is free")
    func boundedQueue() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.queueLimit = 100 }
            defer { rig.close() }
            var taken = 0
            for tag in UInt64(1)...150 where rig.submit(tag) { taken += 1 }
            #expect(taken == 100 && rig.pool.queueSpace == 0)
            #expect(await rig.recorder.wait(for: 100))
            #expect(await eventually(actor.loop) { rig.recorder.spaceCalls == 1 })
            #expect(rig.pool.queueSpace == 100)
            #expect(rig.recorder.spaceCalls == 1)
        }
    }

    @Test("a handler that submits and withdraws from within its calls does no harm")
    func reentrant() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.recorder.onEnd = { tag, _ in
                if tag <= 200 { rig.submit(tag + 1000) }
                if tag == 1100 { rig.pool.withdraw { $0 > 1000 } }
            }
            rig.submit(1...200)
            #expect(await rig.recorder.wait(for: 400))
            #expect(rig.recorder.endedTwice == [])
        }
    }

    @Test("kept response fields and the first 4 KB of a body come back; an endless body is cut off")
    func responses() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.responseFields = ["apns-unique-id", "retry-after"] }
            defer { rig.close() }
            rig.handler.script = { request, connection in
                let size = request[":path"] == "/3/device/2" ? 10_000_000 : 5000
                connection.respond(
                    to: request.streamID, status: 503,
                    fields: [("retry-after", "7"), ("other", "x"), ("apns-unique-id", "u")],
                    body: [UInt8](repeating: 65, count: size))
            }
            rig.submit(1)
            rig.submit(2)
            #expect(await rig.recorder.wait(for: 2))
            for tag in UInt64(1)...2 {
                let response = try #require(rig.recorder.outcome(tag)?.response)
                #expect(response.status == 503 && response.body == [UInt8](repeating: 65, count: 4096))
                #expect(response["retry-after"] == "7" && response["apns-unique-id"] == "u" && response["other"] == nil)
            }
            rig.handler.script = { request, connection in ok(request, connection) }
            rig.submit(3)
            #expect(await rig.recorder.wait(for: 3))
            #expect(rig.recorder.outcome(3)?.status == 200)
        }
    }
}
