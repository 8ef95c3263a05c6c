// Several sessions at once: claims do not overlap, a cancel means what it says, nothing stays unfinished, nobody deadlocks.

import Foundation
import TestSupport
import Testing

@Suite struct RaceTests {
    let database: TestDatabase

    init() throws { database = try .make() }

    @Test func claimersShareTheWork() throws {
        try database.addDevices(100)
        try database.psql(
            "INSERT INTO scheduled_notifications (user_id, title) SELECT 'u' || (1 + i % 100), 'x' FROM generate_series(1, 2000) i"
        )
        let all = try database.notify("broadcast", "true")
        let database = database
        let first = Gathering(of: 3)
        try together(3) { _ in
            let worker = QueueWorker(database)
            // Whoever is quick may claim all that is left: each has a slice of its own before.
            let slice = try first.pass { try worker.claimBroadcast(batches: 1, batchSize: 5) }
            try worker.accept(slice)
            try worker.finalise(all)
            while case let units = try worker.claim(limit: 50) + worker.claimBroadcast(batches: 2, batchSize: 5),
                !units.isEmpty
            {
                #expect(try worker.accept(units).allSatisfy { $0 == "applied" })
                if units.contains(where: { $0.batch > 0 }) { try worker.finalise(all) }
            }
        }
        #expect(
            try database.psql(
                "SELECT status, count(*), sum(accepted_count), max(epoch) FROM scheduled_notifications GROUP BY 1")
                == [["sent", "2001", "2100", "1"]])
        #expect(try database.number("SELECT count(*) FROM notification_batches") == 20)
        #expect(try database.number("SELECT count(DISTINCT owner) FROM notification_batches") == 3)
    }

    @Test("F23 a cancel that races with a claim: the row is either sent or cancelled, 200 rounds")
    func cancelAgainstClaim() throws {
        let worker = QueueWorker(database)
        let operators = database.openSession()
        defer { operators.close() }
        var outcomes: Set<String> = []
        for _ in 1...200 {
            let id = try database.notify()
            try operators.start("SELECT cancel_notification(\(id))")
            let claimed = try worker.claim().map(\.notification)
            let said = try operators.finish()[0][0] ?? ""
            outcomes.insert(said)
            #expect(said == (claimed == [id] ? "cancelling" : "cancelled"))
            if said == "cancelling" {
                try worker.settle(Outcome(unit: Unit(notification: id, batch: 0, epoch: 1), accepted: 1))
            }
            #expect(try database.status(id) == "cancelled")
        }
        #expect(!outcomes.isEmpty)
    }

    @Test func theLastTwoBatchesSeeEachOther() throws {
        try database.addDevices(4)
        let (first, second) = (QueueWorker(database), QueueWorker(database))
        for round in 1...100 {
            let id = try database.notify("broadcast", "true")
            let units = [
                try first.claimBroadcast(batches: 1, batchSize: 2)[0],
                try second.claimBroadcast(batches: 1, batchSize: 2)[0],
            ]
            // Both settle before either commits; then each finalises after its own commit.
            try first.session.run("BEGIN")
            try second.session.run("BEGIN")
            #expect(try first.settle(Outcome(unit: units[0], accepted: 2)) == "applied")
            #expect(try second.settle(Outcome(unit: units[1], accepted: 2)) == "applied")
            try first.session.run("COMMIT")
            if round.isMultiple(of: 2) {
                #expect(try first.finalise(id) == [])
                try second.session.run("COMMIT")
            } else {
                try second.session.run("COMMIT")
                #expect(try first.finalise(id) == ["sent"])
            }
            try second.finalise(id)
            #expect(try database.status(id) == "sent")
        }
    }

    @Test(
        "a settle locks notifications in ascending order, whatever is in it",
        arguments: ["broadcast", "list", "single"])
    func settleLocksInOrder(kind: String) throws {
        try database.addDevices(4)
        let worker = QueueWorker(database)
        let low = try database.notify("user_id", "'u1'")
        let high =
            switch kind {
            case "broadcast": try database.notify("broadcast", "true")
            case "list": try database.notify("device_tokens", "'{abcd0001,abcd0002}'")
            default: try database.notify("user_id", "'u2'")
            }
        let small = kind == "list" ? 1 : 500
        let direct = try worker.claim(batchSize: small)
        let units = try direct + worker.claimBroadcast() + worker.claimBatches()
        #expect(units.map(\.notification).sorted().first == low)
        // The greater one would be locked first: for a number, or because its tokens go into the ledger.
        let outcomes = units.map { unit in
            var outcome = Outcome(unit: unit, rejected: 1)
            if kind == "list", unit.notification == high {
                outcome.failures = [.init(device: -unit.batch, status: 400, reason: "BadTopic")]
            } else if unit.notification == high {
                outcome.again = [.init(devices: [2])]
            }
            return outcome
        }
        let operators = database.openSession()
        defer { operators.close() }
        try operators.run("BEGIN; UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = \(low)")
        try worker.session.start("SELECT DISTINCT result FROM \(worker.settleCall(outcomes))")
        #expect(try worker.session.waitsForALock())
        try operators.run("UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = \(high); COMMIT")
        #expect(try worker.session.finish() == [["applied"]])
        #expect(try database.status(low) == "cancelled")
    }

    @Test func singlesAloneLockNothingAhead() throws {
        let worker = QueueWorker(database)
        for _ in 1...3 { try database.notify() }
        let list = try database.notify("device_tokens", "'{abcd0001}'")
        try database.psql(
            """
            CREATE OR REPLACE FUNCTION pgpush_settle_locks(
                u_notification bigint[], u_batch integer[], b_unit integer[], l_unit integer[], l_device bigint[]) RETURNS void
                LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$
            """)
        var outcomes = try worker.claim().map { Outcome(unit: $0, rejected: 1) }
        for index in outcomes.indices {
            let device = outcomes[index].unit.notification == list ? -1 : 1
            outcomes[index].failures = [.init(device: device, status: 400, reason: "BadTopic")]
        }
        #expect(try worker.settle(outcomes) == Array(repeating: "applied", count: 4))
        var again = Outcome(
            unit: try {
                try database.notify(); return try worker.claim()[0]
            }())
        again.again = [.init(devices: [1])]
        #expect(throws: SQLFailure.self, "and where there is something to send again it is") {
            try worker.settle(again)
        }
    }

    @Test func finalisersWaitForOneAnother() throws {
        try database.addDevices(2)
        let (first, second) = (QueueWorker(database), QueueWorker(database))
        let id = try database.notify("broadcast", "true")
        try first.accept(first.claimBroadcast())
        try first.session.run("BEGIN")
        #expect(try first.finalise(id) == ["sent"])
        try second.session.start("SELECT * FROM finalise('{\(id)}')")
        #expect(try second.session.waitsForALock())
        try first.session.run("COMMIT")
        #expect(try second.session.finish() == [])
    }

    @Test func theOnlyBroadcastIsWaitedFor() throws {
        try database.addDevices(20)
        let (first, second) = (QueueWorker(database), QueueWorker(database))
        let id = try database.notify("broadcast", "true")
        try first.session.run("BEGIN")
        #expect(try first.claimBroadcast(batches: 1, batchSize: 5).map(\.batch) == [1])
        let call = "SELECT batch_no FROM claim_broadcasts('\(second.owner)', '{default}', '{24h}', 1, 5, '75 s')"
        try second.session.start(call)
        #expect(try second.session.waitsForALock())
        try first.session.run("COMMIT")
        #expect(try second.session.finish() == [["2"]], "it goes on where the other stopped")

        // Where there is another, nobody waits.
        let other = try database.notify("broadcast", "true")
        try first.session.run("BEGIN")
        let taken = try first.claimBroadcast(batches: 1, batchSize: 5).map(\.notification)
        #expect(
            try second.claimBroadcast(batches: 1, batchSize: 5).map(\.notification)
                == [id, other].filter { !taken.contains($0) })
        try first.session.run("COMMIT")
        // The wait has an end.
        try first.session.run("BEGIN; SELECT FROM scheduled_notifications FOR NO KEY UPDATE")
        #expect(
            try #require(throws: SQLFailure.self) {
                try second.session.run("BEGIN; SET LOCAL lock_timeout = '100ms'; \(call)")
            }.sqlState == "55P03")
        try first.session.run("ROLLBACK")
    }

    @Test func noBatchIsHandedOutAfterACancelReturned() throws {
        try database.addDevices(20)
        let (worker, operators) = (QueueWorker(database), database.openSession())
        defer { operators.close() }
        let id = try database.notify("user_ids", "ARRAY(SELECT 'u' || i FROM generate_series(1, 20) i)")
        #expect(try worker.claim(batchSize: 5).isEmpty)
        // The claim is first: the cancel waits for it.
        try worker.session.run("BEGIN")
        #expect(try worker.claimBatches(limit: 1).count == 1)
        try operators.start("SELECT cancel_notification(\(id))")
        #expect(try operators.waitsForALock())
        try worker.session.run("COMMIT")
        #expect(try operators.finish() == [["cancelling"]])
        #expect(try worker.claimBatches().isEmpty)

        // The cancel is first: the claim finds nothing, without waiting.
        let next = try database.notify("user_ids", "ARRAY(SELECT 'u' || i FROM generate_series(1, 20) i)")
        #expect(try worker.claim(batchSize: 5).isEmpty)
        try operators.run("BEGIN; SELECT cancel_notification(\(next))")
        #expect(try worker.claimBatches().isEmpty)
        try operators.run("COMMIT")
        #expect(try worker.claimBatches().isEmpty)
    }

    @Test func oneTokenOneDevice() throws {
        let database = database
        for round in 1...20 {
            try together(4) { number in
                let session = database.openSession()
                defer { session.close() }
                try session.run("SELECT register_device('u\(number)', 'ab12cd\(10 + round)')")
            }
        }
        #expect(try database.number("SELECT count(*) FROM devices") == 20)
    }

    @Test func oneKeyOneNotification() throws {
        let database = database
        for round in 1...20 {
            try together(4) { _ in
                let session = database.openSession()
                defer { session.close() }
                try session.run(
                    "SELECT enqueue_notification(user_id => 'a', title => 'x', idempotency_key => 'k\(round)')")
            }
        }
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 20)
    }

    @Test func settlesAndSweepsDoNotDeadlock() throws {
        try database.addDevices(40)
        let database = database
        for _ in 1...10 { try database.notify("broadcast", "true") }
        try together(4) { number in
            let worker = QueueWorker(database)
            for round in 1...25 {
                if number == 3 {
                    try worker.sweep(grace: "0 s")
                    continue
                }
                let units =
                    try worker.claimBroadcast(batches: 4, batchSize: 5)
                    + worker.claimBatches(limit: 10, rescue: true, grace: "0 s")
                let outcomes = units.map { unit in
                    var outcome = Outcome(unit: unit, accepted: 1, rejected: 1)
                    // All retire the same devices, in all orders, and send some again.
                    outcome.retired = (1...40).shuffled().prefix(10).map {
                        .init(device: $0, before: "now() + interval '1 s'")
                    }
                    outcome.again = [.init(devices: [round], delayMilliseconds: 0)]
                    return outcome
                }
                try worker.settle(outcomes.shuffled())
                if round.isMultiple(of: 5) {
                    try worker.session.run(
                        """
                        WITH l AS MATERIALIZED (SELECT id FROM devices WHERE NOT is_active AND id % 3 = \(number) ORDER BY id FOR UPDATE)
                        UPDATE devices d SET is_active = true FROM l WHERE d.id = l.id
                        """)
                }
                for id in 1...10 { try worker.finalise(id) }
            }
        }
        #expect(try database.number("SELECT count(*) FROM notification_batches") > 50)
    }

    @Test func aHeldTableOnlyDelays() throws {
        // F27: somebody holds the table; the claim waits no longer than its lock_timeout, and works afterwards.
        let (worker, holder) = (QueueWorker(database), database.openSession())
        defer { holder.close() }
        try database.notify()
        try holder.run("BEGIN; LOCK TABLE scheduled_notifications IN ACCESS EXCLUSIVE MODE")
        let failure = #expect(throws: SQLFailure.self) {
            try worker.session.run("BEGIN; SET LOCAL lock_timeout = '100ms'; SELECT next_due('{default}')")
        }
        #expect(failure?.sqlState == "55P03")
        try holder.run("COMMIT")
        #expect(try worker.claim().count == 1)
    }
}
