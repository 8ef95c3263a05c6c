// Dead tokens are proposed, and retired when the window closes calm: exactly those, and nobody who has a living token.

import TestSupport
import Testing

@Suite struct WindowTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addMore(1000)
        try database.psql("UPDATE devices SET registered_at = now() - interval '1 h'")
    }

    /// A broadcast whose slices of 100 are leased.
    private func broadcast(slices: Int = 1) throws -> [Unit] {
        try database.notify("broadcast", "true")
        return try worker.claimBroadcast(batches: slices, batchSize: 100)
    }

    private func inactive() throws -> [Int] {
        try database.psql("SELECT id FROM devices WHERE NOT is_active ORDER BY id").compactMap {
            $0[0].flatMap { Int($0) }
        }
    }

    private func window() throws -> [[String?]] {
        try database.psql(
            "SELECT accepted_count, answered_count, proposed_count, tripped_at IS NOT NULL FROM token_windows ORDER BY app, environment, topic"
        )
    }

    private func close() throws { try database.psql("UPDATE token_windows SET closes_at = now()") }

    @Test func aCalmWindowRetiresExactlyWhatWasProposed() throws {
        let units = try broadcast(slices: 3)
        #expect(try worker.settle(.answers(units[0], accepted: 98, bad: [7, 9])) == "applied")
        #expect(try window() == [["98", "100", "2", "f"]])
        #expect(
            try database.psql("SELECT closes_at - opened_at FROM token_windows") == [["00:00:30"]])
        #expect(try worker.judge() == [["open", "0", "0", "0"]], "not before its time")
        #expect(try inactive() == [])

        // Further answers count, from everybody; a report that comes twice, or too late, does not.
        let second = Outcome.answers(units[1], accepted: 100)
        #expect(try worker.settle(second) == "applied")
        #expect(try worker.settle(second) == "already")
        #expect(try QueueWorker(database).settle(.answers(units[2], accepted: 40, bad: [250])) == "fenced")
        #expect(try window() == [["198", "200", "2", "f"]])

        try close()
        #expect(try worker.judge() == [["calm", "2", "0", "0"]])
        #expect(try inactive() == [7, 9])
        #expect(
            try database.psql(
                "SELECT DISTINCT deactivation_reason, deactivated_at IS NOT NULL FROM devices WHERE NOT is_active")
                == [["BadDeviceToken", "t"]])
        #expect(try worker.judge().isEmpty)
        #expect(try database.number("SELECT count(*) FROM proposed_deactivations") == 0)
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 0)
    }

    @Test func whereNothingIsProposedNothingIsWrittenOrLocked() throws {
        let units = try broadcast(slices: 2)
        let holder = database.openSession()
        defer { holder.close() }
        // Nobody can write a window now; a settle with nothing but acceptances does not want to.
        try holder.run("BEGIN; LOCK TABLE token_windows, proposed_deactivations, app_pauses IN EXCLUSIVE MODE")
        #expect(try worker.settle(.answers(units[0], accepted: 100)) == "applied")
        try holder.run("ROLLBACK")
        #expect(try window().isEmpty)

        // Another scope's window is not touched either.
        try worker.settle(.answers(units[1], accepted: 99, bad: [150], scope: .init(topic: "com.example.other")))
        try holder.run("BEGIN; LOCK TABLE token_windows IN ROW EXCLUSIVE MODE; SELECT FROM token_windows FOR UPDATE")
        try database.notify("user_id", "'m5'")
        #expect(try worker.settle(.answers(worker.claim()[0], accepted: 1)) == "applied")
        try holder.run("ROLLBACK")
        #expect(try window() == [["99", "100", "1", "f"]])
    }

    @Test func nobodyWithALivingTokenIsRetired() throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token, registered_at) VALUES ('known', 'abcd0001', now() - interval '1 h'),
                ('renewed', 'abcd0002', now() - interval '1 h'), ('forgotten', 'abcd0003', now() - interval '1 h')
            """)
        let list = try database.notify("device_tokens", "'{abcd0001,abcd0002,abcd0003,abcd0009}'")
        let gone = try database.notify("user_id", "'m50'")
        let direct = try worker.claim()
        let slice = try broadcast()[0]
        let sent = 60_000
        try worker.settle([
            .answers(slice, accepted: 93, bad: [1, 2, 3, 4, 5, 6, 7], sentBefore: sent),
            .answers(direct[0], bad: [-1, -2, -3, -4], sentBefore: sent),
            .answers(direct[1], bad: [50], sentBefore: sent),
        ])
        try database.psql(
            """
            SELECT register_device('m1', (SELECT device_token FROM devices WHERE id = 1));
            SELECT register_device('someone else', (SELECT device_token FROM devices WHERE id = 2));
            UPDATE devices SET device_token = 'abcdffff' WHERE id = 3;
            UPDATE devices SET environment = 'sandbox' WHERE id = 4;
            UPDATE devices SET registered_at = now() - interval '30 s' WHERE id = 5;
            UPDATE devices SET registered_at = now() - interval '2 minutes' WHERE id = 6;
            SELECT register_device('renewed', 'abcd0002');
            SELECT forget_user('forgotten');
            DELETE FROM scheduled_notifications WHERE id = \(gone)
            """)
        #expect(try database.number("SELECT count(*) FROM proposed_deactivations WHERE notification_id = \(gone)") == 0)
        try close()
        #expect(try worker.judge().first?[0] == "calm")
        let known = try database.number("SELECT id FROM devices WHERE device_token = 'abcd0001'")
        #expect(try inactive() == [6, 7, known], "those only that nobody has registered since")
        #expect(try worker.finalise(list) == ["failed"])
    }

    @Test(
        "a token that is not for the topic of a call may be the right one for the app",
        arguments: [
            ("broadcast, push_type", "true, 'voip'", [7]),
            ("broadcast, topic", "true, 'com.example.other'", [7]),
            ("broadcast, priority", "true, 5", [7, 9]),
        ])
    func ofAnotherTopic(columns: String, values: String, retired: [Int]) throws {
        try database.notify(columns, values)
        let units = try worker.claimBroadcast(batches: 2, batchSize: 100)
        try worker.settle([
            .answers(units[0], accepted: 99, bad: [7]),
            .answers(units[1], accepted: 99, bad: [9], reason: "DeviceTokenNotForTopic"),
        ])
        try close()
        #expect(try worker.judge().first?[0] == "calm")
        #expect(try inactive() == retired)
        #expect(try window().isEmpty)
    }

    @Test func whatOthersHoldIsNotCalledCalmAndHoldsUpNoOtherWindow() throws {
        let units = try broadcast(slices: 2)
        try worker.settle([
            .answers(units[0], accepted: 99, bad: [7]),
            .answers(units[1], accepted: 99, bad: [150], scope: .init(topic: "com.example.other")),
        ])
        try close()
        let holder = database.openSession()
        defer { holder.close() }
        try holder.run("BEGIN; SELECT FROM proposed_deactivations WHERE device_id = 7 FOR UPDATE")
        #expect(try worker.judge() == [["open", "0", "0", "0"], ["calm", "1", "0", "0"]])
        #expect(try worker.judge() == [["open", "0", "0", "0"]])
        try holder.run("ROLLBACK")
        #expect(try worker.judge() == [["calm", "1", "0", "0"]])
        #expect(try inactive() == [7, 150])
    }

    @Test func withoutAnAcceptanceItWaitsForADay() throws {
        try database.notify("user_ids", "'{m1,m2,m3}'")
        try worker.settle(.answers(worker.claim()[0], bad: [1, 2, 3]))
        try close()
        #expect(try worker.judge() == [["open", "0", "0", "0"]])
        try database.notify("user_id", "'m5'")
        let late = try worker.claim()[0]
        try database.psql("UPDATE token_windows SET opened_at = now() - interval '23 h'")
        #expect(try worker.judge() == [["open", "0", "0", "0"]])
        try database.psql("UPDATE token_windows SET opened_at = now() - interval '24 h'")
        #expect(try worker.judge() == [["open", "0", "3", "0"]])
        #expect(try window().isEmpty)
        #expect(try inactive() == [])

        // The same with one acceptance, however late, is calm: below fifty answers the share does not matter.
        try worker.settle(.answers(late, bad: [5]))
        try close()
        try database.notify("user_id", "'m6'")
        try worker.settle(.answers(worker.claim()[0], accepted: 1))
        #expect(try worker.judge() == [["calm", "1", "0", "0"]])
        #expect(try inactive() == [5])
    }

    @Test func aFifthOfFiftyIsTheBorder() throws {
        let units = try broadcast(slices: 4)
        // 10 of 50 is no storm, nor is a greater share of fewer.
        try worker.settle(
            Outcome(unit: units[0], accepted: 30, isDone: false, doneThrough: 40).with(
                .answers(units[0], accepted: 30, bad: Array(1...10))))
        #expect(try window() == [["30", "40", "10", "f"]])
        try worker.settle(.answers(units[1], accepted: 10))
        #expect(try window() == [["40", "50", "10", "f"]])
        try worker.settle(.answers(units[2], accepted: 0, bad: [250]))
        #expect(try window() == [["40", "51", "11", "t"]])
        #expect(
            try database.psql("SELECT environment, topic, reason, automatic FROM app_pauses") == [
                [
                    "production", "com.example.app",
                    "11 of 51 answers were BadDeviceToken: wrong environment, key or topic?", "t",
                ]
            ])
    }

    @Test func tenWithoutAnAcceptanceAreAStormAndAcceptancesCanUncoverOne() throws {
        let units = try broadcast(slices: 4)
        let other = Outcome.Scope(environment: "sandbox", topic: "com.example.other")
        try worker.settle(.answers(units[0], bad: Array(1...9), scope: other, reason: "DeviceTokenNotForTopic"))
        #expect(try window() == [["0", "9", "9", "f"]])
        try worker.settle(.answers(units[1], bad: [101], scope: other))
        #expect(try window() == [["0", "10", "10", "t"]])
        #expect(
            try database.value("SELECT reason FROM app_pauses")
                == "10 of 10 answers were DeviceTokenNotForTopic or BadDeviceToken: wrong environment, key or topic?")

        // 15 of 45 are too few to tell; the fifth acceptance more makes it fifty.
        try worker.settle(.answers(units[2], accepted: 30, bad: Array(201...215)))
        #expect(try window()[0] == ["30", "45", "15", "f"])
        try worker.settle(.answers(units[3], accepted: 5))
        #expect(try window()[0] == ["35", "50", "15", "t"])
        #expect(
            try database.number("SELECT count(*) FROM current_pauses() WHERE topic = 'com.example.app' AND automatic")
                == 1)
    }

    @Test func aDeviceCountsOnceInAWindow() throws {
        // Twelve pushes to one person with a dead token, four of them in one report, and nobody else about.
        for _ in 1...12 { try database.notify("user_id", "'m1'") }
        let units = try worker.claim()
        let outcomes = units.map { Outcome.answers($0, bad: [1]) }
        try worker.settle(Array(outcomes[..<4]))
        for outcome in outcomes[4...] { try worker.settle(outcome) }
        #expect(try window() == [["0", "1", "1", "f"]])
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 0)
        // For a storm each notification has its own.
        #expect(try database.number("SELECT count(DISTINCT notification_id) FROM proposed_deactivations") == 12)

        // The same device by its token, in a list: with its neighbour that nobody has registered, who is in two.
        for _ in 1...2 {
            try database.notify(
                "device_tokens", "(SELECT ARRAY[device_token, 'abcd0009'] FROM devices WHERE id = 1)")
        }
        try worker.settle(worker.claim().map { .answers($0, bad: [-1, -2]) })
        #expect(try window() == [["0", "2", "2", "f"]])

        // Nine others, and it is one.
        try worker.settle(.answers(broadcast()[0], bad: Array(1...8)))
        #expect(try window() == [["0", "9", "9", "f"]])
        try worker.settle(.answers(broadcast()[0], bad: [9]))
        #expect(try window() == [["0", "10", "10", "t"]])
    }

    @Test func aDeviceCountsAnewInTheNextWindow() throws {
        let units = try broadcast(slices: 3)
        try worker.settle(.answers(units[0], accepted: 90, bad: Array(1...10)))
        try close()
        #expect(
            try database.psql("SELECT s.applied FROM token_windows w, LATERAL pgpush_judge_open(w, 4) s") == [["4"]])
        try worker.settle(.answers(units[1], accepted: 98, bad: [10, 150]))
        #expect(try window() == [["98", "100", "2", "f"]], "what is approved is of the window before")
        try worker.settle(.answers(units[2], accepted: 99, bad: [10]))
        #expect(try window() == [["197", "199", "2", "f"]])
    }

    @Test func aGreatWindowIsAppliedInLotsWhileTheNextBegins() throws {
        let units = try broadcast(slices: 3)
        try worker.settle(.answers(units[0], accepted: 90, bad: Array(1...10)))
        try close()
        let judge = "SELECT s.verdict, s.applied FROM token_windows w, LATERAL pgpush_judge_open(w, 4) s"
        #expect(try database.psql(judge) == [["calm", "4"]])
        #expect(try inactive() == [1, 2, 3, 4])
        #expect(try window() == [["0", "0", "0", "f"]], "what comes now is judged by itself")
        try worker.settle(.answers(units[1], accepted: 99, bad: [150]))
        #expect(try database.psql(judge) == [["calm", "4"]])
        #expect(try worker.judge() == [["calm", "2", "0", "0"]])
        #expect(try inactive() == Array(1...10))
        #expect(try window() == [["99", "100", "1", "f"]])
        #expect(try worker.judge() == [["open", "0", "0", "0"]])
        try close()
        #expect(try worker.judge() == [["calm", "1", "0", "0"]])
        #expect(try inactive() == Array(1...10) + [150])

        // Approved, and then a storm: what is not applied yet is dropped.
        try worker.settle(.answers(units[2], accepted: 90, bad: Array(201...210)))
        try close()
        #expect(try database.psql(judge) == [["calm", "4"]])
        let storm = try broadcast()[0]
        try worker.settle(.answers(storm, bad: Array(20...40)))
        #expect(try worker.judge().map { $0[0] } == ["tripped"])
        #expect(try inactive() == Array(1...10) + [150] + Array(201...204))
        #expect(try database.number("SELECT count(*) FROM proposed_deactivations") == 0)
    }

    @Test func windowsOfOtherAppsAreNotJudged() throws {
        try worker.settle(.answers(broadcast()[0], accepted: 99, bad: [1], scope: .init(app: "another")))
        try close()
        #expect(try worker.judge().isEmpty)
        worker.apps = "{another,default}"
        #expect(try worker.judge() == [["calm", "0", "1", "0"]], "the device is not of that app")
    }
}

extension Outcome {
    /// The same unit as a checkpoint or the like, with the answers of another outcome.
    func with(_ answers: Outcome) -> Outcome {
        var outcome = self
        (outcome.accepted, outcome.rejected) = (answers.accepted, answers.rejected)
        (outcome.failures, outcome.evidence, outcome.proposals) = (
            answers.failures, answers.evidence, answers.proposals
        )
        return outcome
    }
}
