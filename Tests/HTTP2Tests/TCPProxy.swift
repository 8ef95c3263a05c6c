// A TCP proxy on the loop that can stop forwarding without closing (a black hole), and listeners that are no HTTP/2 server.

import Glibc
import HTTP2
import Reactor

/// Forwards connections to a local port until it is told not to.
final class TCPProxy: IOHandler {
    let port: UInt16
    private(set) var accepted = 0
    private let loop: EventLoop
    private let target: UInt16
    private let listener: Int32
    private var registration: IORegistration?
    private var pipes: [TCPPipe] = []

    init(loop: EventLoop, target: UInt16) throws {
        self.loop = loop
        self.target = target
        listener = try TCPSocket.listen(host: "127.0.0.1", port: 0)
        port = try TCPSocket.localPort(listener)
        registration = try loop.register(listener, .readable, self)
    }

    /// Everything that goes through now is swallowed from now on; new connections work.
    func swallow() { pipes.forEach { $0.stop() } }

    func close() {
        if let registration { loop.deregister(registration) }
        registration = nil
        Glibc.close(listener)
        pipes.forEach { $0.close() }
        pipes = []
    }

    func ready(_ events: IOEvents) {
        guard let client = try? TCPSocket.accept(listener),
            let address = try? SocketAddress.lookUp(host: "127.0.0.1", port: target).first,
            let server = try? TCPSocket.connect(to: address)
        else { return }
        accepted += 1
        pipes.append(TCPPipe(loop, client, server))
        pipes.append(TCPPipe(loop, server, client))
    }
}

/// One direction of a proxied connection; small messages only, as tests send them.
private final class TCPPipe: IOHandler {
    private let loop: EventLoop
    private let source: Int32
    private let sink: Int32
    private let duplicate: Int32
    private var registration: IORegistration?

    init(_ loop: EventLoop, _ source: Int32, _ sink: Int32) {
        self.loop = loop
        self.source = source
        self.sink = sink
        duplicate = dup(source)
        registration = try? loop.register(duplicate, .readable, self)
    }

    func stop() {
        if let registration { loop.deregister(registration) }
        registration = nil
    }

    func close() {
        stop()
        Glibc.close(duplicate)
        Glibc.close(source)
    }

    func ready(_ events: IOEvents) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(duplicate, &buffer, buffer.count, 0)
        guard count > 0 else {
            stop()
            shutdown(sink, Int32(SHUT_WR))
            return
        }
        var sent = 0
        while sent < count {
            let written = buffer[sent..<count].withUnsafeBytes {
                send(sink, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard written >= 0 || errno == EAGAIN else { return stop() }
            sent += max(0, written)
        }
    }
}

/// Accepts TCP connections and does one thing with each.
final class PlainListener: IOHandler {
    enum Habit {
        /// Never says a word.
        case silent
        /// Closes at once.
        case close
        /// Answers whatever comes with this text.
        case says(String)
    }

    let port: UInt16
    private(set) var accepted = 0
    private let loop: EventLoop
    private let habit: Habit
    private let listener: Int32
    private var registration: IORegistration?
    private var open: [Int32] = []

    init(loop: EventLoop, _ habit: Habit) throws {
        self.loop = loop
        self.habit = habit
        listener = try TCPSocket.listen(host: "127.0.0.1", port: 0)
        port = try TCPSocket.localPort(listener)
        registration = try loop.register(listener, .readable, self)
    }

    func ready(_ events: IOEvents) {
        guard let descriptor = try? TCPSocket.accept(listener) else { return }
        accepted += 1
        switch habit {
        case .silent: open.append(descriptor)
        case .close: Glibc.close(descriptor)
        case .says(let text):
            open.append(descriptor)
            write(descriptor, text, text.utf8.count)
        }
    }

    func close() {
        if let registration { loop.deregister(registration) }
        registration = nil
        Glibc.close(listener)
        open.forEach { Glibc.close($0) }
    }
}
