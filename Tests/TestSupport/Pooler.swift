// pgbouncer in transaction mode in front of a cluster, so that a suite can be run through it: every statement may meet another
// server session, nothing prepared or set by SET outlives a transaction, LISTEN is of no use.

import Foundation

/// A running pgbouncer that leads to any database of one cluster; gone with this process.
package final class Pooler: Sendable {
    /// Whether suites should go through a pooler: `PGPUSH_TEST_POOLER=pgbouncer`.
    package static var isWanted: Bool { ProcessInfo.processInfo.environment["PGPUSH_TEST_POOLER"] == "pgbouncer" }

    /// TCP port on 127.0.0.1.
    package let port: Int
    private let process: ChildProcess
    private let folder: String

    private static let lock = NSLock()
    nonisolated(unsafe) private static var poolers: [Int: Result<Pooler, any Error>] = [:]

    /// The pooler in front of a cluster; started at its first use.
    package static func shared(before cluster: PostgresCluster) throws -> Pooler {
        try lock.withLock {
            let pooler = poolers[cluster.port] ?? Result { try Pooler(before: cluster) }
            poolers[cluster.port] = pooler
            return try pooler.get()
        }
    }

    /// Starts a pooler of its own; it accepts connections when this returns.
    ///
    /// - Parameters:
    ///   - cluster: where it leads.
    ///   - settings: further lines of its configuration, which override those that stand here.
    /// - Throws: when there is no pgbouncer, or it does not listen within two minutes; its log is in the message.
    package init(before cluster: PostgresCluster, settings: [String: String] = [:]) throws {
        let programs = try PostgresPrograms.find()
        port = try FreePort.find()
        folder = "\(cluster.folder)/pgbouncer-\(port)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try """
        [databases]
        * = host=127.0.0.1 port=\(cluster.port)
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = \(port)
        unix_socket_dir =
        auth_type = trust
        auth_file = \(folder)/users
        pool_mode = transaction
        default_pool_size = 12
        max_client_conn = 1000
        server_idle_timeout = 5
        logfile = \(folder)/log
        \(settings.map { "\($0.key) = \($0.value)" }.sorted().joined(separator: "\n"))
        """.write(toFile: "\(folder)/ini", atomically: false, encoding: .utf8)
        try "\"\(PostgresCluster.user)\" \"\"\n".write(toFile: "\(folder)/users", atomically: false, encoding: .utf8)
        if let user = programs.user { try Subprocess.require("/bin/chown", ["-R", user, folder]) }
        process = try ChildProcess.mortal(
            ["/usr/sbin/pgbouncer", "-q", "\(folder)/ini"], account: Array(programs.account.dropFirst().dropLast()))
        try waitUntilItListens(cluster)
    }

    deinit { process.signal(SIGTERM) }

    /// A connection string (URI) to a database of the cluster.
    package func connectionString(database: String) -> String {
        "postgresql://\(PostgresCluster.user)@127.0.0.1:\(port)/\(database)"
    }

    private func waitUntilItListens(_ cluster: PostgresCluster) throws {
        let deadline = Date(timeIntervalSinceNow: 120)
        let words = ["-XqAtc", "SELECT 1", connectionString(database: "postgres")]
        while try Subprocess.run("/usr/bin/psql", words).status != 0 {
            guard process.exitStatus == nil, Date() < deadline else {
                let log = (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? ""
                throw CommandError(description: "pgbouncer does not listen: \(log.suffix(2000))")
            }
            usleep(20_000)
        }
    }
}
