// Who may do what.

import TestSupport
import Testing

@Suite(.serialized) struct RightsTests {
    let database: TestDatabase

    init() throws {
        database = try PostgresCluster.shared().createEmptyDatabase()
        try database.psql(SchemaFiles.script(roles: true))
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', 'ab12cd34')")
    }

    private func refusal(_ role: String, _ sql: String) throws -> String? {
        let session = database.openSession()
        defer { session.close() }
        try session.run("SET ROLE \(role)")
        do {
            try session.run(sql)
            return nil
        } catch let failure as SQLFailure {
            return failure.sqlState
        }
    }

    @Test func nobodyIsLetInByDefault() throws {
        let open = try database.psql(
            """
            SELECT p.oid::regprocedure FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
            WHERE p.pronamespace = 'public'::regnamespace AND a.grantee = 0
            """)
        #expect(open.isEmpty)
        let careless = try database.psql(
            """
            SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
            AND NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c = 'search_path=public, pg_temp' OR c = 'search_path="public", pg_temp')
            """)
        #expect(careless.isEmpty, "functions without a search_path of their own")
        let roles = "'pgpush_producer', 'pgpush_operator', 'pgpush_worker', 'pgpush_monitor'"
        let internals = try database.psql(
            """
            SELECT p.oid::regprocedure, g FROM pg_proc p, unnest(ARRAY[\(roles)]) g
            WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'pgpush\\_%' AND has_function_privilege(g, p.oid, 'EXECUTE')
              AND p.proname <> 'pgpush_default_environment'
            """)
        #expect(internals.isEmpty)
    }

    @Test func producers() throws {
        for allowed in [
            "INSERT INTO scheduled_notifications (user_id, title) VALUES ('a', 'x') RETURNING id, status",
            "INSERT INTO scheduled_notifications (user_id, title, idempotency_key) VALUES ('a', 'x', 'k') ON CONFLICT DO NOTHING",
            "SELECT enqueue_notification(user_id => 'a', title => 'x', idempotency_key => 'l')",
            "SELECT enqueue_notification(user_id => 'a', title => 'x', idempotency_key => 'l')",
            "INSERT INTO devices (user_id, device_token) VALUES ('b', 'ab12cd35') RETURNING id",
            "SELECT register_device('c', 'ab12cd34'), unregister_device('c', 'ab12cd34'), touch_device('c', 'ab12cd34')",
            "SELECT id, status, sent_at, accepted_count FROM scheduled_notifications",
            "SELECT cancel_notification(1), reschedule_notification(2, now()), audience_count(broadcast => true), apns_id(1, 2)",
            "SELECT version FROM pgpush_migrations",
        ] {
            #expect(try refusal("pgpush_producer", allowed) == nil, "\(allowed)")
        }
        #expect(try database.value("SELECT DISTINCT created_by FROM scheduled_notifications") == "postgres")
        for forbidden in [
            "INSERT INTO scheduled_notifications (user_id, title, status) VALUES ('a', 'x', 'pending')",
            "UPDATE scheduled_notifications SET status = 'cancelled'", "DELETE FROM scheduled_notifications",
            "SELECT device_token FROM devices", "SELECT title FROM scheduled_notifications",
            "SELECT payload FROM scheduled_notifications",
            "SELECT * FROM delivery_failures", "SELECT * FROM delivery_report", "SELECT retry_notification(1)",
            "SELECT forget_user('a')",
            "SELECT pause_app('default')", "SELECT * FROM queue_figures('{default}')",
            "SELECT * FROM claim_notifications(gen_random_uuid(), '{default}', '{24h}', 1, 1, '1 s')",
            "SELECT pgpush_finish(1)",
        ] {
            #expect(try refusal("pgpush_producer", forbidden) == "42501", "\(forbidden)")
        }
    }

    @Test func operators() throws {
        try database.psql("INSERT INTO scheduled_notifications (user_id, title) VALUES ('a', 'x'), ('a', 'y')")
        for allowed in [
            "SELECT * FROM scheduled_notifications, devices, notification_batches, delivery_failures, app_pauses, pgpush_workers",
            "SELECT * FROM notification_progress, delivery_report, failure_reasons, queue_health",
            "SELECT * FROM token_windows, proposed_deactivations",
            "UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = 1", "SELECT cancel_notification(2)",
            "SELECT retry_notification(1), reschedule_notification(1, now()), pause_app('default'), resume_app('default')",
            "SELECT forget_user('a')",
        ] {
            #expect(try refusal("pgpush_operator", allowed) == nil, "\(allowed)")
        }
        for forbidden in [
            "UPDATE scheduled_notifications SET title = 'z'", "DELETE FROM devices",
            "UPDATE devices SET is_active = false",
            "SELECT * FROM sweep('{default}', '{24h}')", "SELECT * FROM judge_windows('{default}')",
            "SELECT give_up_rest('{1}', '{x}')", "SELECT release_lost(gen_random_uuid(), '{default}', '{}', '{}')",
            "DELETE FROM token_windows",
        ] {
            #expect(try refusal("pgpush_operator", forbidden) == "42501", "\(forbidden)")
        }
    }

    @Test func newFunctionsAndTablesNeedNoSecondMakingOfTheRoles() throws {
        // As after an upgrade: what was made anew or is new has lost its grants, or never had any.
        let names = ["settle", "heartbeat", "judge_windows", "give_up_rest", "release_lost"]
        try database.psql(
            "REVOKE EXECUTE ON FUNCTION \(names.joined(separator: ", ")) FROM pgpush_worker; REVOKE ALL ON token_windows, proposed_deactivations FROM pgpush_operator"
        )
        func missing() throws -> [[String?]] {
            try database.psql(
                """
                SELECT proname FROM pg_proc WHERE proname IN ('\(names.joined(separator: "', '"))')
                    AND NOT has_function_privilege('pgpush_worker', oid, 'EXECUTE')
                UNION ALL SELECT t FROM unnest('{token_windows,proposed_deactivations}'::text[]) t
                WHERE NOT has_table_privilege('pgpush_operator', t, 'SELECT')
                """)
        }
        #expect(try missing().count == 7)
        try database.psql("BEGIN; SET LOCAL search_path = public;" + SchemaFiles.objects() + "COMMIT")
        #expect(try missing().isEmpty)
        // Roles of another database of the server get nothing here.
        let other = try PostgresCluster.shared().createDatabase()
        #expect(
            try other.value("SELECT has_function_privilege('pgpush_worker', 'judge_windows(text[])', 'EXECUTE')") == "f"
        )
    }

    @Test func workersAndMonitors() throws {
        try database.psql(
            "INSERT INTO scheduled_notifications (user_id, title) VALUES ('a', 'x'); INSERT INTO scheduled_notifications (broadcast, title) VALUES (true, 'y')"
        )
        let worker = QueueWorker(database)
        try worker.session.run("SET ROLE pgpush_worker")
        let units = try worker.claim() + worker.claimBroadcast()
        #expect(try worker.renew(units) == ["true sending", "true sending"])
        var outcome = Outcome(unit: units[0], rejected: 1)
        outcome.failures = [.init(device: 1, status: 410, reason: "Unregistered")]
        outcome.retired = [.init(device: 1, before: "now() + interval '1 s'")]
        outcome.pauses = [.init(environment: "sandbox")]
        outcome.proposals = [.init(device: 1)]
        outcome.evidence = [.init(answered: 1)]
        #expect(try worker.settle([outcome, Outcome(unit: units[1], accepted: 1)]) == ["applied", "applied"])
        try worker.finalise(2)
        try worker.sweep()
        _ = try worker.nextDue()
        _ = try worker.claimBatches(rescue: true)
        _ = try worker.probe()
        try worker.session.run("SELECT * FROM queue_figures('{default}')")
        #expect(try worker.judge().map { $0[0] } == ["open"])
        #expect(try worker.giveUp(2) == 0)
        #expect(try worker.releaseLost() == 0)
        try worker.session.run(
            "SELECT heartbeat('\(worker.owner)', 'h', 1, 'v', 1, '{default}'); SELECT goodbye('\(worker.owner)')")
        #expect(try database.psql("SELECT status FROM scheduled_notifications ORDER BY id") == [["failed"], ["sent"]])
        for forbidden in [
            "SELECT * FROM scheduled_notifications", "UPDATE devices SET is_active = true",
            "SELECT retry_notification(1)",
        ] {
            #expect(try refusal("pgpush_worker", forbidden) == "42501")
        }
        #expect(
            try refusal(
                "pgpush_monitor", "SELECT * FROM notification_progress, delivery_report, failure_reasons, queue_health")
                == nil)
        for forbidden in [
            "SELECT * FROM devices", "SELECT * FROM scheduled_notifications", "SELECT cancel_notification(1)",
        ] {
            #expect(try refusal("pgpush_monitor", forbidden) == "42501")
        }
    }
}
