// The plans of the guard: planned while everything is empty, used when there is a lot, with and without statistics.

import TestSupport
import Testing

@Suite struct GuardPlanTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
    }

    /// Everything, often enough for generic plans.
    private func warmUp() throws {
        for _ in 1...7 {
            let nothing = Unit(notification: 0, batch: 1, epoch: 1)
            var bad = Outcome.answers(nothing, bad: [1])
            bad.again = [.init(devices: [2])]
            try worker.settle([bad, .answers(Unit(notification: 0, batch: 0, epoch: 1), accepted: 1)])
            try worker.judge()
            try worker.giveUp(0)
            try worker.releaseLost(knowing: [nothing])
            try worker.finalise(0)
            try worker.sweep()
            try worker.session.run(
                "SELECT resume_app('default'), end_pause('default', 'production', 'x'), pgpush_prune()")
        }
        // The functions for windows, by one that comes and goes.
        try database.psql(
            "INSERT INTO devices (user_id, device_token) VALUES ('w', 'ab12cd34'); INSERT INTO scheduled_notifications (user_id, title) VALUES ('w', 'x')"
        )
        for _ in 1...7 {
            for tripped in [true, false] {
                try database.psql(
                    """
                    INSERT INTO token_windows (app, environment, topic, closes_at, accepted_count, tripped_at)
                    VALUES ('default', 'production', 'w', now(), 1, \(tripped ? "now()" : "NULL"));
                    INSERT INTO proposed_deactivations (app, environment, topic, notification_id, batch_no, device_id, reason, registered_before)
                    VALUES ('default', 'production', 'w', 1, 0, 1, 'x', now() - interval '1 h')
                    """)
                try worker.finalise(1)
                while !(try worker.judge().isEmpty) {}
            }
        }
    }

    /// 60,000 devices, one broadcast in 60,000 batches that are done, and 60,000 proposals of it in a window that is open.
    private func fill() throws {
        try database.psql(
            """
            SET session_replication_role = replica;
            INSERT INTO devices (id, user_id, device_token, registered_at)
            SELECT i, 'u' || i, lpad(to_hex(i), 64, '0'), now() - interval '1 h' FROM generate_series(1001, 61000) i;
            INSERT INTO scheduled_notifications (id, broadcast, title, payload, status, started_at, batch_seq, upper_id, cursor_id, counted_at)
            VALUES (1000, true, 'x', '{}', 'sending', now(), 60000, 1, 1, now() + interval '1 h');
            INSERT INTO notification_batches (notification_id, batch_no, app, state, device_ids, device_count, not_before)
            VALUES (1000, 60001, 'default', 'ready', '{1001}', 1, now() + interval '1 h');
            INSERT INTO notification_batches (notification_id, batch_no, app, state, device_ids, device_count, rejected_count)
            SELECT 1000, i, 'default', 'done', ARRAY[1000 + i], 1, 1 FROM generate_series(1, 60000) i;
            INSERT INTO delivery_failures (notification_id, batch_no, app, device_id, http_status, reason, attempt, is_final)
            SELECT 1000, i, 'default', 1000 + i, 400, 'BadDeviceToken', 1, true FROM generate_series(1, 60000) i;
            INSERT INTO token_windows (app, environment, topic, closes_at, accepted_count, answered_count, proposed_count)
            VALUES ('default', 'production', 'open', now() + interval '1 h', 1000000, 1060000, 60000);
            INSERT INTO proposed_deactivations (app, environment, topic, notification_id, batch_no, device_id, reason, registered_before)
            SELECT 'default', 'production', 'open', 1000, i, 1000 + i, 'BadDeviceToken', now() FROM generate_series(1, 60000) i;
            INSERT INTO scheduled_notifications (id, user_id, title, payload, status, started_at, finished_at)
            SELECT 100000 + i, 'u' || i, 'x', '{}', 'sent', now(), now() FROM generate_series(1, 60000) i;
            RESET session_replication_role
            """)
    }

    @Test(arguments: [false, true])
    func callsTouchOnlyTheirRows(analyzed: Bool) throws {
        try warmUp()
        try fill()
        if analyzed { try database.psql("ANALYZE") }
        try database.psql(
            "INSERT INTO scheduled_notifications (id, user_ids, title) VALUES (2000, ARRAY(SELECT 'u' || i FROM generate_series(1001, 1050) i), 'x')"
        )
        #expect(try worker.accept(worker.claim(batchSize: 10)).count == 1, "the one of the warm-up")
        let units = try worker.claimBatches()
        #expect(units.count == 5)

        // Answers in a scope of their own, then a storm there, while the other window is open.
        let scope = Outcome.Scope(topic: "storm")
        try worker.atMost(20, 100) { try worker.settle(.answers(units[0], accepted: 10, scope: scope)) }
        try worker.atMost(150, 400) { try worker.settle(.answers(units[1], bad: Array(1011...1020), scope: scope)) }
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 1)
        try worker.atMost(150, 400) { try worker.settle(.answers(units[2], accepted: 9, bad: [1021], scope: scope)) }
        // Both have proposals: one many that are not judged, the other some in the storm.
        try worker.atMost(100, 150) { try worker.finalise(1000, 2000) }
        try worker.atMost(10, 50) { try worker.session.run("SELECT pgpush_awaits_verdict(1000)") }
        #expect(try worker.atMost(400, 800) { try worker.judge() }.contains(["tripped", "0", "0", "11"]))
        try worker.atMost(100, 150) { try worker.judge() }
        try worker.atMost(50, 100) { try worker.giveUp(2000) }
        #expect(try worker.atMost(50, 150) { try worker.releaseLost(knowing: [units[3]]) } == 1)
        try worker.atMost(150, 200) { try worker.session.run("SELECT end_pause('default', 'production', 'storm')") }
        try worker.atMost(150, 300) { try worker.session.run("SELECT resume_app('default')") }
        #expect(try database.number("SELECT count(*) FROM token_windows") == 1)
        #expect(try worker.atMost(10, 20) { try worker.session.run("SELECT pgpush_prune()") } == [["0"]])
        try worker.atMost(300, 500) { try worker.session.run("SELECT * FROM queue_health") }

        // A calm window: a lot of 5,000, by their keys.
        try database.psql("UPDATE token_windows SET closes_at = now()")
        #expect(try worker.atMost(60_000, 150_000) { try worker.judge() } == [["calm", "5000", "0", "0"]])
        // Old ones by the index, oldest first.
        try database.psql(
            """
            SET session_replication_role = replica; UPDATE scheduled_notifications SET finished_at = now() - interval '40 days' WHERE id = 100077;
            RESET session_replication_role
            """)
        #expect(try worker.atMost(50, 150) { try worker.session.run("SELECT pgpush_prune()") } == [["1"]])
    }
}
