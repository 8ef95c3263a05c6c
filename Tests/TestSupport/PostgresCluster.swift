// A private PostgreSQL cluster for tests: own folder, own port, gone with the test process. Suites share one and get a database
// each, copied from a template with the schema in it; tests that stop or restart the server start a cluster of their own.

import Foundation

/// A running PostgreSQL server that belongs to this process.
package final class PostgresCluster: @unchecked Sendable {
    /// How a server is stopped.
    package enum StopMode: String {
        /// Sessions are ended, everything is written.
        case fast
        /// As in a crash: recovery at the next start.
        case immediate
    }

    /// The superuser, who needs no password.
    package static let user = "postgres"
    /// A role that needs `rightPassword` on TCP.
    package static let passwordUser = "needs_password"
    package static let rightPassword = "right"

    /// TCP port on 127.0.0.1.
    package let port: Int
    /// The folder that holds the data, the log and the unix socket.
    package let folder: String

    private let programs: PostgresPrograms
    private let watchdog: Watchdog
    private let lock = NSLock()
    private var names = 0
    private var template: Result<String, any Error>?
    private var administrator: PsqlSession?

    private static let sharedLock = NSLock()
    nonisolated(unsafe) private static var sharedCluster: Result<PostgresCluster, any Error>?

    /// The cluster that all suites of this process share; started at its first use.
    package static func shared() throws -> PostgresCluster {
        try sharedLock.withLock {
            let cluster = sharedCluster ?? Result { try PostgresCluster() }
            sharedCluster = cluster
            return try cluster.get()
        }
    }

    /// Starts a cluster of its own.
    ///
    /// - Parameter settings: further settings, such as `["max_connections": "20"]`.
    /// - Throws: when there is no PostgreSQL here, or it does not start; the end of its log is in the message.
    package init(settings: [String: String] = [:]) throws {
        programs = try PostgresPrograms.find()
        port = try FreePort.find()
        // Short, because the path of a unix socket may have 107 bytes only.
        folder = "/tmp/pgpush-test-\(getpid())-\(port)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if let user = programs.user { try Subprocess.require("/bin/chown", [user, folder]) }
        // Armed before there is anything to clean up. The folder is checked, since it is removed with all in it.
        watchdog = try Watchdog(
            script: """
                "$@" -D "$PGPUSH_FOLDER/data" -m immediate -w stop
                case "$PGPUSH_FOLDER" in /tmp/pgpush-test-*) rm -rf -- "$PGPUSH_FOLDER" ;; esac
                """,
            environment: ["PGPUSH_FOLDER": folder],
            arguments: programs.account + ["\(programs.folder)/pg_ctl"])
        try server(
            "initdb", ["-D", "\(folder)/data", "-U", Self.user, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"])
        try configure(settings)
        try start()
        try execute("CREATE ROLE \(Self.passwordUser) LOGIN SUPERUSER PASSWORD '\(Self.rightPassword)'")
    }

    /// Starts the server again.
    package func start() throws {
        try server("pg_ctl", ["-D", "\(folder)/data", "-l", "\(folder)/log", "-w", "-t", "300", "start"])
    }

    /// Stops the server; databases stay.
    package func stop(_ mode: StopMode = .fast) throws {
        lock.withLock {
            administrator?.close()
            administrator = nil
        }
        try server("pg_ctl", ["-D", "\(folder)/data", "-m", mode.rawValue, "-w", "-t", "300", "stop"])
    }

    /// Stops the server and removes everything; for clusters of one's own.
    package func remove() {
        lock.withLock { administrator?.close() }
        watchdog.fire()
    }

    /// The end of the server's log, to be looked at when a test fails.
    package var log: String { (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "" }

    /// A connection string (URI) over TCP.
    package func connectionString(database: String, user: String = user, password: String? = nil) -> String {
        "postgresql://\(user)\(password.map { ":\($0)" } ?? "")@127.0.0.1:\(port)/\(database)"
    }

    /// Runs statements in the database `postgres`.
    @discardableResult
    package func execute(_ sql: String) throws -> [[String?]] {
        let session = lock.withLock {
            let session = administrator ?? PsqlSession(self, database: "postgres")
            administrator = session
            return session
        }
        return try session.run(sql)
    }

    /// Makes a database with the schema of this repository, by copying the template.
    package func createDatabase() throws -> TestDatabase {
        let template = try schemaTemplate()
        let name = nextName()
        try execute("CREATE DATABASE \(name) TEMPLATE \(template)")
        return TestDatabase(cluster: self, name: name)
    }

    /// Makes a database with nothing in it.
    package func createEmptyDatabase(options: String = "") throws -> TestDatabase {
        let name = nextName()
        try execute("CREATE DATABASE \(name) \(options)")
        return TestDatabase(cluster: self, name: name)
    }

    private func nextName() -> String {
        lock.withLock {
            names += 1
            return "test_\(names)"
        }
    }

    private func schemaTemplate() throws -> String {
        // Made under the lock of all clusters, so that suites that start together wait for one another.
        try Self.templateLock.withLock {
            let made = template ?? Result { try makeTemplate() }
            template = made
            return try made.get()
        }
    }

    private static let templateLock = NSLock()

    private func makeTemplate() throws -> String {
        let name = "pgpush_template"
        try execute("CREATE DATABASE \(name)")
        let session = PsqlSession(self, database: name)
        defer { session.close() }
        try session.run(try SchemaFiles.script())
        return name
    }

    private func configure(_ settings: [String: String]) throws {
        let all = [
            "port": "\(port)", "listen_addresses": "'127.0.0.1'", "unix_socket_directories": "'\(folder)'",
            "fsync": "off", "full_page_writes": "off", "autovacuum": "off",
            "max_connections": "200", "shared_buffers": "128MB", "max_wal_size": "2GB", "timezone": "'UTC'",
            "log_timezone": "'UTC'", "password_encryption": "'scram-sha-256'",
        ].merging(settings) { $1 }
        let lines = all.map { "\($0.key) = \($0.value)" }.sorted().joined(separator: "\n")
        try append("\n\(lines)\n", to: "data/postgresql.conf")
        let access = """
            host all \(Self.passwordUser) 127.0.0.1/32 scram-sha-256
            local all all trust
            host all all 127.0.0.1/32 trust

            """
        try access.write(toFile: "\(folder)/data/pg_hba.conf", atomically: false, encoding: .utf8)
    }

    private func append(_ text: String, to file: String) throws {
        guard let handle = FileHandle(forWritingAtPath: "\(folder)/\(file)") else {
            throw CommandError(description: "cannot write \(folder)/\(file)")
        }
        defer { try? handle.close() }
        try handle.seekToEnd()
        try handle.write(contentsOf: Data(text.utf8))
    }

    private func server(_ name: String, _ arguments: [String]) throws {
        let (executable, all) = programs.command(name, arguments)
        do {
            try Subprocess.require(executable, all)
        } catch {
            throw CommandError(description: "\(error)\n\(log.suffix(2000))")
        }
    }
}
