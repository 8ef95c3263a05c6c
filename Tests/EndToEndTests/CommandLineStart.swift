// What stops a verb or the worker before it begins: exit codes 2, 4 and 5, one clear line each; and doctor, which finds it all.

import Foundation
import Postgres
import Reactor
import TLS
import Telemetry
import TestSupport
import Testing

@testable import PushStore
@testable import pgpush

@Suite("pgpush at start") struct CommandLineStart {
    private let database: TestDatabase
    private let pgpush: CommandLineRunner
    private let credentials: [String: String]

    init() throws {
        (database, pgpush) = try migratedDatabase()
        credentials = [
            "APNS_KEY": try P256PrivateKey.generate().pkcs8PEM, "APNS_KEY_ID": "ABCDE12345",
            "APNS_TEAM_ID": "TEAM123456",
            "APNS_BUNDLE_ID": "com.example.app", "APNS_PRODUCTION_URL": "https://127.0.0.1:1",
            "APNS_SANDBOX_URL": "https://127.0.0.1:1",
        ]
    }

    /// Runs a worker that must not start; returns the lines of its complaint.
    private func refusal(_ changes: [String: String], _ options: String..., expecting code: Int32 = 4) throws -> String
    {
        let result = try Subprocess.run(
            CommandLineRunner.executable, ["worker", "--once"] + options,
            environment: pgpush.with(credentials).with(changes).environment)
        #expect(result.status == code, "\(result.errors)")
        #expect(result.output.isEmpty)
        let lines = result.errors.split(separator: "\n")
        #expect(lines.count <= 3 && lines.first?.hasPrefix("pgpush worker: ") == true, "\(result.errors)")
        return result.errors
    }

    @Test func onceWithNothingToDo() throws {
        let result = try pgpush.with(credentials).run("worker", "--once")
        #expect(result.status == 0, "\(result.errors)")
    }

    /// Nobody listens on port 1: cron is told so, and the row waits for the next run.
    @Test func onceWithoutAnybodyToReach() throws {
        try pgpush.output("devices", "register", "--user", "anna", "--token", String(repeating: "ab", count: 32))
        let id = try pgpush.output("enqueue", "--user", "anna", "--title", "x")
        let result = try pgpush.with(credentials).run("worker", "--once")
        #expect(result.status == 6, "\(result.errors)")
        #expect(result.errors.contains("Apple's service could not be reached"))
        #expect(result.errors.contains("pgpush doctor"))
        #expect(try pgpush.output("list", "--json").contains("\"pending\""), "notification \(id)")
    }

    @Test(arguments: ["APNS_KEY", "APNS_KEY_ID", "APNS_TEAM_ID", "APNS_BUNDLE_ID"])
    func missingCredential(_ variable: String) throws {
        #expect(try refusal([variable: ""]).contains(variable))
    }

    @Test func unusableKeys() throws {
        #expect(try refusal(["APNS_KEY": "", "APNS_KEY_PATH": "/nonexistent/key.p8"]).contains("/nonexistent/key.p8"))
        #expect(
            try refusal(["APNS_KEY": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]).contains(
                "APNS_KEY"))
        #expect(try refusal(["APNS_KEY_ID": "short"]).contains("APNS_KEY_ID"))
        #expect(try refusal(["APNS_CA_PATH": "/etc/hostname"]).contains("APNS_CA_PATH"))
        #expect(try refusal(["APNS_PRODUCTION_URL": "http://plain"]).contains("APNS_PRODUCTION_URL"))
        #expect(try refusal(["APNS_PROXY_URL": "https://proxy:3128"]).contains("APNS_PROXY_URL"))
        #expect(try refusal(["APNS_MANAGE_URL": "http://plain:2196"]).contains("APNS_MANAGE_URL"))
        let password = try refusal(["APNS_CERT_PASSWORD": "s3cret"])
        #expect(password.contains("APNS_CERT_PATH is not set") && !password.contains("s3cret"))
        let foreign = try refusal([
            "APNS_CERT_PATH": "/nonexistent/c.p12", "APNS_CERT_PASSWORD": "s3cret", "APNS_KEY": "",
        ])
        #expect(foreign.contains("/nonexistent/c.p12") && !foreign.contains("s3cret"))
    }

    @Test func unusableSettings() throws {
        #expect(try refusal(["PGPUSH_LOG_LEVEL": "loud"]).contains("PGPUSH_LOG_LEVEL"))
        #expect(try refusal(["PGPUSH_SCHEMA": "a\"b"]).contains("PGPUSH_SCHEMA"))
        #expect(try refusal(["DATABASE_URL": "postgresql://%zz"]).contains("connection string"))
        #expect(try refusal([:], "--lanes", "0", expecting: 2).contains("--lanes"))
        #expect(try refusal([:], "--connections", "17", expecting: 2).contains("--connections"))
        let tooMany = try refusal([:], "--lanes", "4", "--connections", "2", expecting: 2)
        #expect(tooMany.contains("--lanes 4 is more than --connections 2"))
        #expect(try refusal([:], "--grace=-1", expecting: 2).contains("--grace"))
    }

    @Test func wrongPassword() throws {
        let wrong = database.cluster.connectionString(
            database: database.name, user: PostgresCluster.passwordUser, password: "a-wrong-one")
        let complaint = try refusal(["DATABASE_URL": wrong])
        #expect(complaint.contains("SQLSTATE 28P01"))
        #expect(!complaint.contains("a-wrong-one"))
        #expect(try pgpush.with(["DATABASE_URL": wrong]).run("list").status == 4)
    }

    @Test func unknownDatabase() throws {
        let url = database.cluster.connectionString(database: "no_such_database")
        #expect(try refusal(["DATABASE_URL": url]).contains("no_such_database"))
        #expect(try pgpush.with(["DATABASE_URL": url]).run("stats").status == 4)
    }

    @Test func schemaOutsideTheRange() throws {
        #expect(try refusal(["PGPUSH_SCHEMA": "elsewhere"]).contains("pgpush migrate"))
        try database.psql("INSERT INTO pgpush_migrations (version, name) VALUES (9999, 'm9999_future')")
        #expect(try refusal([:]).contains("9999"))
        try database.psql("DELETE FROM pgpush_migrations WHERE version > 1")
        #expect(try refusal([:]).contains("pgpush migrate"))
        // Verbs of operators on a schema that is not there.
        let result = try pgpush.run("list", "--schema", "elsewhere")
        #expect(result.status == 4)
        #expect(result.errors.contains("pgpush migrate"))
    }

    @Test func nothingToReach() throws {
        let result = try pgpush.with(["DATABASE_URL": "postgresql://127.0.0.1:1/x"]).run("list")
        #expect(result.status == 5)
        #expect(result.errors.contains("127.0.0.1:1"))
    }

    /// A worker is patient: the same check with a bound that a test can wait for.
    @Test func nothingToReachForAWhile() throws {
        let schema = try SchemaName("public")
        let loop = try EventLoop(name: "test")
        try loop.start()
        defer {
            loop.stop()
            loop.join()
        }
        let (failure, seconds) = try loop.runBlocking { _ in
            let configuration = try PostgresConfiguration(
                connectionString: "postgresql://127.0.0.1:1/x", applicationName: "test")
            let session = PostgresSession(loop: loop, configuration: configuration, logger: .silent)
            defer { session.close() }
            let start = MonotonicTime.now()
            do throws(CommandFailure) {
                _ = try await StartUp.check(session, schema: schema, logger: .silent, within: .seconds(1))
                return (nil as CommandFailure?, 0.0)
            } catch {
                return (error, Double(MonotonicTime.now().since(start).wholeNanoseconds) / 1e9)
            }
        }
        #expect(failure?.code == .databaseUnreachable)
        #expect(failure?.message.contains("127.0.0.1:1") == true)
        #expect(seconds >= 1 && seconds < 60)
    }

    /// Nothing is claimed while a worker waits for its database, so a signal ends it at once.
    @Test(arguments: [SIGTERM, SIGINT]) func signalsWhileWaiting(_ signal: Int32) throws {
        let waiting = try pgpush.with(credentials).with(["DATABASE_URL": "postgresql://127.0.0.1:1/x"]).start("worker")
        #expect(waiting.hasWritten("waiting for the database"))
        waiting.send(signal)
        #expect(waiting.exitCode() == (signal == SIGINT ? 130 : 0))
    }

    /// A password stands in no message and no log, whatever goes wrong.
    @Test func secretsStayOut() throws {
        let url = "postgresql://user:topsecret@127.0.0.1:1/x"
        let loud = pgpush.with(credentials).with(["DATABASE_URL": url, "PGPUSH_LOG_LEVEL": "trace"])
        let key = try #require(credentials["APNS_KEY"]?.split(separator: "\n").dropFirst().first)
        let waiting = try loud.start("worker")
        #expect(waiting.hasWritten("waiting for the database"))
        waiting.send(SIGTERM)
        _ = waiting.exitCode()
        for text in [waiting.output, try loud.run("doctor").output, try loud.run("list").errors] {
            #expect(!text.contains("topsecret") && !text.contains(key))
        }
    }

    // MARK: Help

    @Test func helpAndVersion() throws {
        #expect(try CommandLineRunner().output("--version") == "pgpush \(Version.text)")
        let help = try CommandLineRunner().output("--help")
        for word in ["migrate", "worker", "enqueue", "devices", "doctor", "Exit codes:"] {
            #expect(help.contains(word))
        }
        #expect(try CommandLineRunner().output("devices", "--help").contains("register"))
        #expect(try CommandLineRunner().output("help", "devices", "list").hasPrefix("Usage: pgpush devices list"))
        #expect(try CommandLineRunner().output("worker", "--help").contains("--poll-interval"))
        let nothing = try CommandLineRunner().run()
        #expect(nothing.status == 2)
        #expect(nothing.output.isEmpty && nothing.errors.hasPrefix("Usage: pgpush"))
        #expect(try CommandLineRunner().run("frobnicate").status == 2)
        #expect(try CommandLineRunner().run("list", "--frobnicate").status == 2)
        #expect(try CommandLineRunner().run("list", "operand").status == 2)
    }

    // MARK: doctor

    @Test func doctorFindsNothing() async throws {
        try await SimulatorProcess.run { simulator in try examine(pgpush.with(simulator.environment)) }
    }

    private func examine(_ well: CommandLineRunner) throws {
        let result = try well.run("doctor")
        #expect(result.status == 0, "\(result.output)\(result.errors)")
        #expect(!result.output.contains("fail") && !result.output.contains("\u{1B}"))
        let checks = try well.objects("doctor")
        #expect(
            checks.compactMap { $0["check"] as? String } == [
                "credentials", "database", "schema", "roles", "environment", "clock", "trust", "production", "sandbox",
            ])
        #expect(checks.allSatisfy { $0["state"] as? String == "ok" })
        // Without the simulator's CA its certificate is not trusted.
        let untrusted = try well.with(["APNS_CA_PATH": ""]).run("doctor")
        #expect(untrusted.status == 6)
        #expect(untrusted.output.contains("was not accepted"))
    }

    @Test func doctorFindsEverything() throws {
        func states(_ changes: [String: String]) throws -> (Int32, [String: String]) {
            let result = try pgpush.with(credentials).with(changes).run("doctor", "--json")
            let checks = try CommandLineRunner.objects(result.output)
            for check in checks where check["state"] as? String != "ok" {
                // What the APNs module says of a setting ends in the remedy.
                let saysItself = ["credentials", "addresses"].contains(check["check"] as? String)
                #expect(check["remedy"] is String || saysItself, "\(check)")
            }
            let pairs = checks.map { ($0["check"] as? String ?? "", $0["state"] as? String ?? "") }
            return (result.status, Dictionary(pairs) { first, _ in first })
        }
        // Nobody listens on port 1: that alone is 6.
        #expect(try states([:]).0 == 6)
        let (code, found) = try states(["APNS_KEY_ID": ""])
        #expect(code == 4)
        #expect(found["credentials"] == "fail" && found["database"] == "ok" && found["production"] == "fail")
        #expect(try states(["DATABASE_URL": "postgresql://127.0.0.1:1/x"]).0 == 5)
        #expect(try states(["PGPUSH_SCHEMA": "elsewhere"]).1["schema"] == "fail")
        #expect(try states(["APNS_ENVIRONMENT": "sandbox"]).1["environment"] == "warn")
        #expect(try states(["APNS_CA_PATH": "/etc/hostname"]).1["trust"] == "fail")
        #expect(try states(["APNS_SANDBOX_URL": "nonsense"]).1["addresses"] == "fail")
        try pgpush.output("apps", "pause", "default")
        #expect(try states([:]).1["pauses"] == "warn")
        try database.psql("INSERT INTO pgpush_migrations (version, name) VALUES (9999, 'm9999_future')")
        #expect(try states([:]).1["schema"] == "fail")
    }

    @Test func doctorLooksAtRights() throws {
        let role = "guest_\(database.name)"
        try database.psql("CREATE ROLE \(role) LOGIN; REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC")
        try database.psql(
            "GRANT USAGE ON SCHEMA public TO \(role); GRANT SELECT ON ALL TABLES IN SCHEMA public TO \(role); "
                + "GRANT EXECUTE ON FUNCTION pgpush_default_environment() TO \(role)")
        let url = database.cluster.connectionString(database: database.name, user: role)
        let result = try pgpush.with(credentials).with(["DATABASE_URL": url]).run("doctor", "--json")
        #expect(result.status == 4)
        let checks = try CommandLineRunner.objects(result.output)
        let roles = try #require(checks.first { $0["check"] as? String == "roles" })
        #expect(roles["state"] as? String == "fail")
        #expect((roles["remedy"] as? String)?.contains("pgpush_worker") == true)
    }
}
