import CLinux
import Telemetry
import Testing

@testable import Reactor

@Suite("Event loop") struct EventLoopTests {
    private func withLoop<T>(_ body: (EventLoop) throws -> T) throws -> T {
        let loop = try EventLoop(name: "test")
        try loop.start()
        defer {
            loop.stop()
            loop.join()
        }
        return try body(loop)
    }

    @Test("an async body runs on the loop's thread, before and after it waited")
    func runsOnLoop() throws {
        let places = try withLoop { loop in
            try loop.runBlocking { actor in
                let before = loop.isCurrent
                await pause(loop, .milliseconds(1))
                return [before, loop.isCurrent]
            }
        }
        #expect(places == [true, true])
    }

    @Test("resuming on the loop never goes through another thread")
    func staysOnLoop() throws {
        try withLoop { loop in
            _ = try loop.runBlocking { _ in 0 }
            let before = loop.foreignEnqueues
            try loop.runBlocking { actor in
                for _ in 0..<100 { await pause(loop, .zero) }
            }
            // Only the start of the body itself comes from outside.
            #expect(loop.foreignEnqueues - before <= 2)
        }
    }

    @Test("timers fire in the order of their due times; a cancelled one never")
    func timers() throws {
        let order = try withLoop { loop in
            try loop.runBlocking { actor in
                var order: [Int] = []
                loop.schedule(after: .milliseconds(6)) { order.append(3) }
                loop.schedule(after: .milliseconds(2)) { order.append(1) }
                let cancelled = loop.schedule(after: .milliseconds(3)) { order.append(9) }
                loop.schedule(after: .milliseconds(4)) { order.append(2) }
                loop.cancel(cancelled)
                await pause(loop, .milliseconds(10))
                return order
            }
        }
        #expect(order == [1, 2, 3])
    }

    @Test("work from other threads arrives in order")
    func mailbox() throws {
        let seen = Lock<[Int]>([])
        try withLoop { loop in
            for number in 0..<1000 { loop.execute { seen.withLock { $0.append(number) } } }
            try loop.runBlocking { _ in }
        }
        #expect(seen.withLock { $0 } == Array(0..<1000))
    }

    @Test("an event for a descriptor that was given up in the same turn is dropped")
    func staleEvent() throws {
        try withLoop { loop in
            try loop.runBlocking { actor in
                var pipes: [Int32] = [0, 0, 0, 0]
                pipes.withUnsafeMutableBufferPointer { buffer in
                    _ = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, buffer.baseAddress!)
                    _ = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, buffer.baseAddress! + 2)
                }
                let first = Watcher(loop)
                let second = Watcher(loop)
                first.other = second
                second.other = first
                first.registration = try loop.register(pipes[0], .readable, first)
                second.registration = try loop.register(pipes[2], .readable, second)
                write(pipes[1], "x", 1)
                write(pipes[3], "x", 1)
                await pause(loop, .milliseconds(5))
                // Whichever was called first deregistered both.
                #expect(first.calls + second.calls == 1)
                for descriptor in pipes { close(descriptor) }
            }
        }
    }

    @Test("a name is resolved off the loop; an impossible one gives an error, not a hang")
    func resolver() throws {
        try withLoop { loop in
            try loop.runBlocking { actor in
                let good = await resolve("localhost", loop)
                #expect((try? good.get())?.isEmpty == false)
                let bad = await resolve("no such host.invalid", loop)
                #expect(throws: ResolveError.self) { try bad.get() }
            }
        }
    }
}

private final class Watcher: IOHandler {
    let loop: EventLoop
    var other: Watcher?
    var registration: IORegistration?
    var calls = 0
    init(_ loop: EventLoop) { self.loop = loop }
    func ready(_ events: IOEvents) {
        calls += 1
        if let registration { loop.deregister(registration) }
        if let other = other?.registration { loop.deregister(other) }
        other = nil
    }
}

private func pause(_ loop: EventLoop, _ duration: Duration) async {
    await withCheckedContinuation { continuation in
        loop.schedule(after: duration) { continuation.resume() }
    }
}

private func resolve(_ host: String, _ loop: EventLoop) async -> Result<[SocketAddress], ResolveError> {
    await withCheckedContinuation { continuation in
        Resolver.resolve(host: host, port: 443, timeout: .seconds(5), loop: loop) { continuation.resume(returning: $0) }
    }
}
