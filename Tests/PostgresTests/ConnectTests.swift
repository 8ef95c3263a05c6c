// Getting in: what the error says when it does not work, several servers, names, and that no password ever shows.

import Foundation
import Glibc
import Reactor
import Telemetry
import TestSupport
import Testing

@testable import Postgres

@Suite("Connecting") struct ConnectTests {
    private func connect(_ address: String, patience: Duration = .zero) async throws -> PostgresError? {
        let configuration = try PostgresConfiguration(
            connectionString: address, applicationName: "tests", connectTimeout: .seconds(60))
        return try await onLoop { actor in
            do throws(PostgresError) {
                let connection = try await PostgresConnection.open(
                    loop: actor.loop, configuration: configuration, logger: .silent, patience: patience)
                let row = try await connection.query(PostgresStatement("SELECT 1"))
                #expect(row.rows == 1)
                connection.close()
                return nil
            } catch {
                return error
            }
        }
    }

    @Test("wrong password, no password, unknown user, unknown database, nobody there: each has its code")
    func refusals() async throws {
        let cluster = try PostgresCluster.shared()
        let user = PostgresCluster.passwordUser
        #expect(try await connect(cluster.connectionString(database: "postgres", user: user, password: "right")) == nil)
        let wrong = try await connect(cluster.connectionString(database: "postgres", user: user, password: "wr0ng"))
        #expect(wrong?.code == .authentication && wrong?.sqlState == "28P01" && wrong?.reaction == .alarm)
        #expect(wrong?.description.contains("wr0ng") == false && wrong?.hint.isEmpty == false)
        let none = try await connect(cluster.connectionString(database: "postgres", user: user) + "?passfile=/dev/null")
        #expect(none?.code == .authentication)
        let unknown = try await connect(cluster.connectionString(database: "nowhere"))
        #expect(unknown?.code == .unknownDatabase && unknown?.sqlState == "3D000" && unknown?.reaction == .alarm)
        let nobody = try await connect(cluster.connectionString(database: "postgres", user: "nobody_there"))
        #expect(nobody?.code == .authentication && nobody?.sqlState == "28000")
        let port = try FreePort.find()
        let start = MonotonicTime.now()
        let dead = try await connect("host=127.0.0.1 port=\(port) user=x dbname=y")
        #expect(dead?.code == .unreachable && dead?.reaction == .retry && dead?.message.contains("refused") == true)
        #expect(start.elapsedMilliseconds < 50_000)
        let nameless = try await connect("host=no-such-host.invalid user=x dbname=y")
        #expect(nameless?.code == .unreachable && nameless?.message.contains("no-such-host.invalid") == true)
    }

    @Test("patience covers a server that is not there yet, and nothing that waiting does not cure")
    func patience() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        let (address, missing) = (cluster.address, cluster.connectionString(database: "nowhere"))
        try cluster.stop(.fast)
        async let result = connect(address, patience: .seconds(120))
        try cluster.start()
        #expect(try await result == nil)
        let start = MonotonicTime.now()
        #expect(try await connect(missing, patience: .seconds(120))?.code == .unknownDatabase)
        // Far less than the patience: it did not wait for what waiting does not cure.
        #expect(start.elapsedMilliseconds < 90_000)
    }

    @Test("several hosts: the first dead, silent, nameless, read-only, or with another password")
    func severalHosts() async throws {
        let cluster = try PostgresCluster.shared()
        let (port, dead) = (cluster.port, try FreePort.find())
        #expect(try await connect("host=127.0.0.1,127.0.0.1 port=\(dead),\(port) user=postgres dbname=postgres") == nil)
        #expect(
            try await connect("host=nowhere.invalid,localhost port=\(port),\(port) user=postgres dbname=postgres")
                == nil)
        let hole = try PlainListener(.silent)
        defer { hole.close() }
        #expect(
            try await connect(
                "host=127.0.0.1,127.0.0.1 port=\(hole.port),\(port) user=postgres dbname=postgres connect_timeout=5")
                == nil)
        let standby = try PostgresCluster()
        defer { standby.remove() }
        try standby.stop(.fast)
        try standby.becomeStandby()
        #expect(
            try await connect("host=127.0.0.1,127.0.0.1 port=\(standby.port),\(port) user=postgres dbname=postgres")
                == nil)
        let only = try await connect(standby.address)
        #expect(only?.code == .readOnly && only?.reaction == .retry)
        #expect(try await connect(standby.address + " target_session_attrs=any") == nil)
        let user = PostgresCluster.passwordUser
        let worst = try await connect(
            "host=127.0.0.1,127.0.0.1 port=\(port),\(dead) user=\(user) password=wrong dbname=postgres")
        #expect(worst?.code == .authentication)
    }

    @Test("every wait of a socket is bounded")
    func socketOptions() async throws {
        let address = try sharedAddress()
        let configuration = try PostgresConfiguration(connectionString: address, applicationName: "tests")
        let libpq = try await onLoop { actor in
            try await withCheckedContinuation { continuation in
                Connector(configuration: configuration, logger: .silent).start(on: actor.loop) {
                    continuation.resume(returning: $0)
                }
            }.get()
        }
        func option(_ level: Int32, _ name: Int32) -> Int32 {
            var value: Int32 = -1
            var length = socklen_t(MemoryLayout<Int32>.size)
            getsockopt(libpq.descriptor, level, name, &value, &length)
            return value
        }
        #expect(option(SOL_SOCKET, SO_KEEPALIVE) == 1)
        #expect(option(Int32(IPPROTO_TCP), TCP_KEEPIDLE) == 15)
        #expect(option(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT) == 15_000)
        #expect(fcntl(libpq.descriptor, F_GETFD) & FD_CLOEXEC != 0)
    }

    @Test("notices of the server go to the logger")
    func notices() async throws {
        let lines = Guarded<[String]>([])
        let output = LogOutput(LogSettings(level: .debug)) { line in
            lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
            return true
        }
        try await withSession(logger: Logger(label: "db", output: output)) { session, _ in
            _ = try await session.query(
                PostgresStatement("DO $$ BEGIN RAISE NOTICE 'heard'; RAISE WARNING 'louder'; END $$"))
        }
        let heard = lines.withLock { $0.filter { $0.contains("db.message") } }
        #expect(heard.count { $0.contains(" info ") } == 1)
        #expect(heard.count { $0.contains(" warning ") } == 1)
        // What somebody's function says may hold values of rows.
        #expect(!heard.contains { $0.contains("heard") || $0.contains("louder") })
    }

    @Test("TLS verifies the name that was asked for, not the address it was found at")
    func verifiedName() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        let folder = cluster.folder
        try Subprocess.require(
            "/usr/bin/openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                "\(folder)/data/server.key",
                "-out", "\(folder)/data/server.crt",
            ])
        try Subprocess.require("/bin/chmod", ["600", "\(folder)/data/server.key"])
        try Subprocess.require(
            "/bin/chown", ["--reference=\(folder)/data", "\(folder)/data/server.key", "\(folder)/data/server.crt"])
        try cluster.alterSystem("SET ssl = on")
        let certificate = folder + "/root.crt"
        try Subprocess.require("/bin/cp", ["\(folder)/data/server.crt", certificate])
        let common = "port=\(cluster.port) user=postgres dbname=postgres sslrootcert=\(certificate)"
        var good = try await connect("host=localhost sslmode=verify-full " + common)
        // The reload is not instant.
        for _ in 0..<50 where good != nil { good = try await connect("host=localhost sslmode=verify-full " + common) }
        #expect(good == nil)
        // A write to a TLS connection that has gone must not end the process by SIGPIPE.
        try await withSession("host=localhost sslmode=verify-full " + common) { session, _ in
            for _ in 1...5 {
                let pid = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int(0, 0)
                try cluster.execute("SELECT pg_terminate_backend(\(pid))")
                // The end may come before this call or in the middle of it, hardly ever after it.
                do throws(PostgresError) {
                    _ = try await session.query(PostgresStatement("SELECT 1"))
                } catch {
                    #expect(error.code == .connectionLost)
                }
            }
        }
        let wrongName = try await connect("host=127.0.0.1 sslmode=verify-full " + common)
        #expect(wrongName?.code == .untrusted && wrongName?.reaction == .alarm)
        let unknown = try await connect(
            "host=localhost sslmode=verify-full port=\(cluster.port) user=postgres dbname=postgres sslrootcert=/dev/null"
        )
        #expect(unknown?.code == .untrusted)
    }
}
