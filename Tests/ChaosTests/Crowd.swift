// Clients that take connections of a server and do nothing with them.

import Foundation
import Glibc

@testable import TestSupport

/// Idle clients of PostgreSQL.
final class Crowd: @unchecked Sendable {
    private let lock = NSLock()
    private var sockets: [Int32] = []

    /// Opens so many connections and waits until the server has answered each, be it with a refusal.
    func come(to port: Int, database: String, count: Int) throws {
        let words = ["user", PostgresCluster.user, "database", database, "application_name", "crowd"]
        let body: [UInt8] = [0, 3, 0, 0] + Array((words.joined(separator: "\0") + "\0\0").utf8)
        let length = UInt32(body.count + 4).bigEndian
        let startup = withUnsafeBytes(of: length) { Array($0) } + body
        for _ in 0..<count {
            guard let socket = LocalSocket.connected(to: port) else { throw CommandError(description: "no connection") }
            lock.withLock { sockets.append(socket) }
            var watched = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
            _ = poll(&watched, 1, 5000)
            _ = send(socket, startup, startup.count, Int32(MSG_NOSIGNAL))
            watched.events = Int16(POLLIN)
            _ = poll(&watched, 1, 5000)
        }
    }

    /// Closes them.
    func leave() {
        lock.withLock {
            sockets.forEach { _ = close($0) }
            sockets = []
        }
    }
}

/// Work that blocks, kept off the threads that tests share.
enum Blocking {
    /// Runs it on a thread of its own.
    static func run(_ body: @escaping @Sendable () -> Void) { Thread(block: body).start() }
}
