// Listeners that are no server of any kind: what a client of PostgreSQL or of Apple's service must survive to meet.

import Foundation
import Glibc

/// Accepts TCP connections on 127.0.0.1 and does one thing with each.
package final class PlainListener: @unchecked Sendable {
    /// What it does with a connection.
    package enum Habit: Sendable {
        /// Never says a word.
        case silent
        /// Closes at once.
        case close
        /// Answers whatever comes first with this text.
        case says(String)
    }

    /// Where it listens.
    package let port: Int
    private let habit: Habit
    private let listener: Int32
    private let lock = NSLock()
    private var acceptedCount = 0
    private var isClosed = false

    /// Begins to listen.
    package init(_ habit: Habit) throws {
        self.habit = habit
        listener = try LocalSocket.bound(listens: true, blocks: true)
        port = LocalSocket.port(of: listener)
        Thread { [self] in serve() }.start()
    }

    /// How many connections were made so far.
    package var accepted: Int { lock.withLock { acceptedCount } }

    /// Ends it and all its connections.
    package func close() {
        lock.withLock {
            // Wakes `accept`, after which the thread closes the socket.
            if !isClosed { shutdown(listener, Int32(SHUT_RDWR)) }
            isClosed = true
        }
    }

    private func serve() {
        var held: [Int32] = []
        while let connection = next() {
            switch habit {
            case .silent: held.append(connection)
            case .close: Glibc.close(connection)
            case .says(let text):
                held.append(connection)
                _ = send(connection, text, text.utf8.count, Int32(MSG_NOSIGNAL))
            }
        }
        held.forEach { Glibc.close($0) }
        Glibc.close(listener)
    }

    private func next() -> Int32? {
        guard let connection = LocalSocket.accepted(on: listener) else { return nil }
        return lock.withLock {
            acceptedCount += 1
            guard !isClosed else {
                Glibc.close(connection)
                return nil
            }
            return connection
        }
    }
}
