// claim and expand of single users, lists, tokens and channels.

import TestSupport
import Testing

@Suite struct ClaimTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
    }

    @Test func whatASingleUserGets() throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token, environment, is_active, app) VALUES
                ('a', 'aa000001', 'production', true, 'default'), ('a', 'aa000002', 'sandbox', true, 'default'),
                ('a', 'aa000003', 'production', false, 'default'), ('a', 'aa000004', 'production', true, 'other'),
                ('b', 'aa000005', 'production', true, 'default'), ('a', 'aa000006', 'production', true, 'default')
            """)
        try database.notify("user_id", "'a'")
        try database.notify("user_id, environment", "'a', 'sandbox'")
        try database.notify("user_id", "'nobody'")
        let units = try worker.claim()
        #expect(
            units == [
                Unit(notification: 1, batch: 0, epoch: 1), Unit(notification: 2, batch: 0, epoch: 1),
                Unit(notification: 3, batch: 0, epoch: 1),
            ])
        #expect(
            try worker.expand(units) == [
                Devices(unit: 1, environment: "production", ids: [1, 6], tokens: ["aa000001", "aa000006"]),
                Devices(unit: 1, environment: "sandbox", ids: [2], tokens: ["aa000002"]),
                Devices(unit: 2, environment: "sandbox", ids: [2], tokens: ["aa000002"]),
            ])
        #expect(try worker.accept(units) == ["applied", "applied", "applied"])
        #expect(
            try database.psql("SELECT status, device_count FROM scheduled_notifications ORDER BY id") == [
                ["sent", "3"], ["sent", "1"], ["skipped", "0"],
            ])
    }

    @Test func theUnitSaysHowToSend() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, title) VALUES ('a', 'x');
            INSERT INTO scheduled_notifications (user_id, push_type) VALUES ('a', 'background');
            INSERT INTO scheduled_notifications (user_id, title, priority, topic, collapse_id, expires_at, store_if_offline, delivery)
            VALUES ('a', 'x', 1, 'com.example.x', 'c', '2100-01-01', false, 'at_most_once');
            INSERT INTO scheduled_notifications (channel_id, push_type, aps) VALUES ('YWJj', 'liveactivity', '{"event": "end"}')
            """)
        let rows = try database.psql(
            """
            SELECT push_type, priority, topic, collapse_id, expires_at, store_if_offline, at_most_once, channel_id, attempt
            FROM claim_notifications(gen_random_uuid(), '{default}', '{24h}', 10, 500, '75 s') ORDER BY notification_id
            """)
        #expect(
            rows == [
                ["alert", "10", nil, "pgpush-1", nil, "t", "f", nil, "1"],
                ["background", "5", nil, nil, nil, "t", "f", nil, "1"],
                ["alert", "1", "com.example.x", "c", "2100-01-01 00:00:00+00", "f", "t", nil, "1"],
                ["liveactivity", "10", nil, nil, nil, "t", "f", "YWJj", "1"],
            ])
        let channel = Unit(notification: 4, batch: 0, epoch: 1)
        #expect(
            try database.psql(
                "SELECT environment, device_ids, device_tokens FROM expand('{\(channel.notification)}', '{0}', 10)")
                == [["production", "{0}", ""]])
    }

    @Test func dueTimesDecideAndOthersAreLeftAlone() throws {
        try database.notify("user_id, scheduled_at", "'a', now() + interval '1 h'")
        let due = try database.notify("user_id, scheduled_at", "'a', now() - interval '2 h'")
        let early = try database.notify("user_id, scheduled_at", "'a', now() - interval '3 h'")
        try database.notify("user_id, app", "'a', 'other'")
        let late = try database.notify("user_id, scheduled_at", "'a', now() - interval '25 h'")
        let expired = try database.notify(
            "user_id, scheduled_at, expires_at", "'a', now() - interval '1 h', now() - interval '1 s'")
        #expect(try worker.claim(limit: 1).map(\.notification) == [early])
        #expect(try worker.claim().map(\.notification) == [due])
        #expect(try worker.claim().isEmpty)
        #expect(
            try database.psql(
                "SELECT id, status, error FROM scheduled_notifications WHERE status = 'expired' ORDER BY id")
                == [
                    ["\(late)", "expired", "later than the app's max_lateness"],
                    ["\(expired)", "expired", "expires_at passed before it could be sent"],
                ])
        worker.lateness = "{1h}"
        #expect(try #require(try worker.nextDue()) > 3_500_000)
        worker.apps = "{}"
        #expect(try worker.claim().isEmpty)
        #expect(try worker.nextDue() == nil)
    }

    @Test func manyExpiredRowsDoNotHideOthers() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, title, scheduled_at, expires_at)
            SELECT 'a', 'x', now() - interval '2 h', now() - interval '1 h' FROM generate_series(1, 25)
            """)
        let good = try database.notify("user_id", "'a'")
        #expect(try worker.claim(limit: 10).map(\.notification) == [good])
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications WHERE status = 'expired'") == 25)
    }

    @Test func allAppsGetTheirTurn() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (app, user_id, title)
            SELECT CASE WHEN i <= 1000 THEN 'big' ELSE 'small' END, 'a', 'x' FROM generate_series(1, 1001) i
            """)
        worker.apps = "{big,small}"
        worker.lateness = "{24h,24h}"
        var claims = 0
        while try database.number(
            "SELECT count(*) FROM scheduled_notifications WHERE app = 'small' AND status = 'pending'") == 1
        {
            #expect(try worker.claim(limit: 10).count == 10)
            claims += 1
            try #require(claims < 60, "a full app starves the other")
        }
    }

    @Test func theWalkMayBeginWhereTheLastOneDid() throws {
        for hours in [3, 2, 1] { try database.notify("user_id, scheduled_at", "'a', now() - interval '\(hours) h'") }
        let claimed = try database.psql(
            """
            SELECT notification_id, scheduled_at < now() FROM claim_notifications(gen_random_uuid(), '{default}', '{24h}', 10, 500, '75 s',
                ARRAY[now() - interval '150 min']) ORDER BY 1
            """)
        #expect(claimed == [["2", "t"], ["3", "t"]])
        #expect(try worker.claim().map(\.notification) == [1])
        // Many at one instant: the id says where among them.
        try database.psql(
            "INSERT INTO scheduled_notifications (user_id, title) SELECT 'a', 'x' FROM generate_series(1, 10)")
        let rest = try database.psql(
            """
            SELECT notification_id FROM scheduled_notifications n, claim_notifications(gen_random_uuid(), '{default}', '{24h}', 10, 500,
                '75 s', ARRAY[n.scheduled_at], '{11}') WHERE n.id = 4 ORDER BY 1
            """)
        #expect(rest == [["11"], ["12"], ["13"]])
    }

    @Test func listsOfUsers() throws {
        try database.addDevices(1000)
        let small = try database.notify("user_ids", "'{u5,u3,nobody,u10}'")
        let big = try database.notify(
            "user_ids, environment", "ARRAY(SELECT 'u' || i FROM generate_series(1, 1000) i), 'production'")
        let units = try worker.claim(batchSize: 400)
        #expect(units.map(\.notification) == [small])
        #expect(
            try worker.expand(units).map { [$0.environment] + $0.ids.map(String.init) } == [
                ["production", "3", "5"], ["sandbox", "10"],
            ])
        #expect(try worker.accept(units) == ["applied"])
        let batches = try worker.claimBatches()
        #expect(batches.map(\.deviceCount) == [400, 400, 100])
        #expect(try worker.nextDue() == nil)
        let devices = try worker.expand(batches)
        #expect(devices.map(\.unit) == [1, 2, 3])
        #expect(devices.flatMap(\.ids) == (1...1000).filter { $0 % 10 != 0 })
        #expect(try worker.finalise(big) == [])
        #expect(try worker.accept(batches) == ["applied", "applied", "applied"])
        #expect(try worker.finalise(big) == ["sent"])
        #expect(try database.counts(big) == [900, 900, 0, 0])
    }

    @Test func listsOfTokens() throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token, environment, is_active) VALUES
                ('a', 'aa000001', 'sandbox', true), ('a', 'aa000002', 'production', false)
            """)
        let id = try database.notify("device_tokens", "'{bb000001,aa000002,aa000001,bb000002}'")
        let units = try worker.claim()
        #expect(
            try worker.expand(units) == [
                Devices(unit: 1, environment: "production", ids: [-1, -4], tokens: ["bb000001", "bb000002"]),
                Devices(unit: 1, environment: "sandbox", ids: [-3], tokens: ["aa000001"]),
            ])
        #expect(try worker.accept(units) == ["applied"])
        #expect(try database.counts(id) == [3, 3, 0, 0])

        let big = try database.notify(
            "device_tokens", "ARRAY(SELECT lpad(to_hex(i), 16, '0') FROM generate_series(1, 1201) i)")
        #expect(try worker.claim(batchSize: 500).isEmpty)
        let batches = try worker.claimBatches()
        #expect(batches.map(\.deviceCount) == [500, 500, 201])
        let devices = try worker.expand(batches)
        #expect(devices.flatMap(\.ids) == (1...1201).map { -$0 })
        #expect(devices.last?.tokens.last == "00000000000004b1")
        #expect(try worker.accept(batches) == ["applied", "applied", "applied"])
        #expect(try worker.finalise(big) == ["sent"])
    }

    @Test func aUserWithManyDevicesIsSplit() throws {
        try database.psql(
            "INSERT INTO devices (user_id, device_token) SELECT 'a', lpad(to_hex(i), 16, '0') FROM generate_series(1, 1100) i"
        )
        let id = try database.notify("user_id", "'a'")
        let units = try worker.claim()
        #expect(try worker.expand(units, limit: 501).map(\.ids.count) == [501])
        let split = "SELECT split_notification(\(id), '\(worker.owner)', 1, 500)"
        #expect(try worker.session.run(split) == [["3"]])
        #expect(try worker.session.run(split) == [[nil]], "the unit itself is gone")
        #expect(try worker.accept(units) == ["already"])
        let batches = try worker.claimBatches()
        #expect(batches.map(\.deviceCount) == [500, 500, 100])
        #expect(try worker.accept(batches) == ["applied", "applied", "applied"])
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1100, 1100, 0, 0])
    }

    @Test func aDeviceThatChangedHandsLeavesTheAudience() throws {
        try database.addDevices(20)
        try database.notify("user_ids", "ARRAY(SELECT 'u' || i FROM generate_series(1, 20) i)")
        _ = try worker.claim(batchSize: 10)
        try database.psql(
            "UPDATE devices SET user_id = 'other' WHERE id = 3; UPDATE devices SET is_active = false WHERE id = 4")
        #expect(try worker.expand(worker.claimBatches()).flatMap(\.ids).sorted() == [1, 2] + Array(5...20))
    }

    @Test func nextDueIsTheNearest() throws {
        #expect(try worker.nextDue() == nil)
        try database.notify("user_id, scheduled_at", "'a', now() + interval '2 h'")
        let hours = try #require(try worker.nextDue())
        #expect((7_100_000...7_200_000).contains(hours))
        try database.notify("broadcast, scheduled_at", "true, now() + interval '1 h'")
        #expect((3_500_000...3_600_000).contains(try #require(try worker.nextDue())))
        try database.psql("SELECT pause_app('default')")
        #expect(try worker.nextDue() == nil)
        try database.psql("SELECT resume_app('default')")
        try database.notify("user_id", "'a'")
        #expect(try worker.nextDue() == 0)
    }

    @Test func anEmptyClaimMeansThatNothingIsDue() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, title, scheduled_at, expires_at)
            SELECT 'a', 'x', now() - interval '2 h', now() - interval '1 h' FROM generate_series(1, 95);
            INSERT INTO scheduled_notifications (broadcast, title, scheduled_at, expires_at)
            SELECT true, 'x', now() - interval '2 h', now() - interval '1 h' FROM generate_series(1, 40)
            """)
        let single = try database.notify("user_id", "'a'")
        let all = try database.notify("broadcast", "true")
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('zz', 'abcdef12')")
        #expect(try worker.claim(limit: 10).map(\.notification) == [single])
        #expect(try worker.claimBroadcast().map(\.notification) == [all])
    }
}
