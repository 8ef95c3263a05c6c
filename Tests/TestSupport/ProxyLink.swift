// One connection through a TCPProxy: what came from either side and has not been passed on yet.

import Glibc

/// A client and its server; used by the proxy alone, under its lock.
final class ProxyLink {
    private(set) var isFrozen = false
    /// The client hears nothing more, but is heard.
    private var holdsAnswers = false
    private(set) var hasEnded = false
    private let client: Int32
    private let server: Int32
    private var up = Flow()
    private var down = Flow()
    /// The connection is reset when the server's answer ends so.
    private var lastWords: [UInt8]?

    /// What goes in one direction.
    private struct Flow {
        var bytes: [UInt8] = []
        /// The source has said its last.
        var isAtEnd = false
        /// The sink knows that.
        var isEndPassed = false

        var wantsMore: Bool { !isAtEnd && bytes.count < 262_144 }
    }

    init(client: Int32, server: Int32) {
        self.client = client
        self.server = server
    }

    /// Passes nothing until `thaw`.
    func freeze() { isFrozen = true }

    /// Passes everything again.
    func thaw() {
        isFrozen = false
        holdsAnswers = false
    }

    /// What the thread waits for; nothing while it is frozen.
    var watched: [pollfd] {
        isFrozen || hasEnded
            ? []
            : [
                watch(client, from: up, to: holdsAnswers ? Flow() : down), watch(server, from: down, to: up),
            ].filter { $0.events != 0 }
    }

    private func watch(_ descriptor: Int32, from: Flow, to: Flow) -> pollfd {
        let events = (from.wantsMore ? POLLIN : 0) | (to.bytes.isEmpty ? 0 : POLLOUT)
        return pollfd(fd: descriptor, events: Int16(events), revents: 0)
    }

    /// Passes on what there is.
    ///
    /// - Parameter trap: what to do about bytes of the client.
    func turn(_ trap: (ArraySlice<UInt8>) -> TCPProxy.Trap.Action?) {
        let known = up.bytes.count
        guard take(from: client, into: &up), take(from: server, into: &down) else { return reset() }
        if up.bytes.count > known, let action = trap(up.bytes[known...]) {
            switch action {
            case .cut: return reset()
            case .cutAfterAnswer(let ending): lastWords = ending
            case .freeze:
                isFrozen = true
                return
            case .holdAnswer: holdsAnswers = true
            }
        }
        if let lastWords {
            guard down.bytes.suffix(lastWords.count) != lastWords[...] else { return reset() }
            guard give(&up, to: server) else { return reset() }
        } else {
            guard give(&up, to: server), holdsAnswers || give(&down, to: client) else { return reset() }
        }
        if up.isEndPassed && down.isEndPassed { close() }
    }

    /// Breaks it on both sides.
    func reset() {
        guard !hasEnded else { return }
        hasEnded = true
        LocalSocket.reset(client)
        LocalSocket.reset(server)
    }

    private func close() {
        hasEnded = true
        Glibc.close(client)
        Glibc.close(server)
    }

    /// False when the source is broken.
    private func take(from source: Int32, into flow: inout Flow) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while flow.wantsMore {
            let count = recv(source, &buffer, buffer.count, 0)
            if count > 0 { flow.bytes += buffer[..<count] } else if count == 0 { flow.isAtEnd = true } else { break }
        }
        return flow.isAtEnd || !flow.wantsMore || errno == EAGAIN || errno == EINTR || errno == ENOTCONN
    }

    /// False when the sink is broken.
    private func give(_ flow: inout Flow, to sink: Int32) -> Bool {
        var sent = 0
        while sent < flow.bytes.count {
            let count = flow.bytes[sent...].withUnsafeBytes {
                send(sink, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count >= 0 else {
                flow.bytes.removeFirst(sent)
                return errno == EAGAIN || errno == EINTR
            }
            sent += count
        }
        flow.bytes = []
        if flow.isAtEnd, !flow.isEndPassed {
            flow.isEndPassed = true
            shutdown(sink, Int32(SHUT_WR))
        }
        return true
    }
}

extension ArraySlice<UInt8> {
    /// Whether these bytes stand in it together.
    func holds(_ wanted: [UInt8]) -> Bool {
        guard let first = wanted.first, count >= wanted.count else { return false }
        return (startIndex...(endIndex - wanted.count)).contains {
            self[$0] == first && self[$0..<($0 + wanted.count)].elementsEqual(wanted)
        }
    }
}
