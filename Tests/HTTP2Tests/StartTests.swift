// Requests that may be started only for a while, as under a lease: whatever the pool, the connection or the process does meanwhile,
// nothing of them is sent afterwards.

import HTTP2
import Reactor
import Testing

@Suite("The time in which a request may be started") struct StartTests {
    /// Blocks the loop's thread until a time has passed, as a process is that was stopped in the middle of a turn.
    private func freeze(until time: MonotonicTime) {
        while MonotonicTime.now() <= time {}
    }

    @Test("a request that waits for a stream beyond it goes back, and is never seen")
    func waiting() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop, server: HTTP2ServerSettings(maxConcurrentStreams: 1))
            defer { rig.close() }
            rig.handler.script = { request, connection in
                if request[":path"] != "/3/device/1" { ok(request, connection) }
            }
            rig.submit(1)
            #expect(await eventually(actor.loop) { rig.handler.seen.count == 1 })
            let limit = MonotonicTime.now().advanced(by: .milliseconds(300))
            for tag in UInt64(2)...5 { rig.submit(tag, startBy: limit) }
            rig.submit(6)
            #expect(await eventually(actor.loop) { MonotonicTime.now() > limit })
            #expect(rig.recorder.order.isEmpty, "they wait; only their turn decides")
            let first = try #require(rig.handler.seen.first?.request)
            ok(first, try #require(rig.handler.opened.first))
            #expect(await rig.recorder.wait(for: 6))
            #expect(rig.handler.seen.map(\.path) == ["/3/device/1", "/3/device/6"])
            #expect(rig.recorder.count { $0.notProcessedCode == .withdrawn } == 4)
            #expect(rig.recorder.endedTwice == [] && rig.pool.snapshot.deadlines == 0)
        }
    }

    @Test("a process that is stopped in the middle of a turn sends nothing of what it was about to send")
    func frozenInATurn() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop)
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            let limit = MonotonicTime.now().advanced(by: .milliseconds(300))
            rig.recorder.onEnd = { tag, _ in if tag == 2 { freeze(until: limit) } }
            rig.submit(2)
            #expect(await eventually(actor.loop) { rig.handler.seen.count == 2 || rig.recorder.order.count == 2 })
            // Taken up in the same turn, before it stands still.
            for tag in UInt64(3)...200 { rig.submit(tag, startBy: limit) }
            freeze(until: limit)
            #expect(await rig.recorder.wait(for: 200))
            #expect(rig.handler.seen.map(\.path) == ["/3/device/1", "/3/device/2"])
            #expect(rig.recorder.count { $0.notProcessedCode == .withdrawn } == 198)
        }
    }

    @Test("what a blocked connection has not written by then is not written any more")
    func blocked() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { pool, _ in pool.queueLimit = 10_000 }
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            let connection = try #require(rig.handler.opened.first)
            connection.pauseReading()
            let head = HTTP2RequestHead(fields: [], body: [UInt8](repeating: 65, count: 4000))
            let limit = MonotonicTime.now().advanced(by: .seconds(1))
            for tag in UInt64(2)...3000 { rig.submit(tag, timeout: .seconds(60), head: head, startBy: limit) }
            #expect(await eventually(actor.loop) { rig.pool.inFlight > 100 })
            #expect(await eventually(actor.loop) { MonotonicTime.now() > limit })
            connection.resumeReading()
            #expect(await rig.recorder.wait(for: 3000))
            #expect(rig.recorder.endedTwice == [])
            let back = Set(
                rig.recorder.outcomes.filter { $0.value.contains { $0.notProcessedCode == .withdrawn } }.keys
                    .map { "/3/device/\($0)" })
            // Whole requests that stood in the kernel arrive; nothing arrives that went back.
            #expect(back.count > 1000)
            #expect(back.isDisjoint(with: rig.handler.seen.map(\.path)))
            #expect(rig.handler.seen.count + back.count <= 3000)
        }
    }
}
