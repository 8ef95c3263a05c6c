// Section "apns answers": answers in forms that a gateway should not use, or that few clients expect. F14 stands in
// EndToEndTests/DeadTokens.swift.

import TestSupport
import Testing

@Suite("Answers") struct AnswerForms {
    /// What chooses an answer, and what stands in the ledger then: status and reason.
    private static let refusals = [
        ("00dd", "HTTP 400"), ("01dd", "HTTP 400"), ("02dd", "HTTP 400"), ("03dd", "HTTP 400"), ("04dd", "HTTP 400"),
        ("05dd", "SomethingNobodyHasHeardOf"), ("07dd", "HTTP 400"), ("08dd", "BadDeviceToken"),
        ("0add", "BadDeviceToken"),
    ]
    private static let acceptances = ["00ee", "01ee", "02ee", "03ee"]

    @Test(
        "F15: whatever its form, an answer ends its exchange at once, with its status and what can be read of the rest")
    func forms() async throws {
        try await Rig.run { rig in
            let all = Self.refusals.map(\.0) + Self.acceptances + ["06dd", "09dd"]
            for choice in all {
                try rig.psql(
                    "INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(DeviceTokens.magic(choice))')")
            }
            try rig.addDevices(1...20)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try await rig.drain()
            #expect(worker.log.contains("panic") == false)

            let accepted = 20 + Self.acceptances.count
            let rejected = all.count - Self.acceptances.count
            let row = try #require(try rig.row(id))
            #expect(row.status == "sent" && row.counts == [accepted + rejected, accepted, rejected, 0])
            for (choice, reason) in Self.refusals { try expectBooked(rig, choice, reason) }
            // A NUL cannot be stored, and nobody needs 100 KB.
            for choice in ["06dd", "09dd"] { try expectBooked(rig, choice, nil) }
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == rejected)
            try rig.expectNobodyHarmed()
            let journal = try rig.simulator.journal()
            // Nobody waited for an end that did not come: a deadline is 15 s.
            let finished = try #require(try rig.value("extract(epoch FROM finished_at)", of: id).flatMap { Double($0) })
            let answered = Double(journal.requests.map(\.wall).max() ?? 0) / 1e9
            #expect(finished - answered < 14)
            #expect(
                journal.requests.count == all.count + 20 && journal.requests.allSatisfy { $0.outcome == "answered" })
        }
    }

    /// One final row stands in the ledger, with this reason, or with any that is short and clean.
    private func expectBooked(_ rig: Rig, _ choice: String, _ reason: String?) throws {
        let rows = try rig.psql(
            """
            SELECT http_status, is_final, reason, length(reason) BETWEEN 1 AND 200 FROM delivery_failures
            WHERE device_token = '\(DeviceTokens.magic(choice))'
            """)
        #expect(rows.count == 1, "\(choice)")
        guard let row = rows.first else { return }
        #expect(row[0] == "400" && row[1] == "t" && row[3] == "t", "\(choice): \(row)")
        if let reason { #expect(row[2] == reason, "\(choice)") }
    }
}
