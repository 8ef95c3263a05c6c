// pgpush with no more rights than it needs, and in a schema of its own.

import TestSupport
import Testing

@Suite("With few rights") struct Rights {
    @Test("a producer inserts, a worker that may read no table sends, an operator cancels")
    func roles() async throws {
        try await Rig.run { rig in
            #expect(try rig.pgpush("migrate", "--roles").status == 0)
            try rig.psql(
                """
                CREATE ROLE e2e_producer LOGIN IN ROLE pgpush_producer;
                CREATE ROLE e2e_worker LOGIN IN ROLE pgpush_worker;
                CREATE ROLE e2e_operator LOGIN IN ROLE pgpush_operator;
                """)
            defer {
                _ = try? rig.psql(
                    """
                    DROP ROLE IF EXISTS e2e_producer, e2e_worker, e2e_operator
                    """)
            }
            let cluster = rig.database.cluster
            func url(_ role: String) -> String { cluster.connectionString(database: rig.database.name, user: role) }
            let producer = PsqlSession(cluster, database: rig.database.name, connection: url("e2e_producer"))
            defer { producer.close() }
            try producer.run(
                """
                SELECT register_device(user_id => 'user-' || i, device_token => t)
                FROM unnest(ARRAY['\(DeviceTokens.plain(1))', '\(DeviceTokens.magic("2410"))', '\(DeviceTokens.magic("0429"))']) WITH ORDINALITY x(t, i);
                INSERT INTO scheduled_notifications (user_id, body) VALUES ('user-1', 'x');
                INSERT INTO scheduled_notifications (broadcast, body) VALUES (true, 'x');
                INSERT INTO scheduled_notifications (user_ids, body) VALUES ('{user-1,user-2,user-3}', 'x');
                INSERT INTO scheduled_notifications (user_id, body, scheduled_at) VALUES ('user-1', 'x', now() + interval '1 hour');
                """)
            try rig.psql("UPDATE devices SET registered_at = registered_at - interval '1 hour'")

            try rig.holdRetries()
            // Retries, splits, retirements, sweeps, the list of workers: all by functions.
            let worker = try rig.worker(
                "--batch-size", "2",
                more: ["DATABASE_URL": url("e2e_worker"), "DATABASE_DIRECT_URL": url("e2e_worker")])
            let unfinished = "SELECT count(*) FROM scheduled_notifications WHERE status NOT IN ('sent', 'pending')"
            try await rig.eventually(
                "SELECT count(*) FROM notification_batches WHERE state = 'ready' AND attempts = 2", is: "1")
            try rig.psql("UPDATE notification_batches SET not_before = now(); NOTIFY pgpush")
            try await rig.eventually(unfinished, is: "0")
            try await worker.stop()
            #expect(!worker.log.contains("42501") && !worker.log.contains("permission"), "\(worker.log)")
            let outcomes = try rig.psql(
                "SELECT id, status, accepted_count, rejected_count FROM scheduled_notifications ORDER BY id")
            #expect(
                outcomes.map { $0[1...] } == [
                    ["sent", "1", "0"], ["sent", "2", "1"], ["sent", "2", "1"], ["pending", "0", "0"],
                ])

            let cancel = try rig.pgpush("cancel", outcomes[3][0] ?? "", more: ["DATABASE_URL": url("e2e_operator")])
            #expect(cancel.status == 0, "\(cancel)")
            #expect(throws: SQLFailure.self) { try producer.run("SELECT device_token FROM devices") }
        }
    }

    @Test("and nothing in public, everything works in a schema of its own")
    func schema() async throws {
        try await Rig.run { rig in
            let push = ["PGPUSH_SCHEMA": "push"]
            let migrate = try rig.pgpush("migrate", more: push)
            try #require(migrate.status == 0, "\(migrate)")
            try rig.psql(
                """
                INSERT INTO push.devices (user_id, device_token)
                SELECT 'u', \(DeviceTokens.sql("i")) FROM generate_series(1, 20) i;
                INSERT INTO push.scheduled_notifications (broadcast, body) VALUES (true, 'x');
                INSERT INTO push.scheduled_notifications (user_id, body) VALUES ('u', 'x');
                INSERT INTO devices (user_id, device_token) VALUES ('u', \(DeviceTokens.sql("99")));
                """)
            let other = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--once", "--batch-size", "7", more: push)
            #expect(try await worker.exitCode() == 0)
            #expect(
                try rig.psql("SELECT status, accepted_count FROM push.scheduled_notifications ORDER BY id")
                    == [["sent", "20"], ["sent", "20"]])
            #expect(try rig.row(other) == NotificationRow("pending"))
            #expect(try rig.simulator.journal().accepted.count == 40)
        }
    }
}
