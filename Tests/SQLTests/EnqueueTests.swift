// enqueue_notification, audience_count, apns_id and forget_user.

import TestSupport
import Testing

@Suite struct EnqueueTests {
    let database: TestDatabase

    init() throws { database = try .make() }

    @Test func repeatsAreRecognised() throws {
        func enqueue(_ more: String = "") throws -> Int {
            try database.number(
                """
                SELECT enqueue_notification(user_id => 'a', title => 'Paid', data => '{"o": 1, "p": 2}', idempotency_key => 'k'\(more))
                """)
        }
        let id = try enqueue()
        #expect(try enqueue() == id)
        #expect(try enqueue(", app => 'default', push_type => 'alert'") == id, "the default, spelt out")
        for other in [
            ", body => 'b'", ", badge => 1", ", user_ids => '{b}'", ", priority => 5", ", expires_at => '2100-01-01'",
            ", collapse_id => 'c'", ", delivery => 'at_most_once'", ", environment => 'sandbox'",
            ", scheduled_at => '2100-01-01'",
        ] {
            let state = try database.refusal(
                """
                SELECT enqueue_notification(user_id => 'a', title => 'Paid', data => '{"p": 2, "o": 1}', idempotency_key => 'k'\(other))
                """)
            #expect(state == (other.contains("user_ids") ? "PN002" : "PN021"), "\(other)")
        }
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 1)
        #expect(try enqueue(", app => 'other'") != id)
        // Also once it is sent.
        let worker = QueueWorker(database)
        try worker.accept(worker.claim())
        #expect(try enqueue() == id)
        #expect(
            try database.refusal(
                "INSERT INTO scheduled_notifications (user_id, title, idempotency_key) VALUES ('a', 'x', 'k')")
                == "23505")
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, title, idempotency_key) VALUES ('a', 'x', 'k')
            ON CONFLICT (app, idempotency_key) DO NOTHING
            """)
    }

    @Test func aLiveActivityRepeats() throws {
        let call = """
            SELECT enqueue_notification(device_tokens => '{AB12CD34}', push_type => 'liveactivity', aps => '{"event": "end"}',
                                        idempotency_key => 'la')
            """
        let id = try database.number(call)
        #expect(try database.number(call) == id)
        #expect(try database.refusal(call.replacing("AB12CD34", with: "AB12CD35")) == "PN021")
    }

    @Test func aRepeatThatCannotBeSeenIsAConflict() throws {
        let session = database.openSession()
        defer { session.close() }
        try session.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM devices")
        let call = "SELECT enqueue_notification(user_id => 'a', title => 'x', idempotency_key => 'k')"
        try database.psql(call)
        #expect(try #require(throws: SQLFailure.self) { try session.run(call) }.sqlState == "40001")
        #expect(try session.run(call) == [["1"]])
    }

    @Test func everyColumnCanBeGiven() throws {
        let settable = try database.psql(
            """
            SELECT attname FROM pg_attribute WHERE attrelid = 'scheduled_notifications'::regclass AND attnum > 0
            AND attname NOT IN ('id', 'payload', 'status', 'started_at', 'sent_at', 'finished_at', 'cancelled_at', 'cancelled_by',
                'error', 'device_count', 'accepted_count', 'rejected_count', 'unknown_count', 'created_by', 'created_at', 'updated_at',
                'owner', 'epoch', 'lease_until', 'walking', 'upper_id', 'cursor_id', 'batch_seq', 'served_at', 'counted_at', 'given_up')
            ORDER BY 1
            """)
        let arguments = try database.psql(
            "SELECT unnest(proargnames) FROM pg_proc WHERE proname = 'enqueue_notification' ORDER BY 1")
        #expect(settable == arguments)
        let id = try database.number(
            """
            SELECT enqueue_notification(app => 'x', user_ids => '{a}', environment => 'sandbox', title => 't', subtitle => 's',
                body => 'b', badge => 1, sound => 'p', category => 'c', thread_id => 'th', target_content_id => 'tc',
                interruption_level => 'active', relevance_score => 0.5, mutable_content => true, content_available => true,
                data => '{"k": 1}', aps => '{"filter-criteria": "f"}', push_type => 'alert', priority => 5, topic => 'com.x',
                collapse_id => 'co', expires_at => '2100-01-02', store_if_offline => false, scheduled_at => '2100-01-01',
                idempotency_key => 'i', delivery => 'at_most_once')
            """)
        let empty = try database.value(
            """
            SELECT string_agg(key, ', ' ORDER BY key) FROM jsonb_each((SELECT to_jsonb(n) FROM scheduled_notifications n WHERE id = \(id)))
            WHERE value = 'null' AND key IN (\(settable.map { "'\($0[0] ?? "")'" }.joined(separator: ", ")))
            """)
        #expect(empty == "channel_id, raw_payload, user_id")
    }

    @Test func audiences() throws {
        try database.addDevices(20, active: 15)
        func count(_ arguments: String) throws -> Int { try database.number("SELECT audience_count(\(arguments))") }
        #expect(try count("user_id => 'u1'") == 1)
        #expect(try count("user_id => 'u16'") == 0)
        #expect(try count("user_ids => '{u1,u2,u1,u16}'") == 2)
        #expect(try count("broadcast => true") == 15)
        #expect(try count("broadcast => true, environment => 'sandbox'") == 1)
        #expect(try count("broadcast => true, app => 'other'") == 0)
        #expect(try count("device_tokens => ARRAY[lpad('1', 64, '0'), lpad('10', 64, '0'), 'FFFF0000']") == 2)
        #expect(try database.refusal("SELECT audience_count()") == "PN001")
        #expect(try database.refusal("SELECT audience_count(user_id => 'a', broadcast => true)") == "PN002")
    }

    @Test func apnsIDs() throws {
        #expect(try database.value("SELECT apns_id(1, 1)") == "00000000-0000-8001-8000-000000000001")
        #expect(try database.value("SELECT apns_id(81985529216486895, -1)") == "12345678-9abc-8def-a000-000000000001")
        let largest = (1 << 60) - 1
        #expect(try database.value("SELECT apns_id(\(largest), \(-largest))") == "ffffffff-ffff-8fff-afff-ffffffffffff")
        let failures = try database.psql(
            """
            SELECT n, d FROM (SELECT (random() * \(largest))::bigint AS n, ((random() - 0.5) * 2 * \(largest))::bigint AS d
                              FROM generate_series(1, 2000)) x
            WHERE apns_id_notification(apns_id(n, d)) <> n OR apns_id_device(apns_id(n, d)) <> d
            """)
        #expect(failures.isEmpty)
        for pair in ["\(largest + 1), 1", "1, \(largest + 1)", "1, \(-largest - 1)", "-1, 1"] {
            #expect(try database.refusal("SELECT apns_id(\(pair))") == "22003")
        }
        #expect(
            try database.psql(
                "SELECT apns_id_device(u), apns_id_notification(u) FROM (SELECT gen_random_uuid() AS u) x") == [
                    [nil, nil]
                ])
        #expect(try database.value("SELECT apns_id(NULL, 1)") == nil)
    }

    @Test func aPersonIsForgotten() throws {
        let worker = QueueWorker(database)
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token) VALUES ('a', 'aa000001'), ('a', 'aa000002'), ('b', 'bb000001')
            """)
        let own = try database.notify("user_id", "'a'")
        let list = try database.notify("user_ids", "'{a,b}'")
        let tokens = try database.notify("device_tokens", "'{aa000001,bb000001,aa000002}'")
        let units = try worker.claim()
        var failed = units.map { Outcome(unit: $0, rejected: 1) }
        failed[0].failures = [.init(device: 1, status: 410, reason: "Unregistered", token: "aa000001")]
        failed[1].failures = [.init(device: 1, status: 410, reason: "Unregistered", token: "aa000001")]
        failed[2].failures = [
            .init(device: -1, status: 400, reason: "BadDeviceToken", token: "aa000001"),
            .init(device: -2, status: 400, reason: "BadDeviceToken", token: "bb000001"),
        ]
        try worker.settle(failed)
        let pendingOwn = try database.notify("user_ids", "'{a}'")
        let pendingList = try database.notify("user_ids", "'{a,b}'")
        let pendingTokens = try database.notify("device_tokens", "'{aa000001,bb000001}'")
        #expect(try database.number("SELECT forget_user('a')") == 2)
        #expect(try database.number("SELECT count(*) FROM devices") == 1)
        #expect(try database.status(own) == nil)
        #expect(try database.status(pendingOwn) == nil)
        #expect(
            try database.psql("SELECT id, user_ids, device_tokens FROM scheduled_notifications ORDER BY id")
                == [
                    ["\(list)", "{b}", "{}"], ["\(tokens)", "{}", #"{"",bb000001,""}"#],
                    ["\(pendingList)", "{b}", "{}"],
                    ["\(pendingTokens)", "{}", "{bb000001}"],
                ])
        #expect(
            try database.psql("SELECT notification_id, device_token FROM delivery_failures ORDER BY 1, 2")
                == [["\(list)", nil], ["\(tokens)", "bb000001"], ["\(tokens)", nil]])
        let text = try database.psql(
            "SELECT n::text FROM scheduled_notifications n UNION ALL SELECT f::text FROM delivery_failures f")
        #expect(!text.contains { $0[0]?.contains("aa0000") == true })
        // What is left can still be sent, and retried without the forgotten.
        #expect(try database.number("SELECT retry_notification(\(tokens))") == 1)
        #expect(try worker.expand(worker.claimBatches()).map(\.ids) == [[-2]])
        #expect(try worker.expand(worker.claim()).map(\.tokens) == [["bb000001"], ["bb000001"]])
    }

    @Test("forgetting somebody begins again when a deadlock was ended at its cost")
    func forgettingThroughADeadlock() throws {
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', 'aa000001')")
        let note = try database.notify("user_ids", "'{a,b}'")
        let other = database.openSession()
        let operators = database.openSession()
        defer {
            other.close()
            operators.close()
        }
        // Each holds what the other wants next; whoever looks for a deadlock first gives way.
        try other.run("SET deadlock_timeout = '10min'; BEGIN; SELECT FROM devices WHERE user_id = 'a' FOR UPDATE")
        try operators.run("SET deadlock_timeout = '5s'")
        try operators.start("SELECT forget_user('a')")
        #expect(try operators.waitsForALock())
        try other.run("UPDATE scheduled_notifications SET title = 'x' WHERE id = \(note)")
        try other.run("COMMIT")
        #expect(try operators.finish() == [["1"]])
        #expect(try database.value("SELECT user_ids FROM scheduled_notifications WHERE id = \(note)") == "{b}")
    }
}
