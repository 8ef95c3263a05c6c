// settle and finalise: counts, the ledger, retries, deactivations, and the fence.

import TestSupport
import Testing

@Suite struct SettleTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(30)
    }

    @Test func aMixedOutcome() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 3, batchSize: 10)
        var mixed = Outcome(unit: units[0], accepted: 6, rejected: 2, unknown: 1, error: "Unregistered")
        mixed.failures = [
            .init(device: 1, status: 410, reason: "Unregistered"),
            .init(device: 2, status: 400, reason: "BadDeviceToken"),
            .init(device: 3, status: 0, reason: "Timeout"),
            .init(device: 4, status: 503, reason: "Shutdown", isFinal: false),
        ]
        mixed.retired = [.init(device: 1, before: "now() + interval '1 s'")]
        mixed.again = [.init(devices: [4], delayMilliseconds: 60_000)]
        let outcomes = [mixed, Outcome(unit: units[1], accepted: 10), Outcome(unit: units[2], accepted: 10)]
        #expect(try worker.settle(outcomes) == ["applied", "applied", "applied"])
        #expect(try worker.settle(outcomes) == ["already", "already", "already"], "the answer to the first was lost")
        #expect(try database.number("SELECT count(*) FROM delivery_failures") == 4)
        #expect(
            try database.psql(
                """
                SELECT device_id, http_status, reason, attempt, is_final, apns_id = apns_id(\(id), device_id), batch_no, app, environment
                FROM delivery_failures WHERE device_id >= 3 ORDER BY device_id
                """) == [
                    ["3", nil, "Timeout", "1", "t", "t", "1", "default", "production"],
                    ["4", "503", "Shutdown", "1", "f", "t", "1", "default", "production"],
                ])
        #expect(
            try database.psql("SELECT id, deactivation_reason FROM devices WHERE NOT is_active") == [
                ["1", "Unregistered"]
            ])
        #expect(try worker.finalise(id) == [])
        #expect(try worker.claimBatches().isEmpty, "it is not time yet")
        #expect((55_000...60_000).contains(try #require(try worker.nextDue())))

        try database.psql("UPDATE notification_batches SET not_before = now() WHERE state = 'ready'")
        let again = try worker.claimBatches()
        #expect(again == [Unit(notification: id, batch: 4, epoch: 1, attempt: 2, deviceCount: 1)])
        #expect(try worker.expand(again).map(\.ids) == [[4]])
        #expect(try worker.accept(again) == ["applied"])
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try worker.finalise(id) == [])
        #expect(try database.counts(id) == [30, 27, 2, 1])
        #expect(
            try database.psql(
                "SELECT device_count, accepted_count, rejected_count, unknown_count FROM notification_batches ORDER BY batch_no"
            )
                == [["9", "6", "2", "1"], ["10", "10", "0", "0"], ["10", "10", "0", "0"], ["1", "1", "0", "0"]])
    }

    @Test func aSingleWithARetryCountsOnce() throws {
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('u1', 'ab12cd34')")
        let id = try database.notify()
        let unit = try worker.claim()[0]
        var first = Outcome(unit: unit, accepted: 1)
        first.failures = [.init(device: 31, status: 429, reason: "TooManyRequests", isFinal: false)]
        first.again = [.init(devices: [31])]
        #expect(try worker.settle(first) == "applied")
        #expect(try worker.settle(first) == "already")
        #expect(try database.status(id) == "sending")
        #expect(try worker.finalise(id) == [])
        let again = try worker.claimBatches()
        #expect(again == [Unit(notification: id, batch: 1, epoch: 1, attempt: 2, deviceCount: 1)])
        var second = Outcome(unit: again[0], rejected: 1)
        second.failures = [.init(device: 31, status: 410, reason: "Unregistered")]
        #expect(try worker.settle(second) == "applied")
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [2, 1, 1, 0])
        #expect(
            try database.psql("SELECT attempt, is_final FROM delivery_failures ORDER BY attempt") == [
                ["1", "f"], ["2", "t"],
            ])
    }

    @Test func failuresNameTheLeadingReason() throws {
        let id = try database.notify("user_ids", "'{u1,u2,u3}'")
        _ = try worker.claim(batchSize: 2)
        let units = try worker.claimBatches()
        for (unit, devices) in zip(units, [[1, 2], [3]]) {
            var outcome = Outcome(unit: unit, rejected: devices.count)
            outcome.failures = devices.map {
                .init(device: $0, status: 400, reason: $0 == 3 ? "BadTopic" : "BadDeviceToken")
            }
            try worker.settle(outcome)
        }
        #expect(try worker.finalise(id) == ["failed"])
        #expect(try database.psql("SELECT error, sent_at FROM scheduled_notifications") == [["BadDeviceToken", nil]])
    }

    @Test func checkpointsCountOnce() throws {
        let id = try database.notify("broadcast", "true")
        let unit = try worker.claimBroadcast(batches: 1, batchSize: 30)[0]
        let first = Outcome(unit: unit, accepted: 9, rejected: 1, isDone: false, doneThrough: 10)
        #expect(try worker.settle(first) == "applied")
        #expect(try worker.settle(first) == "already")
        #expect(try worker.expand([unit]).flatMap(\.ids).sorted() == Array(11...30))
        #expect(try worker.settle(Outcome(unit: unit, accepted: 10, isDone: false, doneThrough: 20)) == "applied")
        #expect(try worker.settle(Outcome(unit: unit, accepted: 10, doneThrough: 30)) == "applied")
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [30, 29, 1, 0])
    }

    @Test func aLateReportIsFencedButItsFactsCount() throws {
        let id = try database.notify("broadcast", "true")
        let single = try database.notify("user_id", "'u2'")
        let batch = try worker.claimBroadcast(batches: 1, batchSize: 30, lease: "-1 min")[0]
        let direct = try worker.claim(lease: "-1 min")[0]
        let rescuer = QueueWorker(database)
        let rescued = try rescuer.claimBatches(rescue: true)
        #expect(rescued.map(\.notification) == [id, single])
        #expect(rescued.map(\.epoch) == [2, 2])
        #expect(rescued.map(\.attempt) == [1, 1])

        var late = Outcome(unit: batch, accepted: 29, rejected: 1)
        late.failures = [.init(device: 7, status: 410, reason: "Unregistered")]
        late.retired = [.init(device: 7, before: "now() + interval '1 s'")]
        late.again = [.init(devices: [8])]
        #expect(try worker.settle([late, Outcome(unit: direct, accepted: 1)]) == ["fenced", "fenced"])
        #expect(try worker.renew([batch, direct]) == ["false sending", "false sending"])
        #expect(try worker.release([batch, direct]) == ["f", "f"])
        #expect(try database.number("SELECT count(*) FROM delivery_failures") == 0)
        #expect(try database.number("SELECT count(*) FROM notification_batches") == 1)
        #expect(try database.psql("SELECT id FROM devices WHERE NOT is_active") == [["7"]])
        #expect(try rescuer.accept(rescued) == ["applied", "applied"])
        #expect(try rescuer.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [29, 29, 0, 0])
        #expect(try database.status(single) == "sent")
    }

    @Test("F14 a registration after Apple's word keeps the device")
    func deactivationComparesTimes() throws {
        try database.notify("broadcast", "true")
        let unit = try worker.claimBroadcast(batches: 1, batchSize: 30)[0]
        try database.psql(
            "UPDATE devices SET registered_at = now() - interval '1 h'; UPDATE devices SET registered_at = now() WHERE id = 5"
        )
        var outcome = Outcome(unit: unit, accepted: 24, rejected: 6)
        outcome.retired = [
            .init(device: 1, before: "now() - interval '1 day'"),  // registered again since
            .init(device: 2, before: "now() - interval '1 minute'"),
            .init(device: 3),  // no time: the time of sending
            .init(device: 4, ageMilliseconds: 2 * 3600 * 1000),  // sent before it was registered again
            .init(device: 5, ageMilliseconds: 1000),
            .init(device: 6, before: "now() - interval '2 h'"), .init(device: 6, before: "now()"),
        ]
        #expect(try worker.settle(outcome) == "applied")
        #expect(try database.psql("SELECT id FROM devices WHERE NOT is_active ORDER BY id") == [["2"], ["3"], ["6"]])
    }

    @Test func sentAtIsTheTimeOfTheLastAcceptance() throws {
        let id = try database.notify()
        let unit = try worker.claim()[0]
        try worker.session.run(
            """
            SELECT * FROM settle('\(worker.owner)', '{\(id)}', '{0}', '{\(unit.epoch)}', '{t}', '{null}', '{1}', '{0}', '{0}', '{5000}', '{null}')
            """)
        let age = try database.psql("SELECT finished_at - sent_at FROM scheduled_notifications")
        #expect(age == [["00:00:05"]])
    }

    @Test func renewExtendsLeases() throws {
        try database.notify()
        try database.notify("broadcast", "true")
        let units = try worker.claim(lease: "1 s") + worker.claimBroadcast(batches: 1, lease: "1 s")
        #expect(try worker.renew(units, lease: "75 s") == ["true sending", "true sending"])
        #expect(try worker.renew(units, lease: "1 s") == ["true sending", "true sending"])
        let left = try database.psql(
            """
            SELECT bool_and(l > now() + interval '5 s') FROM (SELECT lease_until AS l FROM scheduled_notifications WHERE NOT broadcast
                UNION ALL SELECT lease_until FROM notification_batches) x
            """)
        #expect(left == [["t"]], "a lease is never shortened")
    }

    @Test func aBroadcastsRowIsUpdatedInPlace() throws {
        try database.addMore(20_000)
        try database.notify("broadcast", "true")
        for _ in 1...6 {
            let units = try worker.claimBroadcast(batches: 2, batchSize: 500)
            try worker.settle(units.map { Outcome(unit: $0, accepted: 500) })
            try worker.finalise(1)
        }
        try worker.session.run("SELECT pg_stat_force_next_flush()")
        let rows = try database.psql(
            "SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'scheduled_notifications'")
        #expect(rows == [["1"]], "only the beginning, pending to sending, touches indexes")
    }
}

extension TestDatabase {
    /// Devices in bulk, without their trigger.
    func addMore(_ count: Int) throws {
        try psql(
            """
            SET session_replication_role = replica;
            INSERT INTO devices (user_id, device_token) SELECT 'm' || i, 'f0' || lpad(to_hex(i), 14, '0') FROM generate_series(1, \(count)) i;
            RESET session_replication_role
            """)
    }
}
