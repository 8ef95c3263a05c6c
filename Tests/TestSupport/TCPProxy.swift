// A TCP proxy in front of PostgreSQL or of the simulator that does to connections what networks and dying hosts do: it freezes
// them without closing, refuses new ones, breaks them by RST, or acts at a chosen piece of text.
//
//     worker ──► TCPProxy ──► server          forward ⇄ freeze, freezeOpen, refuse        reset, trap
//
// One thread serves all connections. A call has taken effect when it returns.

import Foundation
import Glibc

/// Forwards connections to a port of 127.0.0.1 until it is told otherwise.
package final class TCPProxy: @unchecked Sendable {
    /// What is done to a connection whose client sends a certain text.
    package struct Trap: Sendable {
        /// What happens when the text comes; the bytes it came with are not passed on before.
        package enum Action: Sendable {
            /// Both sides are reset; the server never sees it.
            case cut
            /// The server gets it; when its answer has come as far as these bytes, both sides are reset instead of passing it on.
            case cutAfterAnswer(ending: [UInt8])
            /// The connection is frozen; `thaw` lets the bytes through.
            case freeze
            /// The server gets it and all that follows, but from here on its answers are held back until `thaw`.
            case holdAnswer
        }
        fileprivate let text: [UInt8]
        fileprivate let action: Action

        /// Acts when the client sends all of `text` in one piece.
        package init(on text: String, _ action: Action) {
            self.text = Array(text.utf8)
            self.action = action
        }

        /// The end of PostgreSQL's answer to a transaction: ReadyForQuery, idle.
        package static let postgresAnswer: [UInt8] = [0x5A, 0, 0, 0, 5, 0x49]

        fileprivate func isSprung(by bytes: ArraySlice<UInt8>) -> Bool { bytes.holds(text) }
    }

    /// Where clients connect to, on 127.0.0.1.
    package let port: Int
    private let target: Int
    /// Holds the port while nobody listens.
    private let holder: Int32
    private let bell: ClosedPipe
    private let lock = NSLock()
    // All of these under the lock.
    private var listener: Int32?
    private var links: [ProxyLink] = []
    private var isFrozen = false
    private var isClosed = false
    private var acceptedCount = 0
    private var trap: Trap?
    private var sprungCount = 0

    /// Begins to forward to a port.
    package init(to target: Int) throws {
        self.target = target
        bell = try ClosedPipe()
        holder = try LocalSocket.bound(listens: false)
        port = LocalSocket.port(of: holder)
        listener = try LocalSocket.bound(port: port, listens: true)
        Thread { [self] in serve() }.start()
    }

    // MARK: What tests do to it

    /// Nothing passes any more, in either direction, and nothing is closed.
    ///
    /// New connections are made and get no answer.
    package func freeze() {
        change {
            isFrozen = true
            links.forEach { $0.freeze() }
        }
    }

    /// As `freeze`, for the connections that are open now; new ones work.
    package func freezeOpen() { change { links.forEach { $0.freeze() } } }

    /// New connections are refused (ECONNREFUSED); those that are open go on.
    package func refuse() {
        change { stopListening() }
    }

    /// Ends `freeze`, `freezeOpen` and `refuse`; what was held back passes now, no byte is missing.
    ///
    /// - Throws: when the port cannot be listened on again.
    package func thaw() throws {
        try change {
            isFrozen = false
            links.forEach { $0.thaw() }
            if listener == nil, !isClosed { listener = try LocalSocket.bound(port: port, listens: true) }
        }
    }

    /// Breaks all open connections, on both sides, by RST; new ones are as before.
    ///
    /// - Returns: how many.
    @discardableResult
    package func reset() -> Int {
        change {
            links.forEach { $0.reset() }
            defer { links = [] }
            return links.count
        }
    }

    /// Sets a trap for all connections, or none; the one before it is gone.
    package func set(_ trap: Trap?) { change { self.trap = trap } }

    /// Ends the proxy and all its connections.
    package func close() {
        change {
            isClosed = true
            stopListening()
            links.forEach { $0.reset() }
            links = []
        }
    }

    /// How many connections were made so far.
    package var accepted: Int { lock.withLock { acceptedCount } }
    /// Whether new connections reach the server.
    package var isPassable: Bool { lock.withLock { listener != nil && !isFrozen } }
    /// How many are open.
    package var open: Int { lock.withLock { links.count } }
    /// How often a trap was sprung.
    package var sprung: Int { lock.withLock { sprungCount } }

    /// `close` alone would leave the socket listening for as long as the thread waits on it.
    private func stopListening() {
        guard let listener else { return }
        shutdown(listener, Int32(SHUT_RDWR))
        Glibc.close(listener)
        self.listener = nil
    }

    private func change<T>(_ body: () throws -> T) rethrows -> T {
        let result = try lock.withLock(body)
        var byte: UInt8 = 0
        _ = Glibc.write(bell.writer.fileDescriptor, &byte, 1)
        return result
    }

    // MARK: The thread

    private func serve() {
        defer { Glibc.close(holder) }
        while true {
            let (listener, links) = lock.withLock { (isFrozen ? nil : self.listener, self.links) }
            var watched = [pollfd(fd: bell.reader.fileDescriptor, events: Int16(POLLIN), revents: 0)]
            watched.append(pollfd(fd: listener ?? -1, events: Int16(POLLIN), revents: 0))
            watched += links.flatMap(\.watched)
            _ = poll(&watched, nfds_t(watched.count), -1)
            if watched[0].revents != 0 { emptyBell() }
            let goesOn = lock.withLock { () -> Bool in
                if watched[1].revents != 0, self.listener != nil, !isFrozen { accept() }
                for link in self.links where !link.isFrozen {
                    link.turn { [self] in sprung(by: $0) }
                }
                self.links.removeAll(where: \.hasEnded)
                return !isClosed
            }
            guard goesOn else { return }
        }
    }

    private func emptyBell() {
        var bytes = [UInt8](repeating: 0, count: 512)
        _ = Glibc.read(bell.reader.fileDescriptor, &bytes, bytes.count)
    }

    private func accept() {
        guard let listener, let client = LocalSocket.accepted(on: listener) else { return }
        acceptedCount += 1
        guard let server = LocalSocket.connected(to: target) else { return LocalSocket.reset(client) }
        links.append(ProxyLink(client: client, server: server))
    }

    private func sprung(by bytes: ArraySlice<UInt8>) -> Trap.Action? {
        guard let trap, trap.isSprung(by: bytes) else { return nil }
        sprungCount += 1
        return trap.action
    }
}
