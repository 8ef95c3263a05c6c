// The ground that the other suites stand on.

import Foundation
import TestSupport
import Testing

@Suite struct ClusterTests {
    @Test func rowsAndErrorsComeAsTheServerSentThem() throws {
        let database = try PostgresCluster.shared().createDatabase()
        let rows = try database.psql("SELECT 1, NULL, E'a,\"b\"\\nc', ''; SELECT 'second'")
        #expect(rows == [["1", nil, "a,\"b\"\nc", ""], ["second"]])
        let failure = #expect(throws: SQLFailure.self) {
            try database.psql("INSERT INTO scheduled_notifications (title) VALUES ('x')")
        }
        #expect(failure?.sqlState == "PN001")
        #expect(failure?.column == "user_id")
        #expect(failure?.message == "user_id: the notification has no target")
        #expect(failure?.hint?.hasPrefix("Set exactly one") == true)
        #expect(try database.number("SELECT 1") == 1)
    }

    @Test func aPrivateClusterStopsAndStarts() throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        let database = try cluster.createEmptyDatabase()
        try database.psql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
        try cluster.stop(.immediate)
        #expect(throws: (any Error).self) { try database.psql("SELECT 1") }
        try cluster.start()
        #expect(try database.number("SELECT n FROM kept") == 7)
        #expect(FileManager.default.fileExists(atPath: cluster.folder))
        cluster.remove()
        #expect(!FileManager.default.fileExists(atPath: cluster.folder))
    }

    @Test func theSchemaFitsIntoAnySchema() throws {
        let database = try PostgresCluster.shared().createEmptyDatabase()
        for schema in ["push", "Odd Name"] {
            try database.psql(SchemaFiles.script(schema: schema))
            try database.psql(
                SchemaFiles.script(schema: schema).replacing(
                    "BEGIN;", with: "BEGIN; DROP SCHEMA \"\(schema)\" CASCADE;"))
            try database.psql(
                """
                INSERT INTO "\(schema)".devices (user_id, device_token) VALUES ('a', 'aabbccdd');
                INSERT INTO "\(schema)".scheduled_notifications (user_id, title) VALUES ('a', 'x')
                """)
            let claimed = try database.number(
                """
                SELECT count(*) FROM "\(schema)".claim_notifications(gen_random_uuid(), '{default}', '{24h}', 10, 500, '75 s')
                """)
            #expect(claimed == 1)
        }
        // Nothing was left in public.
        #expect(try database.number("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == 0)
    }

    @Test func objectsCanBeMadeAnewOverAndOver() throws {
        let database = try PostgresCluster.shared().createDatabase()
        try database.psql("BEGIN; SET LOCAL search_path = public;" + SchemaFiles.objects() + "COMMIT")
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 0)
    }
}
