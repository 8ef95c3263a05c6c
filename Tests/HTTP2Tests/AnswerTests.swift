// F15: answers of all shapes end their exchange at once, with their status and what is readable of the rest.

import HTTP2
import Reactor
import Testing

@Suite("Shapes of answers")
struct AnswerTests {
    private static let reason = Array(#"{"reason":"BadDeviceToken"}"#.utf8)
    private static let html = Array("<html>502 Bad Gateway\0</html>".utf8)

    @Test("F15: no body, an empty DATA frame, split bodies, HTML, informational answers, trailers")
    func shapes() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.responseFields = ["apns-id", "x-trailer"] }
            defer { rig.close() }
            rig.handler.script = { request, connection in
                let id = request.streamID
                switch request[":path"]?.split(separator: "/").last {
                case "1": connection.respond(to: id, status: 400)
                case "2": connection.respond(to: id, status: 400, emptyData: true)
                case "3": connection.respond(to: id, status: 400, body: Self.reason, splitInto: 3)
                case "4": connection.respond(to: id, status: 502, body: Self.html)
                case "5": connection.respond(to: id, status: 400, body: Array("{}".utf8))
                case "6":
                    connection.sendInformational(id, status: 103, fields: [("apns-id", "early"), ("link", "</x>")])
                    connection.sendInformational(id, status: 100)
                    connection.respond(to: id, status: 200, fields: [("apns-id", "late")])
                case "7": connection.respond(to: id, status: 200)
                case "8":
                    connection.respond(to: id, status: 400, body: Self.reason, trailers: [("x-trailer", "t")])
                case "9": connection.reset(id, code: 2)
                default: ok(request, connection)
                }
            }
            rig.submit(100)
            #expect(await rig.recorder.wait(for: 1))
            rig.submit(1...9)
            #expect(await rig.recorder.wait(for: 10))
            func answer(_ tag: UInt64) -> HTTP2Response? { rig.recorder.outcome(tag)?.response }
            for tag in UInt64(1)...2 { #expect(answer(tag)?.status == 400 && answer(tag)?.body == []) }
            #expect(answer(3)?.status == 400 && answer(3)?.body == Self.reason)
            #expect(answer(4)?.status == 502 && answer(4)?.body == Self.html)
            #expect(answer(5)?.status == 400 && answer(5)?.body == Array("{}".utf8))
            #expect(answer(6)?.status == 200 && answer(6)?.fields.map(\.value) == ["late"])
            #expect(answer(7)?.status == 200 && answer(7)?.fields.isEmpty == true)
            #expect(answer(8)?.status == 400 && answer(8)?.body == Self.reason && answer(8)?["x-trailer"] == "t")
            let reset = rig.recorder.outcome(9)
            #expect(reset?.unknownCode == .reset)
            #expect(rig.pool.snapshot.open == 1 && rig.pool.snapshot.connectionsLost == 0)
        }
    }

    @Test("an answer that comes before the request was sent in full ends it at once")
    func earlyAnswer() throws {
        try onLoop { actor in
            let settings = HTTP2ServerSettings(maxConcurrentStreams: 100, initialWindowSize: 10)
            let rig = try Rig(actor.loop, server: settings) { _, server in server.answersHeaders = true }
            defer { rig.close() }
            rig.handler.script = { request, connection in
                connection.respond(to: request.streamID, status: 413, body: Self.reason)
            }
            let head = HTTP2RequestHead(fields: [], body: [UInt8](repeating: 65, count: 100_000))
            rig.submit(1, head: head)
            #expect(await rig.recorder.wait(for: 1))
            #expect(rig.recorder.outcome(1)?.status == 413 && rig.recorder.outcome(1)?.response?.body == Self.reason)
            rig.submit(2)
            #expect(await rig.recorder.wait(for: 2))
            #expect(rig.pool.snapshot.open == 1)
        }
    }

    @Test("withdraw ends what waits and leaves what was sent; close ends everything, each in its way")
    func withdrawAndClose() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 3))
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            rig.handler.script = { _, _ in }
            rig.submit(2...20)
            #expect(await eventually(actor.loop) { rig.handler.seen.count == 4 })
            rig.pool.withdraw { $0 >= 11 }
            #expect(rig.recorder.count { $0.notProcessedCode == .withdrawn } == 10)
            #expect(rig.pool.inFlight == 3 && rig.pool.queued == 6)
            rig.close()
            #expect(rig.recorder.count { $0.notProcessedCode == .closed } == 6)
            #expect(rig.recorder.count { $0.unknownCode == .closed } == 3)
            #expect(rig.recorder.endedTwice == [] && rig.recorder.order.count == 20)
            #expect(!rig.submit(21) && rig.pool.queueSpace == 0)
        }
    }

    @Test("drain finishes what was taken, or ends it in time")
    func drain() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            rig.submit(1...300)
            await rig.pool.drain(until: MonotonicTime.now().advanced(by: .seconds(60)))
            #expect(rig.recorder.statuses() == [200: 300])
            #expect(!rig.submit(301))
            rig.close()

            let stuck = try Rig(actor.loop)
            stuck.handler.script = { _, _ in }
            stuck.submit(1...5)
            let start = MonotonicTime.now()
            await stuck.pool.drain(until: start.advanced(by: .milliseconds(200)))
            #expect(MonotonicTime.now().since(start) < .seconds(20))
            #expect(stuck.recorder.order.count == 5 && stuck.recorder.endedTwice == [])
            #expect(stuck.recorder.count { $0.unknownCode == .closed } == 1)
            #expect(stuck.recorder.count { $0.notProcessedCode == .closed } == 4)
            // Draining again is harmless, and so is closing.
            await stuck.pool.drain(until: .distantFuture)
            stuck.close()
        }
    }
}
