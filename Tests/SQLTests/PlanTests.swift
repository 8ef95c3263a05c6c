// The plans of the hot functions must not depend on statistics. Functions are planned while the tables are empty (as by a worker
// that starts on a new database), then the tables grow without ANALYZE; each call must still touch only the rows it is about.

import TestSupport
import Testing

@Suite struct PlanTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        worker.limits = "{500}"
        // On an older server a worker that has just come looks for what is certainly lost, which is another plan; how old this one
        // is depends on how long the other suites take.
        try database.psql(
            """
            CREATE OR REPLACE FUNCTION pgpush_server_started() RETURNS timestamptz LANGUAGE sql STABLE
            SET search_path = public, pg_temp AS $$ SELECT now() $$
            """)
    }

    private static let rows = 120_000

    @discardableResult
    private func atMost<T>(
        _ rows: Int, _ blocks: Int, location: SourceLocation = #_sourceLocation, _ call: () throws -> T
    ) throws -> T {
        try worker.atMost(rows, blocks, location: location, call)
    }

    /// Everything a worker calls, often enough for generic plans.
    private func warmUp() throws {
        for _ in 1...7 {
            let units = try worker.claim() + worker.claimBroadcast() + worker.claimBatches(rescue: true)
            _ = try worker.expand(units)
            _ = try worker.settle([
                Outcome(unit: Unit(notification: 0, batch: 0, epoch: 1)),
                Outcome(unit: Unit(notification: 0, batch: 1, epoch: 1)),
            ])
            _ = try worker.renew([Unit(notification: 0, batch: 0, epoch: 1), Unit(notification: 0, batch: 1, epoch: 1)])
            try worker.finalise(0)
            _ = try worker.nextDue()
            try worker.sweep()
        }
    }

    private func fill() throws {
        try database.psql(
            """
            SET session_replication_role = replica;
            INSERT INTO devices (user_id, device_token, environment)
            SELECT 'u' || i, lpad(to_hex(i), 64, '0'), CASE WHEN i % 50 = 0 THEN 'sandbox' ELSE 'production' END
            FROM generate_series(1, \(Self.rows)) i;
            INSERT INTO scheduled_notifications (user_id, title, payload, scheduled_at)
            SELECT 'u' || i, 'x', '{"aps":{"alert":{"title":"x"}}}', now() - interval '1 h' + i * interval '1 ms'
            FROM generate_series(1, \(Self.rows)) i;
            INSERT INTO scheduled_notifications (broadcast, title, payload) VALUES (true, 'x', '{"aps":{"alert":{"title":"x"}}}');
            RESET session_replication_role
            """)
    }

    @Test(arguments: [false, true])
    func callsTouchOnlyTheirRows(analyzed: Bool) throws {
        try warmUp()
        try fill()
        if analyzed { try database.psql("ANALYZE") }

        var units: [Unit] = []
        units = try atMost(2_000, 15_000) { try worker.claim(limit: 500, lease: "1 h") }
        #expect(units.count == 500)
        #expect(try atMost(2_000, 12_000) { try worker.expand(units).count } == 500)
        try atMost(2_500, 20_000) { try worker.renew(units) }
        try atMost(2_500, 16_000) { try worker.settle(units.map { Outcome(unit: $0, accepted: 1) }) }
        // Rows behind one another: what was claimed before is not walked over again.
        units = try atMost(2_000, 15_000) { try worker.claim(limit: 500, lease: "1 h") }

        var batches: [Unit] = []
        batches = try atMost(17_000, 6_000) { try worker.claimBroadcast(batches: 16, batchSize: 500, lease: "1 h") }
        #expect(batches.count == 16)
        #expect(try atMost(9_000, 2_000) { try worker.expand(batches, limit: 501).count } == 32)
        try atMost(200, 400) { try worker.renew(batches) }
        try atMost(200, 600) { try worker.settle(batches.map { Outcome(unit: $0, accepted: 500) }) }
        try atMost(200, 100) { try worker.finalise(batches[0].notification) }
        try atMost(20, 60) { try worker.nextDue() }
        // Each count ends at its limit, however much is due.
        try atMost(1_000, 2_000) { try worker.session.run("SELECT * FROM queue_figures('{default}', 100)") }
        // Only what is in work is looked at: 500 singles.
        try atMost(2_000, 2_500) { try worker.claimBatches(rescue: true) }
        try atMost(2_000, 2_500) { try worker.sweep() }

        var failed = Outcome(unit: units[0], rejected: 1)
        failed.failures = [.init(device: 501, status: 410, reason: "Unregistered")]
        failed.retired = [.init(device: 501, before: "now() + interval '1 s'")]
        failed.again = [.init(devices: [502])]
        #expect(try atMost(50, 200) { try worker.settle(failed) } == "applied")
        #expect(try atMost(50, 200) { try worker.claimBatches(rescue: false).count } == 1)
        let (single, broadcast) = (units[0].notification, batches[0].notification)
        for (most, sql) in [
            (50, "SELECT * FROM delivery_report WHERE notification_id = \(single)"),
            (100, "SELECT * FROM delivery_report WHERE notification_id = \(broadcast) AND user_id = 'u7'"),
            (100, "SELECT * FROM notification_progress WHERE id = \(broadcast)"),
            (10, "SELECT register_device('z', lpad(to_hex(77), 64, '0'))"), (10, "SELECT cancel_notification(90000)"),
            (10, "SELECT audience_count(user_id => 'u5')"),
        ] {
            try atMost(most, 100) { try worker.session.run(sql) }
        }
    }

    @Test(arguments: [false, true])
    func manyWaitingBatchesAreNotWalkedOver(analyzed: Bool) throws {
        try warmUp()
        try database.psql(
            """
            SET session_replication_role = replica;
            INSERT INTO devices (user_id, device_token) VALUES ('a', 'ab12cd34');
            INSERT INTO scheduled_notifications (broadcast, title, payload, status, started_at, batch_seq, upper_id, cursor_id)
            VALUES (true, 'x', '{}', 'sending', now(), 60000, 1, 1);
            INSERT INTO notification_batches (notification_id, batch_no, app, state, not_before, device_ids, device_count, attempts)
            SELECT 1, i, 'default', CASE WHEN i % 2 = 0 THEN 'ready' ELSE 'parked' END,
                   CASE WHEN i % 2 = 0 THEN now() + CASE i WHEN 60000 THEN '0 s' ELSE '1 h' END::interval END, '{1}', 1, 2
            FROM generate_series(1, 60000) i;
            INSERT INTO app_pauses (app, environment, reason) VALUES ('default', NULL, 'x');
            UPDATE app_pauses SET environment = 'sandbox';
            UPDATE notification_batches SET environment = 'sandbox' WHERE state = 'parked';
            RESET session_replication_role
            """)
        if analyzed { try database.psql("ANALYZE") }
        try atMost(20, 60) { try worker.nextDue() }
        let units = try atMost(20, 100) { try worker.claimBatches(rescue: true) }
        #expect(units.map(\.batch) == [60000])
        try atMost(20, 100) { try worker.expand(units) }
        try atMost(20, 100) { try worker.renew(units) }
        try atMost(20, 100) { try worker.settle(units.map { Outcome(unit: $0, accepted: 1) }) }
        try atMost(20, 60) { try worker.session.run("SELECT pgpush_has_open_batch(1)") }
        #expect(try atMost(20, 60) { try worker.nextDue() } ?? 0 > 3_000_000)
    }

    @Test func theClaimWalksTheDueIndexInOrder() throws {
        // The shape itself, as the claim asks for it.
        let plan = try database.psql(
            """
            SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off;
            EXPLAIN (COSTS off) SELECT n.id FROM scheduled_notifications n
            WHERE n.app = 'default' AND n.status = 'pending' AND NOT n.broadcast AND n.scheduled_at <= now()
              AND (n.scheduled_at, n.id) >= (now() - interval '24 hours', 0)
            ORDER BY n.scheduled_at, n.id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
            """
        ).compactMap { $0[0]?.trimmingPrefix { $0 == " " } }
        #expect(plan.prefix(2) == ["Limit", "->  LockRows"])
        #expect(
            plan.dropFirst(2).first == "->  Index Scan using scheduled_notifications_due on scheduled_notifications n")
    }
}
