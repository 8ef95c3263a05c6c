// Every answer of Apple's, given by the simulator to a whole worker: what becomes of the notification, the device, the scope and the
// next try, as the table that the rules are tested with says.

import ExpectedAnswers
import Foundation
import PushModel
import TestSupport
import Testing

@Suite("The table of answers") struct AnswerTable {
    /// What is to be seen after a worker has sent one push and got the same answer however often it asked.
    private struct Effect: Equatable, CustomStringConvertible {
        var requests: Int
        var status: String
        /// accepted, rejected.
        var counts = "0 0"
        var device = "active"
        /// Parts that wait: state, and the attempt that they are for.
        var waiting: String?
        var pause: String?
        /// Status, reason, attempt, whether it is final.
        var ledger: String?
        var proposal: String?

        var description: String {
            "\(requests) requests, \(status) \(counts), device \(device), waiting \(waiting ?? "-"), pause \(pause ?? "-"), "
                + "ledger \(ledger ?? "-"), proposal \(proposal ?? "-")"
        }

        init(_ requests: Int, _ status: String) {
            self.requests = requests
            self.status = status
        }

        /// What the table means for a single push.
        init(_ expected: ExpectedAnswer) {
            let isAskedAgain = expected.first.request == .resend
            let verdict = isAskedAgain ? expected.repeated : expected.first
            let label = expected.reason.isEmpty ? "HTTP \(expected.status)" : expected.reason
            self.init(isAskedAgain ? 2 : 1, "sending")
            ledger = "\(expected.status) \(label) 1 false"
            switch verdict.request {
            case .accepted: (status, counts, ledger) = ("sent", "1 0", nil)
            case .rejected: (status, counts, ledger) = ("failed", "0 1", "\(expected.status) \(label) 1 true")
            case .retryLater: waiting = "ready 2"
            case .hold(let scope):
                waiting = "parked 1"
                pause = "production \(scope.namesTopic ? "com.example.pgpush" : "all") \(label)"
            case .resend, .unknown: Issue.record("\(expected) leads nowhere")
            }
            switch verdict.device {
            case .keep: break
            case .deactivate: device = "retired: \(label)"
            case .propose: proposal = label
            }
        }
    }

    /// How long the next try waits, in seconds.
    private func wait(_ expected: ExpectedAnswer) -> ClosedRange<Double>? {
        let verdict = expected.first.request == .resend ? expected.repeated : expected.first
        guard case .retryLater(let kind) = verdict.request else { return nil }
        let range = RetryPolicy.range(kind, attempt: 1)
        return range.lowerBound / .seconds(1)...range.upperBound / .seconds(1) + 1
    }

    @Test(
        "is what happens: to the notification, the device, the scope and the next try",
        arguments: ["token", "certificate"])
    func everyRow(credential: String) async throws {
        try await Rig.run(simulator: ["--auth", credential]) { rig in
            // The simulator gives these by command; what is no answer to a push at all is left to the rules' own tests.
            let rows = ExpectedAnswer.all.filter { $0.status == 200 || (400...599).contains($0.status) }
            #expect(Set(rows.map(\.reason)).isSuperset(of: AnswerRules.knownReasons))
            for expected in rows {
                let (found, seconds) = try await effect(of: expected, rig)
                #expect(found == Effect(expected), "\(expected) by \(credential)")
                if let range = wait(expected) {
                    #expect(range.contains(seconds ?? -1), "\(expected): \(seconds ?? -1) s")
                }
            }
            let authorizations = try rig.simulator.journal().requests.compactMap(\.authorization)
            #expect(authorizations.isEmpty == (credential == "certificate"))
        }
    }

    private func effect(of expected: ExpectedAnswer, _ rig: Rig) async throws -> (Effect, Double?) {
        try await rig.simulator.control("calm")
        try await rig.simulator.control("forget")
        if expected.status != 200 {
            let hasReason = !expected.reason.isEmpty
            try await rig.simulator.set("answer-all", "\(expected.status):\(hasReason ? expected.reason : "None")")
            if !hasReason { try await rig.simulator.set("error-body", "empty-object") }
        }
        try rig.psql(
            """
            TRUNCATE scheduled_notifications, notification_batches, delivery_failures, app_pauses, token_windows,
                proposed_deactivations, devices;
            INSERT INTO devices (user_id, device_token, registered_at)
            VALUES ('anna', '\(DeviceTokens.plain(1))', now() - interval '1 hour');
            INSERT INTO scheduled_notifications (user_id, body) VALUES ('anna', 'x')
            """)
        try await rig.drain("--lanes", "1", "--connections", "1")
        let row = try rig.psql(
            """
            SELECT n.status, n.accepted_count || ' ' || n.rejected_count,
                CASE WHEN d.is_active THEN 'active' ELSE 'retired: ' || d.deactivation_reason END,
                (SELECT string_agg(state || ' ' || attempts, ', ') FROM notification_batches WHERE state IN ('ready', 'parked')),
                (SELECT string_agg(environment || ' ' || coalesce(topic, 'all') || ' ' || reason, ', ')
                 FROM app_pauses WHERE automatic),
                (SELECT string_agg(concat_ws(' ', http_status, reason, attempt, is_final::text), ', ') FROM delivery_failures),
                (SELECT string_agg(reason, ', ') FROM proposed_deactivations),
                (SELECT extract(epoch FROM max(not_before - created_at)) FROM notification_batches WHERE state = 'ready')
            FROM scheduled_notifications n, devices d
            """)[0]
        var found = Effect(try await rig.simulator.counts().requests, row[0] ?? "")
        found.counts = row[1] ?? ""
        found.device = row[2] ?? ""
        (found.waiting, found.pause, found.ledger, found.proposal) = (row[3], row[4], row[5], row[6])
        return (found, row[7].flatMap { Double($0) })
    }
}
