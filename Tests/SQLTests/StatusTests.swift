// The state machine, for everybody: what operators may type, and what nobody may.

import TestSupport
import Testing

@Suite struct StatusTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(10)
    }

    private func set(_ status: String, _ id: Int) throws -> String? {
        try database.refusal("UPDATE scheduled_notifications SET status = '\(status)' WHERE id = \(id)")
    }

    private func cancel(_ id: Int) throws -> String? { try database.value("SELECT cancel_notification(\(id))") }

    @Test func aPendingRowIsCancelledByUpdate() throws {
        let id = try database.notify()
        #expect(try set("cancelled", id) == nil)
        let row = try database.psql(
            """
            SELECT status, cancelled_by, cancelled_at IS NOT NULL, finished_at IS NOT NULL, sent_at, updated_at > created_at
            FROM scheduled_notifications
            """)
        #expect(row == [["cancelled", "postgres", "t", "t", nil, "t"]])
        #expect(try worker.claim().isEmpty)
        #expect(try set("cancelled", id) == nil, "once more does no harm")
        #expect(try cancel(id) == "already_cancelled")
        #expect(try set("pending", id) == "PN023")
        #expect(try set("sending", id) == "PN023")
    }

    @Test("F23 a cancel while it is sent: one final status, counts are kept")
    func cancelWhileSending() throws {
        let id = try database.notify()
        let units = try worker.claim()
        #expect(try database.value("SELECT cancel_notification(\(id), actor => 'night shift')") == "cancelling")
        #expect(try cancel(id) == "cancelling")
        #expect(try set("cancelled", id) == nil)
        #expect(try database.status(id) == "cancelling", "asked for again while it is out")
        #expect(try worker.renew(units) == ["true cancelling"])
        #expect(try worker.accept(units) == ["applied"])
        let row = try database.psql(
            "SELECT status, accepted_count, sent_at, cancelled_by, finished_at IS NOT NULL FROM scheduled_notifications"
        )
        #expect(row == [["cancelled", "1", nil, "night shift", "t"]])
        #expect(try worker.accept(units) == ["already"])
        #expect(try cancel(id) == "already_cancelled")
    }

    @Test func whatIsFinishedStays() throws {
        let sent = try database.notify()
        let skipped = try database.notify("user_id", "'nobody'")
        let failed = try database.notify()
        let units = try worker.claim()
        try worker.accept([units[0], units[1]])
        try worker.settle(Outcome(unit: units[2], rejected: 1, error: "Unregistered"))
        #expect(try database.status(sent) == "sent")
        #expect(try database.status(skipped) == "skipped")
        #expect(try database.status(failed) == "failed")
        #expect(try database.value("SELECT error FROM scheduled_notifications WHERE id = \(failed)") == "Unregistered")
        for id in [sent, skipped, failed] {
            for status in ["pending", "sending", "cancelled", "cancelling", "sent", "failed", "skipped", "expired"] {
                let same = try database.status(id) == status
                #expect(try set(status, id) == (same ? nil : "PN023"), "\(id) to \(status)")
            }
            #expect(try cancel(id) == "already_\(database.status(id) ?? "")")
            #expect(try database.value("SELECT reschedule_notification(\(id), now())") == database.status(id))
        }
        let failure = #expect(throws: SQLFailure.self) {
            try database.psql("UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = \(sent)")
        }
        #expect(failure?.message == "notification \(sent) is already sent: its status cannot become cancelled")
        #expect(try cancel(999) == "not_found")
        #expect(try database.value("SELECT reschedule_notification(999, now())") == "not_found")
    }

    @Test func nobodySetsWhatIsTheWorkers() throws {
        let id = try database.notify()
        for status in ["sending", "sent", "failed", "skipped"] { #expect(try set(status, id) == "PN024", "\(status)") }
        try database.psql("UPDATE scheduled_notifications SET scheduled_at = now() + interval '1 h'")
        #expect(try set("expired", id) == "PN024", "it is not late")
        #expect(try set("frozen", id) == "PN024")
        try database.psql("UPDATE scheduled_notifications SET scheduled_at = now()")
        _ = try worker.claim()
        for status in ["pending", "sent", "failed", "skipped", "expired"] {
            #expect(try set(status, id) == "PN024", "\(status)")
        }
        #expect(try database.status(id) == "sending")
    }

    @Test func aCancelledBroadcastStopsAtTheNextBatch() throws {
        try database.addDevices(0)
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 3)
        #expect(units.count == 2)
        #expect(try cancel(id) == "cancelling")
        #expect(try worker.claimBroadcast().isEmpty)
        #expect(try worker.nextDue() == nil)
        #expect(try worker.finalise(id) == [], "batches are out")
        // One batch was through, of the other the last device was not reached.
        var half = Outcome(unit: units[1], accepted: 2)
        half.again = [.init(devices: [6], isCharged: false)]
        #expect(try worker.settle([Outcome(unit: units[0], accepted: 3), half]) == ["applied", "applied"])
        #expect(try worker.claimBatches().isEmpty)
        #expect(try worker.finalise(id) == ["cancelled"])
        #expect(try database.counts(id) == [6, 5, 0, 0])
        #expect(try database.value("SELECT state FROM notification_batches WHERE batch_no = 3") == "abandoned")
    }

    @Test func aReadyBatchIsGivenUp() throws {
        let id = try database.notify("user_ids", "ARRAY(SELECT 'u' || i FROM generate_series(1, 10) i)")
        #expect(try worker.claim(batchSize: 4).isEmpty)
        let first = try worker.claimBatches(limit: 1)
        #expect(try cancel(id) == "cancelling")
        #expect(try worker.claimBatches().isEmpty)
        #expect(try worker.finalise(id) == [])
        #expect(try worker.release(first) == ["t"])
        #expect(try worker.finalise(id) == ["cancelled"])
        #expect(try database.psql("SELECT DISTINCT state FROM notification_batches") == [["abandoned"]])
    }

    @Test func releaseHandsBack() throws {
        let id = try database.notify()
        let units = try worker.claim()
        #expect(try worker.release(units) == ["t"])
        #expect(
            try database.psql("SELECT status, owner, started_at, lease_until FROM scheduled_notifications") == [
                ["pending", nil, nil, nil]
            ])
        #expect(try worker.release(units) == ["f"])
        #expect(try worker.accept(units) == ["fenced"])
        let again = try worker.claim()
        #expect(again.map(\.epoch) == [2])
        try database.psql("UPDATE scheduled_notifications SET status = 'cancelled'")
        #expect(try worker.release(again) == ["t"])
        #expect(try database.status(id) == "cancelled")
    }

    @Test func deletingTakesTheBatchesAlong() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 1, batchSize: 3)
        try database.psql("DELETE FROM scheduled_notifications WHERE id = \(id)")
        #expect(try database.number("SELECT count(*) FROM notification_batches") == 0)
        #expect(try worker.renew(units) == [""])
        #expect(try worker.session.run("SELECT * FROM look('{\(id)}')").isEmpty)
        #expect(try worker.settle(Outcome(unit: units[0], accepted: 3)) == "fenced")
        #expect(try worker.finalise(id) == [])
    }

    @Test func truncatingTakesAllAlong() throws {
        try database.notify("broadcast", "true")
        try worker.accept(worker.claimBroadcast())
        try database.psql("TRUNCATE scheduled_notifications RESTART IDENTITY")
        #expect(try database.number("SELECT count(*) FROM notification_batches") == 0)
        let id = try database.notify("broadcast", "true")
        try worker.accept(worker.claimBroadcast())
        #expect(try worker.finalise(id) == ["sent"])
    }

    @Test func cancellingWakesTheWorkers() throws {
        let listener = database.openSession()
        try listener.run("LISTEN pgpush_cancel; LISTEN pgpush")
        let id = try database.notify()
        try database.psql("UPDATE scheduled_notifications SET scheduled_at = now() + interval '1 h'")
        _ = try database.notify("user_id, scheduled_at", "'u1', now() + interval '1 day'")
        try database.psql("SET pgpush.notify = off")
        try database.notify()
        try database.psql("SET pgpush.notify = on")
        _ = try worker.claim()
        try database.psql("SELECT reschedule_notification(\(id), now())")
        _ = try worker.claim()
        try database.psql("SELECT cancel_notification(\(id))")
        let heard = try listener.notifications()
        #expect(heard == ["pgpush:", "pgpush:", "pgpush_cancel:\(id)"])
    }

    @Test func aStaleCopyIsNotBelieved() throws {
        let id = try database.notify()
        try database.psql("CREATE TABLE copy AS SELECT * FROM scheduled_notifications")
        let save = """
            UPDATE scheduled_notifications n SET status = c.status, owner = c.owner, epoch = c.epoch, lease_until = c.lease_until,
                cursor_id = c.cursor_id, batch_seq = c.batch_seq, started_at = c.started_at FROM copy c WHERE n.id = c.id
            """
        let units = try worker.claim()
        #expect(try database.refusal(save) == "PN036")
        #expect(
            try database.refusal("UPDATE scheduled_notifications SET status = 'pending', lease_until = NULL")
                == "PN024",
            "the owner is still there")
        #expect(try database.status(id) == "sending")
        // A copy from the time of sending, saved when the devices wait to be tried again.
        try database.psql("DELETE FROM copy; INSERT INTO copy SELECT * FROM scheduled_notifications")
        var outcome = Outcome(unit: units[0])
        outcome.again = [.init(devices: [1])]
        try worker.settle(outcome)
        #expect(try database.refusal(save) == "PN036")
        #expect(try database.refusal("UPDATE scheduled_notifications SET lease_until = now()") == "PN036")
        #expect(try worker.accept(worker.claimBatches()) == ["applied"])
        #expect(try worker.finalise(id) == ["sent"])

        try database.notify("broadcast", "true")
        _ = try worker.claimBroadcast(batches: 1, batchSize: 3)
        for column in ["epoch", "cursor_id", "batch_seq"] {
            let back = "UPDATE scheduled_notifications SET \(column) = \(column) - 1 WHERE broadcast"
            #expect(try database.refusal(back) == "PN036", "\(column)")
        }
    }
}
