// Broadcasts: a cursor over the active devices, cut into slices without holes.

import TestSupport
import Testing

@Suite struct BroadcastTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
    }

    /// Claims to the end, accepting all; returns the devices in the order in which they came.
    private func drain(_ worker: QueueWorker, batches: Int = 16, size: Int = 500) throws -> [Int] {
        var devices: [Int] = []
        while case let units = try worker.claimBroadcast(batches: batches, batchSize: size), !units.isEmpty {
            devices += try worker.expand(units).sorted { ($0.unit, $0.environment) < ($1.unit, $1.environment) }
                .flatMap(\.ids)
            try worker.accept(units)
            for id in Set(units.map(\.notification)) { try worker.finalise(id) }
        }
        return devices
    }

    @Test func everyActiveDeviceOnce() throws {
        try database.addDevices(1800, active: 1750)
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast()
        #expect(units.map(\.deviceCount) == [500, 500, 500, 250])
        #expect(try worker.claimBroadcast().isEmpty, "the end was seen while cutting")
        #expect(try worker.expand(units).flatMap(\.ids).sorted() == Array(1...1750))
        #expect(try worker.accept(units) == Array(repeating: "applied", count: 4))
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1750, 1750, 0, 0])
        #expect(
            try database.psql(
                "SELECT walking, cursor_id = upper_id, sent_at IS NOT NULL, batch_seq FROM scheduled_notifications")
                == [["f", "t", "t", "4"]])
    }

    @Test(arguments: [(1, 7), (3, 5), (16, 1), (2, 500)])
    func slicesHaveNoHoles(batches: Int, size: Int) throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token, environment, is_active, app)
            SELECT 'u', lpad(to_hex(i), 16, '0'), CASE WHEN i % 3 = 0 THEN 'sandbox' ELSE 'production' END, i % 7 <> 0,
                   CASE WHEN i % 5 = 0 THEN 'other' ELSE 'default' END
            FROM generate_series(1, 90) i
            """)
        try database.notify("broadcast", "true")
        let devices = try drain(worker, batches: batches, size: size)
        #expect(devices.sorted() == (1...90).filter { $0 % 7 != 0 && $0 % 5 != 0 })
        let holes = try database.number(
            """
            SELECT count(*) FROM (SELECT after_id, lag(through_id, 1, 0::bigint) OVER (ORDER BY batch_no) AS before, through_id
                                  FROM notification_batches) b WHERE after_id <> before OR through_id <= after_id
            """)
        #expect(holes == 0)
        #expect(
            try database.psql(
                "SELECT status, max(through_id) = max(cursor_id) FROM scheduled_notifications, notification_batches GROUP BY 1"
            ) == [["sent", "t"]])
    }

    @Test func onlyOneEnvironment() throws {
        try database.addDevices(100)
        try database.notify("broadcast, environment", "true, 'sandbox'")
        #expect(try drain(worker, batches: 2, size: 3) == (1...10).map { $0 * 10 })
    }

    @Test func nobodyToReach() throws {
        let id = try database.notify("broadcast", "true")
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try database.status(id) == "skipped")
        #expect(try worker.nextDue() == nil)
    }

    @Test func theAudienceIsPinnedAtTheStart() throws {
        try database.addDevices(10)
        try database.notify("broadcast", "true")
        let first = try worker.claimBroadcast(batches: 1, batchSize: 4)
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token) VALUES ('late', 'ffff0000');
            UPDATE devices SET is_active = false WHERE id IN (2, 8)
            """)
        let rest = try worker.claimBroadcast(batches: 8, batchSize: 4)
        #expect(try worker.expand(first + rest).flatMap(\.ids).sorted() == [1, 3, 4, 5, 6, 7, 9, 10])
    }

    @Test func theTailThatWentAwayFinishesIt() throws {
        try database.addDevices(6)
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 1, batchSize: 3)
        try database.psql("UPDATE devices SET is_active = false WHERE id > 3")
        try worker.accept(units)
        #expect(try worker.finalise(id) == [])
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try database.status(id) == "sent")
    }

    @Test func severalAreServedInTurn() throws {
        try database.addDevices(100)
        for _ in 1...3 { try database.notify("broadcast", "true") }
        var order: [Int] = []
        for _ in 1...6 { order += try worker.claimBroadcast(batches: 1, batchSize: 10).map(\.notification) }
        #expect(order == [1, 2, 3, 1, 2, 3])
    }

    @Test func lateAndExpiredOnes() throws {
        try database.addDevices(10)
        let late = try database.notify("broadcast, scheduled_at", "true, now() - interval '25 h'")
        let past = try database.notify(
            "broadcast, scheduled_at, expires_at", "true, now() - interval '2 h', now() - interval '1 h'")
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try database.status(late) == "expired")
        #expect(try database.status(past) == "expired")

        let id = try database.notify(
            "broadcast, scheduled_at, expires_at", "true, now() - interval '1 h', now() + interval '1 h'")
        let units = try worker.claimBroadcast(batches: 1, batchSize: 4)
        // As if the hour had passed: content is not changed otherwise once it is sending.
        try database.psql(
            "SET session_replication_role = replica; UPDATE scheduled_notifications SET expires_at = now() - interval '1 s' WHERE id = \(id); RESET session_replication_role"
        )
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try database.status(id) == "sending", "a batch is out")
        try worker.accept(units)
        #expect(try worker.finalise(id) == ["expired"])
        #expect(
            try database.psql(
                "SELECT device_count, accepted_count, sent_at FROM scheduled_notifications WHERE id = \(id)") == [
                    ["4", "4", nil]
                ])
    }

    @Test func pausedAppsAreSkipped() throws {
        try database.addDevices(10)
        try database.notify("broadcast", "true")
        try database.notify()
        try database.psql("SELECT pause_app('default', reason => 'maintenance')")
        #expect(try worker.claim().isEmpty)
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try worker.nextDue() == nil)
        #expect(try database.value("SELECT pause_app('default')") == "f")
        #expect(try database.value("SELECT resume_app('default')") == "t")
        #expect(try database.value("SELECT resume_app('default')") == "f")
        #expect(try worker.claim().count == 1)
        #expect(try worker.claimBroadcast().count == 1)
    }
}
