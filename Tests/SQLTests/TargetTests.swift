// Targets and headers of a notification: what is refused, each with its own SQLSTATE, and what NULL means.

import TestSupport
import Testing

@Suite struct TargetTests {
    let database: TestDatabase

    init() throws { database = try .make() }

    private func insert(_ columns: String, _ values: String) throws -> String? {
        try database.refusal("INSERT INTO scheduled_notifications (\(columns)) VALUES (\(values))")
    }

    @Test func exactlyOneTarget() throws {
        #expect(try insert("title", "'x'") == "PN001")
        #expect(try insert("title, user_ids, device_tokens, broadcast", "'x', '{}', NULL, false") == "PN001")
        #expect(try insert("title, user_id, broadcast", "'x', 'a', true") == "PN002")
        #expect(try insert("title, user_ids, device_tokens", "'x', '{a}', '{ab12cd34}'") == "PN002")
        #expect(try insert("title, user_id", "'x', ''") == "PN030")
        #expect(try insert("title, user_ids", "'x', ARRAY['a', NULL]") == "PN031")
        #expect(
            try insert("title, user_ids", "'x', ARRAY(SELECT 'u' || i FROM generate_series(1, 100001) i)") == "PN031")
        #expect(try insert("title, channel_id, push_type", "'x', E'a\\nb', 'liveactivity'") == "PN025")
        #expect(try insert("title, channel_id", "'x', 'dHN0LXNyY2gtY2hubA=='") == "PN032")
        for column in ["user_id, title", "broadcast, title"] {
            #expect(try insert(column, column.hasPrefix("user") ? "'a', 'x'" : "true, 'x'") == nil)
        }
    }

    @Test func listsAreBroughtIntoOrder() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (title, user_ids) VALUES ('x', '{b,a,b,c,a}');
            INSERT INTO scheduled_notifications (title, device_tokens) VALUES ('x', '{AB12CD34,<ab12 cd34>,FF00FF00}')
            """)
        #expect(
            try database.psql("SELECT user_ids, device_tokens FROM scheduled_notifications ORDER BY id")
                == [["{b,a,c}", "{}"], ["{}", "{ab12cd34,ff00ff00}"]])
    }

    @Test func headers() throws {
        func refused(_ column: String, _ value: String) throws -> String? {
            try insert("user_id, title, \(column)", "'a', 'x', \(value)")
        }
        #expect(try refused("push_type", "'Alert'") == "PN004")
        #expect(try refused("priority", "7") == "PN005")
        #expect(try insert("user_id, priority, push_type", "'a', 10, 'background'") == "PN006")
        #expect(try insert("user_id, priority, push_type", "'a', 5, 'background'") == nil)
        #expect(try refused("priority, push_type", "1, 'location'") == "PN006")
        #expect(try refused("priority, push_type", "5, 'location'") == nil)
        #expect(try refused("priority, push_type", "1, 'liveactivity'") == "PN006")
        #expect(try refused("priority", "1") == nil)
        #expect(try refused("collapse_id", "repeat('ü', 32)") == nil)
        #expect(try refused("collapse_id", "repeat('ü', 32) || 'x'") == "PN007")
        #expect(try refused("collapse_id", "E'a\\r\\nb'") == "PN025")
        #expect(try refused("collapse_id", "' a'") == "PN025")
        #expect(try refused("topic", "'com.example app'") == "PN025")
        #expect(try refused("topic", "'com.example.app.voip-ptt'") == nil)
        #expect(try refused("delivery", "'once'") == "PN029")
        #expect(try refused("environment", "'prod'") == "PN018")
        #expect(try refused("idempotency_key", "''") == "PN020")
        #expect(try refused("idempotency_key", "repeat('k', 513)") == "PN020")
        #expect(try refused("app", "E'a\\nb'") == "PN030")
        #expect(try refused("status", "'sent'") == "PN024")
        #expect(try refused("payload", "'{}'") == "PN034")
        for type in [
            "alert", "voip", "complication", "fileprovider", "location", "pushtotalk", "widgets", "controls",
        ] {
            #expect(try refused("push_type", "'\(type)'") == nil, "\(type)")
        }
        #expect(try insert("user_id, push_type, data", "'a', 'mdm', '{\"mdm\": \"x\"}'") == "PN014")
        #expect(
            try insert("user_id, push_type, data, topic", "'a', 'mdm', '{\"mdm\": \"x\"}', 'com.apple.mgmt.1'") == nil)
        #expect(try insert("user_id, push_type, data, topic", "'a', 'mdm', '{}', 'com.apple.mgmt.1'") == "PN033")
    }

    @Test("F30 infinite times are refused, far ones do no harm")
    func times() throws {
        for value in ["'infinity'", "'-infinity'"] {
            #expect(try insert("user_id, title, scheduled_at", "'a', 'x', \(value)") == "PN012")
            #expect(try insert("user_id, title, expires_at", "'a', 'x', \(value)") == "PN012")
        }
        #expect(try insert("user_id, title, expires_at", "'a', 'x', now() - interval '1 us'") == "PN011")
        #expect(try insert("user_id, title, expires_at, scheduled_at", "'a', 'x', '2031-01-01', '2031-01-01'") == nil)
        #expect(try insert("user_id, title, scheduled_at", "'a', 'old', '0044-03-15 BC'") == nil)
        #expect(try insert("user_id, title, scheduled_at", "'a', 'far', '294276-12-31'") == nil)
        #expect(
            try insert(
                "user_id, push_type, aps, scheduled_at", "'a', 'liveactivity', '{\"event\": \"end\"}', '294276-12-31'")
                == nil)
        let worker = QueueWorker(database)
        #expect(try #require(try worker.nextDue()) >= 0)
        try database.notify("user_id", "'a'", title: "normal")
        #expect(try worker.claim().count == 1)
        #expect(try #require(try worker.nextDue()) > 0)
        try worker.sweep()
        #expect(
            try database.psql("SELECT status FROM scheduled_notifications WHERE title IN ('old', 'far') ORDER BY id")
                == [["expired"], ["pending"]])
    }

    @Test("F29 the stored instant decides, whatever the zones and date styles")
    func zones() throws {
        let session = database.openSession()
        try session.run("SET TimeZone = 'America/New_York'")
        try session.run(
            """
            INSERT INTO scheduled_notifications (user_id, title, scheduled_at) VALUES
                ('a', 'skipped', '2026-03-08 02:30'), ('a', 'doubled', '2026-11-01 01:30'), ('a', 'fixed', '2026-11-01 01:30-04')
            """)
        try session.run("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'")
        #expect(
            try session.run("SELECT scheduled_at::text FROM scheduled_notifications ORDER BY id")
                == [["2026-03-08 07:30:00+00"], ["2026-11-01 06:30:00+00"], ["2026-11-01 05:30:00+00"]])
        try database.psql("UPDATE scheduled_notifications SET scheduled_at = now()")
        let worker = QueueWorker(database)
        try worker.session.run("SET TimeZone = 'Asia/Kolkata'; SET DateStyle = 'German, DMY'")
        #expect(try worker.claim().count == 3)
    }

    @Test func explicitNullsMeanTheDefault() throws {
        let columns = try database.psql(
            """
            SELECT attname FROM pg_attribute WHERE attrelid = 'scheduled_notifications'::regclass AND attnum > 0
                AND NOT attisdropped AND attname NOT IN ('user_id', 'title')
            """
        ).compactMap { $0[0] }
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, title, \(columns.joined(separator: ", ")))
            VALUES ('a', 'x', \(columns.map { _ in "NULL" }.joined(separator: ", ")));
            INSERT INTO scheduled_notifications (user_id, title) VALUES ('a', 'x')
            """)
        let rows = try database.psql(
            "SELECT to_jsonb(n) - 'id' - 'created_at' FROM scheduled_notifications n ORDER BY id")
        #expect(rows.count == 2)
        #expect(rows[0] == rows[1])
    }
}
