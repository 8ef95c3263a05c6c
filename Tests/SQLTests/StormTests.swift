// A storm: tokens are refused in masses. Nobody is retired, the scope is paused, and when it resumes the rest goes out.

import TestSupport
import Testing

@Suite struct StormTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addMore(1000)
        try database.psql("UPDATE devices SET registered_at = now() - interval '1 h'")
    }

    /// A broadcast to 1,000 in two batches; the first 10 of each are accepted, all others are called bad.
    private func storm() throws -> Int {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 2, batchSize: 500)
        try worker.settle([
            .answers(units[0], accepted: 10, bad: Array(11...500)),
            .answers(units[1], accepted: 10, bad: Array(511...1000)),
        ])
        return id
    }

    private func inactive() throws -> Int { try database.number("SELECT count(*) FROM devices WHERE NOT is_active") }

    private func batches() throws -> [String?] {
        try database.psql(
            "SELECT batch_no || ' ' || state || ' ' || device_count FROM notification_batches ORDER BY notification_id, batch_no"
        ).map { $0[0] }
    }

    @Test func theRestGoesOutWhenTheScopeResumes() throws {
        let id = try storm()
        #expect(
            try database.value("SELECT message FROM queue_health")
                == "STORM, nobody is retired: production com.example.app 980 of 1000 answers were BadDeviceToken: wrong environment, key or topic?"
        )
        // It is not finished meanwhile, though all its batches are done.
        #expect(try worker.finalise(id) == [])
        #expect(try worker.sweep()[3] == 0)
        #expect(try database.status(id) == "sending")

        #expect(try worker.judge() == [["tripped", "0", "0", "980"]])
        #expect(try worker.judge() == [["tripped", "0", "0", "0"]], "it stands until the pause ends")
        #expect(try batches() == ["1 done 10", "2 done 10", "3 parked 500", "4 parked 480"])
        #expect(try worker.finalise(id) == [])
        #expect(try worker.claimBatches().isEmpty)
        #expect(
            try database.psql("SELECT is_final, count(*) FROM delivery_failures GROUP BY 1") == [["f", "980"]])
        #expect(
            try database.psql(
                "SELECT outcome, explanation FROM delivery_report WHERE notification_id = \(id) AND device_id = 600")
                == [["waiting", "waiting for the end of a pause"]])

        #expect(try database.value("SELECT resume_app('default')") == "t")
        #expect(try database.number("SELECT count(*) FROM token_windows") == 0)
        let again = try worker.claimBatches()
        #expect(again.map(\.attempt) == [1, 1], "nobody is charged")
        #expect(try worker.accept(again) == ["applied", "applied"])
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1000, 1000, 0, 0])
        #expect(try inactive() == 0)
        #expect(try database.value("SELECT message FROM queue_health") == nil)
    }

    @Test func threeProbesInARowEndIt() throws {
        let id = try storm()
        try worker.judge()
        let scope = "'default', 'production', 'com.example.app'"
        func probe() throws -> Unit {
            try database.psql("UPDATE app_pauses SET next_probe_at = now()")
            return try #require(try worker.probe().first)
        }
        func end() throws -> String? { try worker.session.run("SELECT end_pause(\(scope))")[0][0] }

        try worker.accept([probe()])
        #expect(try end() == "f")
        #expect(try #require(try worker.nextDue()) <= 5000, "the next one follows soon")
        try worker.accept([probe()])
        #expect(try end() == "f")
        // The third is refused: parked again, and the count begins anew.
        let third = try probe()
        var refused = Outcome(unit: third)
        let device = try worker.expand([third])[0].ids
        refused.failures = [.init(device: device[0], status: 400, reason: "BadDeviceToken", isFinal: false)]
        refused.again = [
            .init(
                devices: device, state: "parked", isCharged: false, environment: "production", topic: "com.example.app")
        ]
        refused.pauses = [.init(environment: "production", topic: "com.example.app", reason: "BadDeviceToken")]
        #expect(try worker.settle(refused) == "applied")
        #expect(
            try database.psql("SELECT passed, needed, reason LIKE '980 of 1000%' FROM app_pauses") == [["0", "3", "t"]])
        for ended in ["f", "f", "t"] {
            try worker.accept([probe()])
            #expect(try end() == ended)
        }
        #expect(try end() == "f", "there is none any more")
        #expect(try database.number("SELECT count(*) FROM token_windows") == 0)
        try worker.accept(worker.claimBatches())
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1000, 1000, 0, 0])
    }

    @Test func whatArrivesAfterTheTripIsParkedToo() throws {
        let id = try database.notify("broadcast", "true")
        let units = try worker.claimBroadcast(batches: 4, batchSize: 250)
        try worker.settle(.answers(units[0], bad: Array(1...250)))
        // A checkpoint, and later the end, of a batch that was on the wire.
        var part = Outcome.answers(units[1], accepted: 5, bad: Array(256...300))
        (part.isDone, part.doneThrough) = (false, 300)
        try worker.settle(part)
        #expect(try worker.judge() == [["tripped", "0", "0", "295"]])
        #expect(
            try database.psql(
                "SELECT state, device_count, accepted_count, rejected_count FROM notification_batches WHERE batch_no = 2"
            )
                == [["leased", "205", "5", "0"]])
        try worker.settle([
            .answers(units[1], accepted: 100, bad: Array(401...500)), Outcome(unit: units[2], accepted: 250),
        ])
        try database.psql("SELECT resume_app('default')")  // with proposals that nobody has judged yet
        #expect(try database.number("SELECT count(*) FROM proposed_deactivations") == 0)
        try worker.settle(Outcome(unit: units[3], accepted: 250))
        let again = try worker.claimBatches()
        #expect(try worker.expand(again).reduce(0) { $0 + $1.ids.count } == 395)
        try worker.accept(again)
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1000, 1000, 0, 0])
        #expect(try inactive() == 0)
    }

    @Test func listsOfTokensAndRetriesAreParkedByPosition() throws {
        let id = try database.notify(
            "device_tokens", "ARRAY(SELECT 'abcd' || lpad(to_hex(i), 8, '0') FROM generate_series(1, 40) i)")
        #expect(try worker.claim(batchSize: 20).isEmpty)
        let units = try worker.claimBatches()
        try worker.settle([
            .answers(units[0], bad: (1...20).map { -$0 }), .answers(units[1], bad: (21...40).map { -$0 }),
        ])
        #expect(try worker.judge() == [["tripped", "0", "0", "40"]])
        try database.psql("SELECT resume_app('default')")
        let again = try worker.claimBatches()
        #expect(try worker.expand(again).flatMap(\.ids) == (1...40).map { -$0 })
        try worker.accept(again)
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [40, 40, 0, 0])
    }

    @Test func singlesOnTheWireWaitLikeABroadcast() throws {
        let singles = try (1...15).map { try database.notify("user_id", "'m\($0)'") }
        let two = try database.notify("user_ids", "'{m20,m21}'")
        let units = try worker.claim()
        // The storm is seen in the settle that ends them: none is finished, whichever of them came first in it.
        #expect(
            try worker.settle(units.dropLast(2).enumerated().map { .answers($1, bad: [$0 + 1]) })
                == Array(repeating: "applied", count: 14))
        #expect(try singles.allSatisfy { try database.status($0) == "sending" })
        #expect(try singles.flatMap { try worker.finalise($0) }.isEmpty)
        // Nor is one that is answered while it lasts; who was accepted is not sent to again.
        let late = units.suffix(2)
        try worker.settle(
            late.map { $0.notification == two ? .answers($0, accepted: 1, bad: [21]) : .answers($0, bad: [15]) })
        #expect(try worker.sweep()[3] == 0, "finished by nobody")
        #expect(try worker.judge() == [["tripped", "0", "0", "16"]])
        #expect(try worker.judge() == [["tripped", "0", "0", "0"]])
        #expect(try inactive() == 0)
        #expect(try worker.claimBatches().isEmpty)

        try database.psql("SELECT resume_app('default')")
        let again = try worker.claimBatches()
        #expect(try worker.expand(again).flatMap(\.ids).sorted() == Array(1...15) + [21])
        try worker.accept(again)
        for id in singles {
            #expect(try worker.finalise(id) == ["sent"])
            #expect(try database.counts(id) == [1, 1, 0, 0])
        }
        #expect(try worker.finalise(two) == ["sent"])
        #expect(try database.counts(two) == [2, 2, 0, 0])
        #expect(try database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)
        #expect(
            try database.number(
                "SELECT count(*) FROM scheduled_notifications WHERE sent_at IS NULL OR error IS NOT NULL") == 0)
    }

    @Test func aSingleWithADeadTokenIsFinishedAtOnceWhereThereIsNoStorm() throws {
        let dead = try database.notify("user_id", "'m1'")
        let both = try database.notify("user_ids", "'{m2,m3}'")
        let units = try worker.claim()
        try worker.settle([.answers(units[0], bad: [1]), .answers(units[1], accepted: 1, bad: [3])])
        #expect(try worker.finalise(dead) == ["failed"] && worker.finalise(both) == ["sent"])
        #expect(
            try database.psql(
                "SELECT error, accepted_count, rejected_count, sent_at IS NULL FROM scheduled_notifications ORDER BY id"
            )
                == [["BadDeviceToken", "0", "1", "t"], [nil, "1", "1", "f"]])
        // Nothing of it stays behind.
        try database.psql("DELETE FROM scheduled_notifications")
        #expect(try database.number("SELECT count(*) FROM notification_batches") == 0)
        // Cancelled meanwhile it ends as such.
        let cancelled = try database.notify("user_id", "'m4'")
        let unit = try worker.claim()[0]
        try database.psql("SELECT cancel_notification(\(cancelled))")
        try worker.settle(.answers(unit, bad: [4]))
        #expect(try worker.finalise(cancelled) == ["cancelled"])
    }

    @Test func whatIsFinishedCancelledOrExpiredStaysAsItIs() throws {
        // Singles that were finished before the storm was seen can be sent again by hand.
        let singles = try (1...9).map { try database.notify("user_id", "'m\($0)'") }
        let units = try worker.claim()
        try worker.settle(units.enumerated().map { .answers($1, bad: [$0 + 1]) })
        for id in singles { #expect(try worker.finalise(id) == ["failed"]) }
        let cancelled = try storm()
        try database.psql("SELECT cancel_notification(\(cancelled))")
        #expect(try worker.finalise(cancelled) == ["cancelled"], "nothing waits for a verdict")
        let expired = try storm()
        try database.psql(
            """
            SET session_replication_role = replica; UPDATE scheduled_notifications SET expires_at = now() - interval '1 s' WHERE id = \(expired);
            RESET session_replication_role
            """)
        #expect(try worker.judge() == [["tripped", "0", "1969", "0"]])
        #expect(try worker.finalise(expired) == ["sent"])
        #expect(try database.counts(cancelled) == [1000, 20, 980, 0])
        #expect(try singles.allSatisfy { try database.status($0) == "failed" })
        #expect(try inactive() == 0)

        try database.psql("SELECT resume_app('default')")
        #expect(try database.number("SELECT retry_notification(\(singles[0]))") == 1)
        #expect(try worker.accept(worker.claimBatches()) == ["applied"])
        #expect(try worker.finalise(singles[0]) == ["sent"])
        #expect(try database.number("SELECT retry_notification(\(cancelled))") == 980)
        let again = try worker.claimBatches()
        try worker.settle([.answers(again[0], accepted: 500)])
        try worker.accept(again.dropFirst().map { $0 })
        #expect(try worker.finalise(cancelled) == ["sent"])
        #expect(try database.counts(cancelled) == [1000, 1000, 0, 0])
    }

    @Test func aCancelAfterTheTripLosesNothing() throws {
        let id = try storm()
        try worker.judge()
        #expect(try database.value("SELECT cancel_notification(\(id))") == "cancelling")
        #expect(try worker.finalise(id) == ["cancelled"])
        #expect(try database.counts(id) == [1000, 20, 0, 0], "980 were not reached")
        #expect(
            try database.psql("SELECT DISTINCT outcome FROM delivery_report WHERE notification_id = \(id) ORDER BY 1")
                == [["accepted"], ["not reached"]])
        #expect(try database.number("SELECT retry_notification(\(id))") == 980)
        try database.psql("SELECT resume_app('default')")
        try worker.accept(worker.claimBatches())
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1000, 1000, 0, 0])
    }

    @Test func tooLateIsFoundBySweep() throws {
        let id = try storm()
        try database.psql(
            """
            SET session_replication_role = replica;
            UPDATE scheduled_notifications SET scheduled_at = now() - interval '25 h', served_at = now() - interval '25 h';
            RESET session_replication_role
            """)
        try worker.judge()
        try worker.sweep()
        #expect(try database.status(id) == "expired")
        #expect(try database.counts(id) == [1000, 20, 0, 0])
        #expect(try worker.claimBatches().isEmpty)
    }

    @Test func aPauseThatSomebodyDeletesLeavesNothingBehind() throws {
        let id = try storm()
        try database.psql("DELETE FROM app_pauses")
        #expect(try worker.judge() == [["tripped", "0", "0", "980"]])
        #expect(try worker.judge().isEmpty, "the window stood for the pause")
        try worker.sweep()
        try worker.accept(worker.claimBatches())
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1000, 1000, 0, 0])
    }

    @Test func answersAfterTheTripRaiseTheDeletedPauseAgain() throws {
        let units = try {
            try database.notify("broadcast", "true")
            return try worker.claimBroadcast(batches: 2, batchSize: 500)
        }()
        try worker.settle(.answers(units[0], bad: Array(1...500)))
        try database.psql("DELETE FROM app_pauses")
        try worker.settle(.answers(units[1], bad: Array(501...1000)))
        #expect(try database.psql("SELECT needed, passed FROM app_pauses") == [["3", "0"]])
        #expect(try worker.judge() == [["tripped", "0", "0", "1000"]])
    }

    @Test func aStormPauseDoesNotEndForWantOfDevices() throws {
        let outcomes = try (1...10).map { device in
            try database.notify("user_id", "'m\(device)'")
            return Outcome.answers(try worker.claim()[0], bad: [device])
        }
        try worker.settle(outcomes)
        try worker.judge()
        try database.psql("SELECT cancel_notification(id) FROM scheduled_notifications")
        for outcome in outcomes { #expect(try worker.finalise(outcome.unit.notification) == ["cancelled"]) }
        try database.psql("UPDATE app_pauses SET next_probe_at = now()")
        #expect(try worker.probe().isEmpty)
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 1)
        #expect(try #require(try worker.nextDue()) > 30_000, "tried again in a minute")
    }

    @Test func aStormOnTopOfOtherPauses() throws {
        // An operator's pause of the environment stays; an automatic one of the very scope becomes a storm's.
        try database.psql(
            """
            SELECT pause_app('default', 'production', 'by hand');
            SELECT pgpush_pause('{default}', '{production}', '{com.example.app}', '{TopicDisallowed}')
            """)
        #expect(
            try database.psql("SELECT reason, needed, automatic FROM app_pauses ORDER BY topic NULLS FIRST")
                == [["by hand", "1", "f"], ["TopicDisallowed", "1", "t"]])
        _ = try storm()
        #expect(
            try database.psql("SELECT left(reason, 11), needed, automatic FROM app_pauses ORDER BY topic NULLS FIRST")
                == [["by hand", "1", "f"], ["980 of 1000", "3", "t"]])
        try worker.judge()
        #expect(try database.value("SELECT resume_app('default', 'sandbox')") == "f")
        #expect(try database.number("SELECT count(*) FROM token_windows") == 1)
        #expect(try database.value("SELECT resume_app('default', 'production')") == "t")
        #expect(
            try database.number("SELECT (SELECT count(*) FROM token_windows) + (SELECT count(*) FROM app_pauses)") == 0)
    }

    @Test func whoLeftMeanwhileIsNotParked() throws {
        let id = try storm()
        try database.psql(
            "SELECT forget_user('m11'), unregister_device('m12', (SELECT device_token FROM devices WHERE id = 12))")
        #expect(try database.number("SELECT count(*) FROM proposed_deactivations WHERE device_id = 11") == 0)
        #expect(try worker.judge() == [["tripped", "0", "1", "978"]])
        try database.psql("SELECT resume_app('default')")
        try worker.accept(worker.claimBatches())
        #expect(try worker.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [1000, 998, 2, 0])
    }
}
