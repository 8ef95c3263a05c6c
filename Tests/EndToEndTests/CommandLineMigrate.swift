// migrate on real databases: fresh, again, side by side, in the way of others.

import Foundation
import Schema
import TestSupport
import Testing

@testable import PushStore

@Suite("pgpush migrate") struct CommandLineMigrate {
    private func emptyDatabase(_ options: String = "") throws -> (TestDatabase, CommandLineRunner) {
        let database = try PostgresCluster.shared().createEmptyDatabase(options: options)
        return (database, try CommandLineRunner(database))
    }

    /// SwiftPM does not list embedded files, so this notices one that was forgotten.
    @Test func everyFileIsEmbedded() throws {
        func onDisk(_ folder: String) throws -> [String] {
            try SchemaFiles.names(folder).map { String($0.dropLast(4)) }
        }
        #expect(try onDisk("migrations") == Schema.migrations.map(\.name))
        #expect(try onDisk("objects") == (Schema.objects + Schema.roles).map(\.name).sorted())
        for file in Schema.migrations {
            let text = try String(contentsOfFile: "\(SchemaFiles.folder)/migrations/\(file.name).sql", encoding: .utf8)
            #expect(file.text == text)
        }
        #expect(MigrationScript.migrations.compactMap(\.number) == Array(1...MigrationScript.migrations.count))
        #expect(SchemaVersion.supported.contains(SchemaVersion.newest))
    }

    @Test func freshAndAgain() throws {
        let (database, pgpush) = try emptyDatabase()
        let before = try pgpush.run("migrate", "--status", "--json")
        #expect(before.status == 1)
        let first = try #require(try CommandLineRunner.objects(before.output).first)
        #expect(first["version"] as? Int == 0)
        #expect(first["missing"] as? [String] == Schema.migrations.map(\.name))

        let made = try #require(try pgpush.objects("migrate").first)
        #expect(made["from"] as? Int == 0)
        #expect(made["version"] as? Int == SchemaVersion.newest)
        #expect(made["applied"] as? [String] == Schema.migrations.map(\.name))

        let rows = try database.value(
            "SELECT string_agg(md5(m::text), '' ORDER BY version) FROM pgpush_migrations m WHERE version > 0")
        let again = try #require(try pgpush.objects("migrate").first)
        #expect(again["applied"] as? [String] == [])
        #expect(
            try database.value(
                "SELECT string_agg(md5(m::text), '' ORDER BY version) FROM pgpush_migrations m WHERE version > 0")
                == rows)

        let after = try #require(try pgpush.objects("migrate", "--status").first)
        #expect(after["current"] as? Bool == true)
        #expect(after["altered"] as? [String] == [])
        #expect(try database.number("SELECT count(*) FROM devices") == 0)
    }

    @Test func eightAtOnce() async throws {
        let (database, pgpush) = try emptyDatabase()
        let results = try await withThrowingTaskGroup(of: (Int32, String).self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let result = try pgpush.run("migrate", "--schema", "push", "--json")
                    return (result.status, result.output + result.errors)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.allSatisfy { $0.0 == 0 }, "\(results)")
        let applied = try results.flatMap { try CommandLineRunner.objects($0.1) }.flatMap {
            $0["applied"] as? [String] ?? []
        }
        #expect(applied.sorted() == Schema.migrations.map(\.name))
        #expect(
            try database.number("SELECT count(*) FROM push.pgpush_migrations WHERE version > 0")
                == Schema.migrations.count)
        // Everything lies in that schema, and nothing in public.
        #expect(try database.number("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == 0)
        #expect(try database.number("SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace") == 0)
        let id = try pgpush.with(["PGPUSH_SCHEMA": "push"]).output("enqueue", "--user", "7", "--body", "x")
        #expect(try database.value("SELECT user_id FROM push.scheduled_notifications WHERE id = \(id)") == "7")
    }

    @Test func foreignObjectsAreNamedAndNothingIsDone() throws {
        let (database, pgpush) = try emptyDatabase()
        try database.psql(
            """
            CREATE TABLE devices (x int);
            CREATE FUNCTION settle() RETURNS int LANGUAGE sql AS 'SELECT 1';
            CREATE TYPE pgpush_unit AS ENUM ();
            """)
        let result = try pgpush.run("migrate")
        #expect(result.status == 1)
        for name in ["table devices", "function settle", "type pgpush_unit"] { #expect(result.errors.contains(name)) }
        #expect(result.errors.contains("--schema"))
        #expect(try database.number("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == 1)
        #expect(try database.number("SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace") == 1)
        // Beside them there is room.
        try pgpush.output("migrate", "--schema", "beside")
        #expect(try database.value("SELECT 1 FROM devices LIMIT 1") == nil)
    }

    @Test func foreignRecordIsRefused() throws {
        let (database, pgpush) = try emptyDatabase()
        try database.psql("CREATE TABLE pgpush_migrations (version text)")
        let result = try pgpush.run("migrate")
        #expect(result.status == 1)
        #expect(result.errors.contains("table pgpush_migrations"))
        #expect(try pgpush.run("migrate", "--status").status == 1)
    }

    /// What somebody dropped or changed by hand comes back with the next migrate.
    @Test func objectsAreRenewed() throws {
        let (database, pgpush) = try migratedDatabase()
        try database.psql("DROP FUNCTION apns_id_device(uuid)")
        try pgpush.output("migrate")
        #expect(try database.value("SELECT apns_id_device(apns_id(1, 5))") == "5")
    }

    /// A table that somebody holds is waited for.
    @Test func waitsForLocks() throws {
        let (database, pgpush) = try migratedDatabase()
        let session = database.openSession()
        defer { session.close() }
        try session.run("BEGIN; LOCK TABLE devices IN ACCESS EXCLUSIVE MODE")
        let migrating = try pgpush.start("migrate")
        let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'devices'::regclass AND NOT granted"
        let deadline = Date().addingTimeInterval(30)
        while try database.number(waiting) == 0, Date() < deadline {}
        #expect(try database.number(waiting) > 0)
        try session.run("COMMIT")
        #expect(migrating.exitCode() == 0)
    }

    @Test func environmentDefault() throws {
        let (database, pgpush) = try emptyDatabase()
        func fresh() throws -> String? {
            try database.value(
                "INSERT INTO devices (user_id, device_token) VALUES ('1', md5(random()::text)) RETURNING environment")
        }
        try pgpush.output("migrate")
        #expect(try fresh() == "production")
        try pgpush.with(["APNS_ENVIRONMENT": "development"]).output("migrate")
        #expect(try fresh() == "sandbox")
        // Without the variable it stays as it is.
        try pgpush.output("migrate")
        #expect(try fresh() == "sandbox")
        try pgpush.with(["APNS_ENVIRONMENT": "production"]).output("migrate")
        #expect(try fresh() == "production")
        let result = try pgpush.with(["APNS_ENVIRONMENT": "staging"]).run("migrate")
        #expect(result.status == 4)
        #expect(result.errors.contains("APNS_ENVIRONMENT"))
    }

    @Test func goesAroundThePooler() throws {
        let (database, pgpush) = try emptyDatabase()
        let direct = pgpush.with([
            "DATABASE_URL": "postgresql://127.0.0.1:1/none", "DATABASE_DIRECT_URL": database.connectionString,
        ])
        try direct.output("migrate")
        #expect(try database.number("SELECT count(*) FROM devices") == 0)
    }

    @Test func encodingMustBeUTF8() throws {
        let (_, pgpush) = try emptyDatabase("TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        let result = try pgpush.run("migrate")
        #expect(result.status == 4)
        #expect(result.errors.contains("LATIN1") && result.errors.contains("hint:"))
    }

    @Test func newerSchemaIsLeftAlone() throws {
        let (database, pgpush) = try migratedDatabase()
        try database.psql("INSERT INTO pgpush_migrations (version, name) VALUES (9999, 'm9999_future')")
        let result = try pgpush.run("migrate")
        #expect(result.status == 4)
        #expect(result.errors.contains("9999"))
        #expect(try pgpush.run("migrate", "--status").status == 1)
    }

    @Test func missingRightsAreExplained() throws {
        let (database, pgpush) = try emptyDatabase()
        let role = "nobody_\(database.name)"
        try database.psql("CREATE ROLE \(role) LOGIN")
        let url = database.cluster.connectionString(database: database.name, user: role)
        let result = try pgpush.on(url).run("migrate")
        #expect(result.status == 4)
        #expect(result.errors.contains("SQLSTATE 42501") && result.errors.contains("hint:"))
    }

    /// Each role can do its work by the verbs that are meant for it, and no more.
    @Test func roles() throws {
        let (database, pgpush) = try emptyDatabase()
        try pgpush.output("migrate", "--roles")
        try pgpush.output("migrate", "--roles")
        func user(_ role: String) throws -> CommandLineRunner {
            let name = "\(role)_of_\(database.name)"
            try database.psql("CREATE ROLE \(name) LOGIN IN ROLE pgpush_\(role)")
            return pgpush.on(database.cluster.connectionString(database: database.name, user: name))
        }
        let token = String(repeating: "ab", count: 32)
        let producer = try user("producer")
        #expect(try producer.output("devices", "register", "-u", "1", "-t", token) == "1")
        #expect(try producer.objects("enqueue", "-u", "1", "--body", "x").first?["status"] as? String == "pending")
        #expect(try producer.output("enqueue", "-u", "1", "--body", "x", "--at", "+1h") == "2")
        #expect(try producer.run("reschedule", "2", "+2h").status == 0)
        #expect(try producer.run("cancel", "2").status == 0)
        let denied = try producer.run("show", "1")
        #expect(denied.status == 4)
        #expect(denied.errors.contains("SQLSTATE 42501") && denied.errors.contains("hint:"))

        let operatorUser = try user("operator")
        for words in [["list"], ["show", "1"], ["why", "1"], ["stats"], ["apps", "list"], ["devices", "list"]] {
            let result = try Subprocess.run(CommandLineRunner.executable, words, environment: operatorUser.environment)
            #expect(result.status == 0, "\(words): \(result.errors)")
        }
        #expect(try operatorUser.run("apps", "pause", "default").status == 0)
        #expect(try operatorUser.run("apps", "resume", "default").status == 0)
        #expect(try operatorUser.run("retry", "2").status == 0)
        #expect(try operatorUser.run("cancel", "1").status == 0)
        #expect(try operatorUser.run("enqueue", "-u", "1", "--body", "x").status == 4)

        let worker = try user("worker")
        let checks = try CommandLineRunner.objects(try worker.run("doctor", "--json").output)
        for name in ["database", "schema", "roles", "environment"] {
            #expect(checks.first { $0["check"] as? String == name }?["state"] as? String == "ok", "\(name)")
        }
        #expect(try worker.run("list").status == 4)
        #expect(try user("monitor").run("show", "1").status == 4)
    }

    @Test(arguments: ["a'b", "a\"b", "pg_temp", ""]) func badSchemaNames(_ name: String) throws {
        let (_, pgpush) = try emptyDatabase()
        let result = try pgpush.run("migrate", "--schema", name)
        #expect(result.status == 4)
        #expect(result.errors.contains("--schema"))
    }
}
