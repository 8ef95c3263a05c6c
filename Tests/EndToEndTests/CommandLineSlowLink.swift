// A database that is far away, or behind something that lets in and hangs up: verbs and the worker's checks at start wait for it as
// long as they say, and no wait breaks what it waits for.

import Foundation
import Postgres
import Reactor
import TLS
import Telemetry
import TestSupport
import Testing

@testable import PushStore

@Suite("A database behind a poor link") struct CommandLineSlowLink {
    private let database: TestDatabase
    private let pgpush: CommandLineRunner

    init() throws { (database, pgpush) = try migratedDatabase() }

    private func address(_ link: PoorLink) -> String {
        "host=127.0.0.1 port=\(link.port) user=\(PostgresCluster.user) dbname=\(database.name) sslmode=disable"
    }

    /// The checks of a worker through a link.
    private func check(_ link: PoorLink, within limit: Duration) throws -> Result<DatabaseFacts, CommandFailure> {
        let schema = try SchemaName("public")
        let configuration = try PostgresConfiguration(connectionString: address(link), applicationName: "test")
        let loop = try EventLoop(name: "test")
        try loop.start()
        defer {
            loop.stop()
            loop.join()
        }
        return try loop.runBlocking { _ in
            let session = PostgresSession(loop: loop, configuration: configuration, logger: .silent)
            defer { session.close() }
            do throws(CommandFailure) {
                return .success(try await StartUp.check(session, schema: schema, logger: .silent, within: limit))
            } catch {
                return .failure(error)
            }
        }
    }

    @Test("a round trip of 300 ms keeps no verb from its work") func farAway() throws {
        let link = try PoorLink(to: database.cluster.port, delay: 0.15)
        defer { link.close() }
        try pgpush.output("enqueue", "--user", "anna", "--title", "x")
        let result = try pgpush.on(address(link)).run("list")
        #expect(result.status == 0, "\(result.errors)")
        // One connection, made once.
        #expect(link.connections == 1)
        let facts = try check(link, within: .seconds(120)).get()
        #expect(link.connections == 2)
        #expect(facts.schemaVersion == SchemaVersion.newest)
        // The way there and back is no difference between the clocks.
        #expect(abs(facts.clockOffset.components.seconds) < 1)
    }

    @Test("a worker's first question may fail as its first connection may") func firstQuestion() throws {
        let link = try PoorLink(to: database.cluster.port, cuts: 3)
        defer { link.close() }
        #expect(try check(link, within: .seconds(120)).get().schemaVersion == SchemaVersion.newest)
        #expect(link.connections == 4)
    }

    @Test("a worker's patience with its first question has an end, and that is exit code 5") func noAnswer() throws {
        let link = try PoorLink(to: database.cluster.port, cuts: .max)
        defer { link.close() }
        let start = ContinuousClock.now
        guard case .failure(let failure) = try check(link, within: .seconds(6)) else {
            Issue.record("the checks have passed")
            return
        }
        #expect(failure.code == .databaseUnreachable)
        #expect((.seconds(6)...(.seconds(60))).contains(ContinuousClock.now - start))
        #expect(link.connections > 1)
    }

    @Test("a worker waits for the server behind a pooler") func pooler() throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        let database = try cluster.createEmptyDatabase()
        try CommandLineRunner(database).output("migrate")
        let pooler = try Pooler(before: cluster)
        let url = pooler.connectionString(database: database.name)
        // The pooler knows the database from now on, and lets clients in without asking.
        #expect(try pgpush.on(url).run("stats").status == 0)
        try cluster.stop()
        let worker = try pgpush.on(url).with([
            "APNS_KEY": try P256PrivateKey.generate().pkcs8PEM, "APNS_KEY_ID": "ABCDE12345",
            "APNS_TEAM_ID": "TEAM123456", "APNS_BUNDLE_ID": "com.example.app",
        ]).start("worker", "--once")
        #expect(worker.hasWritten("waiting for the database"), "\(worker.output)")
        try cluster.start()
        #expect(worker.exitCode() == 0, "\(worker.output)")
    }

    @Test("a clock that is wrong is found out") func clock() throws {
        // What stands before pg_catalog in the path is found first.
        try database.psql(
            """
            CREATE SCHEMA wrong;
            CREATE FUNCTION wrong.clock_timestamp() RETURNS timestamptz LANGUAGE sql
                RETURN pg_catalog.clock_timestamp() + interval '1 hour';
            ALTER DATABASE \(database.name) SET search_path = wrong, pg_catalog, public;
            """)
        let link = try PoorLink(to: database.cluster.port)
        defer { link.close() }
        let facts = try check(link, within: .seconds(120)).get()
        #expect((3_590...3_610).contains(facts.clockOffset.components.seconds))
    }
}

/// Carries bytes between clients and a server on 127.0.0.1, late, and breaks the first connections on which a client says COMMIT.
private final class PoorLink: @unchecked Sendable {
    let port: Int
    private let listener: Int32
    private let server: Int
    private let delay: Double
    private let lock = NSLock()
    private var cuts: Int
    private var accepted = 0

    /// `delay` is in seconds, one way; `cuts` connections are broken.
    init(to server: Int, delay: Double = 0, cuts: Int = 0) throws {
        self.server = server
        self.delay = delay
        self.cuts = cuts
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (socket, size) = (listener, length)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, size) | listen(socket, 16) | getsockname(socket, $0, &length)
            }
        }
        try #require(result == 0)
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread { [self] in accept() }.start()
    }

    /// How many connections were made so far.
    var connections: Int { lock.withLock { accepted } }

    func close() { shutdown(listener, Int32(SHUT_RDWR)) }

    private func accept() {
        while case let client = Glibc.accept(listener, nil, nil), client >= 0 {
            lock.withLock { accepted += 1 }
            let upstream = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = Self.loopback(server)
            let result = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(upstream, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            let ends = Ends(client, upstream)
            guard result == 0 else { continue }
            Thread { [self] in carry(from: client, to: upstream, ends, isFromClient: true) }.start()
            Thread { [self] in carry(from: upstream, to: client, ends, isFromClient: false) }.start()
        }
        Glibc.close(listener)
    }

    private func carry(from source: Int32, to target: Int32, _ ends: Ends, isFromClient: Bool) {
        let line = DispatchQueue(label: "line")
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(source, &buffer, buffer.count), count > 0 {
            let bytes = Array(buffer[..<count])
            if isFromClient, isCut(bytes) { break }
            let due = DispatchTime.now() + delay
            // The line is busy until these bytes are due, so they stay in order and none is early.
            line.async {
                while DispatchTime.now() < due { usleep(1_000) }
                _ = send(target, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            }
        }
        line.sync { ends.shutDown() }
    }

    private func isCut(_ bytes: [UInt8]) -> Bool {
        guard Data(bytes).range(of: Data("COMMIT".utf8)) != nil else { return false }
        return lock.withLock {
            guard cuts > 0 else { return false }
            cuts -= 1
            return true
        }
    }

    private static func loopback(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    /// The two sockets of a connection; closed when both directions have ended.
    private final class Ends: Sendable {
        private let client: Int32
        private let upstream: Int32

        init(_ client: Int32, _ upstream: Int32) { (self.client, self.upstream) = (client, upstream) }

        func shutDown() {
            shutdown(client, Int32(SHUT_RDWR))
            shutdown(upstream, Int32(SHUT_RDWR))
        }

        deinit {
            Glibc.close(client)
            Glibc.close(upstream)
        }
    }
}
