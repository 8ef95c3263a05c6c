// A pgbouncer of a test's own, in transaction mode with two server connections, which are wiped (DISCARD ALL) after each
// transaction: whatever depends on the session shows.

import Foundation
import TestSupport

/// A running pgbouncer in front of a cluster.
final class Pooler: Sendable {
    let port: Int
    private let folder: String
    private let cluster: PostgresCluster

    /// Starts it; `pool` is the number of server connections.
    init(to cluster: PostgresCluster, pool: Int = 2) throws {
        self.cluster = cluster
        port = try FreePort.find()
        folder = "\(cluster.folder)/pooler-\(port)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let settings = """
            [databases]
            * = host=127.0.0.1 port=\(cluster.port)
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = \(port)
            unix_socket_dir =
            auth_type = scram-sha-256
            auth_file = \(folder)/users
            pool_mode = transaction
            default_pool_size = \(pool)
            server_reset_query = DISCARD ALL
            server_reset_query_always = 1
            logfile = \(folder)/log
            pidfile = \(folder)/pid
            server_login_retry = 1
            """
        try settings.write(toFile: "\(folder)/ini", atomically: false, encoding: .utf8)
        try "\"postgres\" \"pooled\"\n".write(toFile: "\(folder)/users", atomically: false, encoding: .utf8)
        let command = ["/usr/sbin/pgbouncer", "-d", "\(folder)/ini"]
        if getuid() == 0 {
            try Subprocess.require("/bin/chown", ["-R", "postgres", folder])
            try Subprocess.require(
                "/usr/bin/setpriv", ["--reuid=postgres", "--regid=postgres", "--init-groups", "--"] + command)
        } else {
            try Subprocess.require(command[0], Array(command.dropFirst()))
        }
        // It becomes a daemon before it is ready.
        for _ in 0..<1000 where !log.contains("process up") { usleep(10_000) }
    }

    /// A connection string that leads through the pooler.
    var address: String { "host=127.0.0.1 port=\(port) user=postgres password=pooled dbname=postgres sslmode=disable" }

    /// What the pooler wrote.
    var log: String { (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "" }

    func stop() {
        guard let text = try? String(contentsOfFile: "\(folder)/pid", encoding: .utf8),
            let pid = Int32(text.split(separator: "\n").first ?? "")
        else { return }
        kill(pid, SIGQUIT)
    }
}
