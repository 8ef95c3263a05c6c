// The guard with several sessions at once: who waits for whom, what is decided once, and that nobody deadlocks.

import Foundation
import TestSupport
import Testing

@Suite struct GuardRaceTests {
    let database: TestDatabase
    let first: QueueWorker
    let second: QueueWorker

    init() throws {
        database = try .make()
        (first, second) = (QueueWorker(database), QueueWorker(database))
        try database.addMore(400)
        try database.psql("UPDATE devices SET registered_at = now() - interval '1 h'")
    }

    private func slices(_ worker: QueueWorker, _ count: Int = 1) throws -> [Unit] {
        try worker.claimBroadcast(batches: count, batchSize: 100)
    }

    private func count(_ table: String) throws -> Int { try database.number("SELECT count(*) FROM \(table)") }

    private func judgement(_ worker: QueueWorker) -> String {
        "SELECT verdict, applied, dropped, requeued FROM judge_windows('\(worker.apps)')"
    }

    @Test func twoSettlesOnOneWindow() throws {
        let id = try database.notify("broadcast", "true")
        let (mine, yours) = (try slices(first)[0], try slices(second)[0])
        // Both open it; the second waits for the first, and sees what it counted: together they are a storm.
        try first.session.run("BEGIN")
        #expect(try first.settle(.answers(mine, accepted: 40, bad: Array(1...9))) == "applied")
        try second.session.start(
            "SELECT result FROM \(second.settleCall([.answers(yours, accepted: 35, bad: Array(101...115))]))")
        #expect(try second.session.waitsForALock())
        try first.session.run("COMMIT")
        #expect(try second.session.finish() == [["applied"]])
        #expect(
            try database.psql(
                "SELECT accepted_count, answered_count, proposed_count, tripped_at IS NOT NULL FROM token_windows")
                == [["75", "99", "24", "t"]])
        #expect(try first.judge() == [["tripped", "0", "0", "24"]])
        #expect(try first.finalise(id) == [])

        // The first one's transaction comes to nothing: the second has the window for itself.
        try database.psql("SELECT resume_app('default')")
        let (third, fourth) = (try slices(first)[0], try slices(second)[0])
        try first.session.run("BEGIN")
        try first.settle(.answers(third, accepted: 90, bad: [201]))
        try second.session.start(
            "SELECT result FROM \(second.settleCall([.answers(fourth, accepted: 99, bad: [301])]))")
        #expect(try second.session.waitsForALock())
        try first.session.run("ROLLBACK")
        #expect(try second.session.finish() == [["applied"]])
        #expect(try database.psql("SELECT answered_count, proposed_count FROM token_windows") == [["100", "1"]])
        #expect(try count("proposed_deactivations") == 1)
    }

    @Test func aSettleThatTripsTheWindowBeforeItsJudge() throws {
        try database.notify("broadcast", "true")
        let (mine, yours) = (try slices(first)[0], try slices(second)[0])
        try first.settle(.answers(mine, accepted: 40, bad: [1]))
        try database.psql("UPDATE token_windows SET closes_at = now()")
        try second.session.run("BEGIN")
        #expect(try second.settle(.answers(yours, bad: Array(101...150))) == "applied")
        // The judge has seen a calm window, has the device locked, and finds the window tripped when it gets it.
        try first.session.start(judgement(first))
        #expect(try first.session.waitsForALock())
        try second.session.run("COMMIT")
        #expect(try first.session.finish() == [["tripped", "0", "0", "0"]])
        #expect(try count("devices WHERE NOT is_active") == 0)
        #expect(try first.judge() == [["tripped", "0", "0", "51"]])
    }

    @Test func aJudgeBeforeASettle() throws {
        try database.notify("broadcast", "true")
        let (mine, yours) = (try slices(first)[0], try slices(second)[0])
        try first.settle(.answers(mine, accepted: 40, bad: [1]))
        try database.psql("UPDATE token_windows SET closes_at = now()")
        try first.session.run("BEGIN")
        #expect(try first.judge() == [["calm", "1", "0", "0"]])
        try second.session.start("SELECT result FROM \(second.settleCall([.answers(yours, accepted: 99, bad: [150])]))")
        #expect(try second.session.waitsForALock())
        try first.session.run("COMMIT")
        #expect(try second.session.finish() == [["applied"]])
        // Its proposal is in a window of its own, with its evidence alone.
        #expect(try database.psql("SELECT answered_count, closes_at > now() FROM token_windows") == [["100", "t"]])
        #expect(try database.psql("SELECT device_id FROM proposed_deactivations") == [["150"]])
        #expect(try database.psql("SELECT id FROM devices WHERE NOT is_active") == [["1"]])
    }

    @Test func oneJudgeAtATime() throws {
        let id = try database.notify("broadcast", "true")
        try first.settle(.answers(slices(first)[0], bad: Array(1...100)))
        try first.session.run("BEGIN")
        #expect(try first.judge() == [["tripped", "0", "0", "100"]])
        #expect(try second.judge() == [["tripped", "0", "0", "0"]], "without waiting")

        // A resume waits, and finds nothing left to park; a finalise waits for the notification.
        let operators = database.openSession()
        defer { operators.close() }
        try operators.start("SELECT resume_app('default')")
        try second.session.start("SELECT status FROM finalise('{\(id)}')")
        #expect(try operators.waitsForALock())
        try first.session.run("COMMIT")
        #expect(try operators.finish() == [["t"]])
        #expect(try second.session.finish() == [])
        #expect(try count("token_windows") + count("app_pauses") == 0)
        #expect(try count("notification_batches WHERE state = 'ready' AND device_count = 100") == 1)

        // The other way round: what the resume has parked and freed, the judge finds gone.
        try first.settle(.answers(slices(first)[0], bad: Array(101...200)))
        try operators.run("BEGIN; SELECT resume_app('default')")
        #expect(try first.judge() == [["tripped", "0", "0", "0"]])
        try operators.run("COMMIT")
        #expect(try first.judge().isEmpty)
        #expect(try count("notification_batches WHERE state = 'ready'") == 2)
    }

    @Test func aResumeDuringASettleLosesNoProposal() throws {
        try database.notify("broadcast", "true")
        let units = try slices(first, 2)
        try first.settle(.answers(units[0], bad: Array(1...100)))
        let operators = database.openSession()
        defer { operators.close() }
        try first.session.run("BEGIN")
        try first.settle(.answers(units[1], bad: Array(101...200)))
        try operators.start("SELECT resume_app('default')")
        #expect(try operators.waitsForALock(), "the window is locked")
        try first.session.run("COMMIT")
        #expect(try operators.finish() == [["t"]])
        // What came at the last moment keeps the window, and is parked by the next judge.
        #expect(try count("token_windows") == 1)
        #expect(try first.judge() == [["tripped", "0", "0", "100"]])
        #expect(try first.judge().isEmpty)
        #expect(try count("token_windows") == 0)
        try first.sweep()
        #expect(try first.claimBatches().compactMap(\.deviceCount) == [100, 100])
    }

    @Test func aTripAndACancel() throws {
        let id = try database.notify("broadcast", "true")
        let units = try slices(first, 4)
        let operators = database.openSession()
        defer { operators.close() }
        // The judge is first: the cancel waits, and gives up what was parked.
        try first.settle(.answers(units[0], bad: Array(1...100)))
        try second.session.run("BEGIN")
        #expect(try second.judge() == [["tripped", "0", "0", "100"]])
        try operators.start("SELECT cancel_notification(\(id))")
        #expect(try operators.waitsForALock())
        try second.session.run("COMMIT")
        #expect(try operators.finish() == [["cancelling"]])
        // The cancel is first: nothing more is parked.
        try first.settle(.answers(units[1], bad: Array(101...200)))
        #expect(try second.judge() == [["tripped", "0", "100", "0"]])
        try first.settle([Outcome(unit: units[2], accepted: 100), Outcome(unit: units[3], accepted: 100)])
        #expect(try first.finalise(id) == ["cancelled"])
        #expect(try database.counts(id) == [400, 200, 100, 0])
    }

    @Test func givingUpAndAClaim() throws {
        let id = try database.notify("user_ids", "ARRAY(SELECT 'm' || i FROM generate_series(1, 400) i)")
        #expect(try first.claim(batchSize: 100).isEmpty)
        let hopeless = try first.claimBatches(limit: 1)[0]
        try first.settle(.answers(hopeless, bad: Array(1...100), reason: "BadTopic").with(noProposals: true))
        // The claim is first: what it took ends by itself, the rest is given up.
        try second.session.run("BEGIN")
        let out = try second.claimBatches(limit: 1)
        let operators = database.openSession()
        defer { operators.close() }
        try operators.start("SELECT give_up_rest('{\(id)}', '{BadTopic}')")
        #expect(try operators.waitsForALock())
        try second.session.run("COMMIT")
        #expect(try operators.finish() == [["1"]])
        #expect(try first.claimBatches().isEmpty)
        #expect(try first.finalise(id) == [])
        try second.accept(out)
        #expect(try first.finalise(id) == ["sent"])
        #expect(try database.counts(id) == [400, 100, 100, 0])

        // It is first: the claim comes back empty, without waiting.
        let other = try database.notify("user_ids", "ARRAY(SELECT 'm' || i FROM generate_series(1, 400) i)")
        #expect(try first.claim(batchSize: 100).isEmpty)
        try operators.run("BEGIN; SELECT give_up_rest('{\(other)}', '{BadTopic}')")
        #expect(try first.claimBatches().isEmpty)
        try operators.run("COMMIT")
        #expect(try first.claimBatches().isEmpty)
        #expect(try first.finalise(other) == ["failed"])
        #expect(try database.psql("SELECT error FROM scheduled_notifications WHERE id = \(other)") == [["BadTopic"]])
    }

    @Test func forgettingSomebodyDuringASettle() throws {
        let list = try database.notify(
            "device_tokens", "ARRAY(SELECT device_token FROM devices ORDER BY id LIMIT 60)")
        try database.notify("broadcast", "true")
        #expect(try first.claim(batchSize: 30).isEmpty)
        let units = try first.claimBatches() + slices(first)
        let operators = database.openSession()
        defer { operators.close() }
        var outcomes: [Outcome] = [
            .answers(units[0], accepted: 29, bad: [-7]), .answers(units[1], accepted: 30),
            .answers(units[2], accepted: 98, bad: [7, 8]),
        ]
        outcomes[0].failures[0].token = try #require(
            try database.value("SELECT device_token FROM devices WHERE id = 7"))
        // The settle is first, and not committed: the deletion waits for it, and then finds its token.
        try first.session.run("BEGIN")
        #expect(try first.settle(outcomes) == ["applied", "applied", "applied"])
        try operators.start("SELECT forget_user('m7')")
        #expect(try operators.waitsForALock())
        try first.session.run("COMMIT")
        #expect(try operators.finish() == [["1"]])
        #expect(
            try database.psql(
                "SELECT device_id, device_token IS NULL FROM delivery_failures ORDER BY 1")
                == [["-7", "t"], ["7", "t"], ["8", "f"]])
        #expect(
            try database.psql("SELECT device_id FROM proposed_deactivations ORDER BY 1") == [["8"]],
            "by number or by position")
        #expect(try database.value("SELECT device_tokens[7] FROM scheduled_notifications WHERE id = \(list)") == "")

        // The deletion is first: the settle waits, and writes no token.
        let next = try slices(first)[0]
        try operators.run("BEGIN; SELECT forget_user('m107')")
        try first.session.start(
            "SELECT result FROM \(first.settleCall([.answers(next, accepted: 98, bad: [107, 108])]))")
        #expect(try first.session.waitsForALock())
        try operators.run("COMMIT")
        #expect(try first.session.finish() == [["applied"]])
        #expect(
            try database.psql(
                "SELECT device_id, device_token IS NULL FROM delivery_failures WHERE device_id > 100 ORDER BY 1")
                == [["107", "t"], ["108", "f"]])
        #expect(try database.psql("SELECT device_id FROM proposed_deactivations ORDER BY 1") == [["8"], ["108"]])
    }

    @Test func allAtOnceWithoutADeadlock() throws {
        let database = database
        for _ in 1...6 { try database.notify("broadcast", "true") }
        try together(5) { number in
            let worker = QueueWorker(database)
            for round in 1...20 {
                switch number {
                case 3:
                    // Locked in the order in which everybody locks them.
                    try database.psql(
                        """
                        UPDATE token_windows t SET closes_at = now()
                        FROM (SELECT app, environment, topic FROM token_windows WHERE closes_at > now() AND tripped_at IS NULL
                              ORDER BY 1, 2, 3 FOR UPDATE) x
                        WHERE (t.app, t.environment, t.topic) = (x.app, x.environment, x.topic)
                        """)
                    while try worker.judge().contains(where: { $0[0] == "calm" || $0.dropFirst() != ["0", "0", "0"] }) {
                    }
                    try worker.sweep(grace: "0 s")
                case 4:
                    try worker.session.run("SELECT forget_user('m\(round * 7)')")
                    try worker.session.run("SELECT retry_notification(1 + \(round) % 6)")
                    try worker.session.run(
                        round.isMultiple(of: 3)
                            ? "SELECT resume_app('default')" : "SELECT end_pause('default', 'production', 'a')")
                    try worker.giveUp(1 + round % 6)
                default:
                    let units =
                        try worker.claimBroadcast(batches: 3, batchSize: 10)
                        + worker.claimBatches(limit: 10, rescue: true, grace: "0 s") + worker.probe()
                    var outcomes: [Outcome] = []
                    for unit in units {
                        // Stormy topics and calm ones, all devices in all orders.
                        let bad = (1...400).shuffled().prefix(round.isMultiple(of: 2) ? 8 : 1)
                        var outcome = Outcome.answers(
                            unit, accepted: 2, bad: Array(bad),
                            scope: .init(topic: ["a", "b", "c"].randomElement() ?? "a"))
                        outcome.again = [.init(devices: [round], delayMilliseconds: 0)]
                        outcome.retired = (1...400).shuffled().prefix(3).map { .init(device: $0) }
                        outcomes.append(outcome)
                    }
                    try worker.settle(outcomes.shuffled())
                    for id in 1...6 { try worker.finalise(id) }
                }
            }
        }
        // What is proposed has a window, and no batch has counted below zero.
        #expect(
            try database.number(
                """
                SELECT count(*) FROM proposed_deactivations p WHERE NOT EXISTS (SELECT FROM token_windows t
                    WHERE (t.app, t.environment, t.topic) = (p.app, p.environment, p.topic))
                """) == 0)
        #expect(
            try count(
                "notification_batches WHERE least(device_count, accepted_count, rejected_count, unknown_count) < 0")
                == 0)
        #expect(try count("notification_batches") > 50)
    }
}

extension Outcome {
    func with(noProposals: Bool) -> Outcome {
        var outcome = self
        if noProposals { (outcome.proposals, outcome.evidence) = ([], []) }
        return outcome
    }
}
