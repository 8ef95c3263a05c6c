// What the incidents have in common: many due rows for single users, and what must be true of them at the end.

import TestSupport
import Testing

extension Rig {
    /// Inserts a due notification for each of the users `user-…` that `addDevices` made.
    func addSingles(_ numbers: ClosedRange<Int>) throws {
        try psql(
            """
            INSERT INTO scheduled_notifications (user_id, body) SELECT 'user-' || i, 'x'
            FROM generate_series(\(numbers.lowerBound), \(numbers.upperBound)) i
            """)
    }

    /// Waits until so many notifications are sent.
    func allSinglesSent(_ count: Int, within limit: Duration = .seconds(120)) async throws {
        try await eventually(
            "SELECT count(*) FROM scheduled_notifications WHERE status = 'sent'", is: "\(count)", within: limit)
    }

    /// No notification has failed, no device was retired, no scope is paused.
    func expectNobodyHarmed(_ location: SourceLocation = #_sourceLocation) throws {
        let failed = "SELECT count(*) FROM scheduled_notifications WHERE status IN ('failed', 'skipped', 'expired')"
        #expect(try database.number(failed) == 0, sourceLocation: location)
        let retired = "SELECT count(*) FROM devices WHERE NOT is_active"
        #expect(try database.number(retired) == 0, sourceLocation: location)
    }

    /// Nobody was harmed, and no attempt was spent: nothing stands in the ledger, nothing was put off.
    func expectNothingCharged(_ location: SourceLocation = #_sourceLocation) throws {
        try expectNobodyHarmed(location)
        #expect(try database.number("SELECT count(*) FROM delivery_failures") == 0, sourceLocation: location)
        #expect(
            try database.number("SELECT count(*) FROM notification_batches WHERE attempts > 1") == 0,
            sourceLocation: location)
        #expect(try database.number("SELECT count(*) FROM app_pauses") == 0, sourceLocation: location)
    }
}

/// So many device tokens were accepted, each once, and no request was looked at that was not accepted.
func expectEachOnce(
    _ journal: SimulatorJournal, _ count: Int, _ location: SourceLocation = #_sourceLocation
) {
    #expect(journal.accepted.count == count, sourceLocation: location)
    #expect(Set(journal.acceptedTokens).count == count, sourceLocation: location)
    // Attempt 0: it came after a GOAWAY and was not looked at.
    let others = journal.requests.filter { !$0.isAccepted && $0.attempt > 0 }
    let told = others.prefix(30).map {
        "connection \($0.connection) stream \($0.stream): \($0.outcome ?? "") \($0.status ?? 0) \($0.code ?? 0), \($0.received) to \($0.mono)"
    }
    let ends = journal.connections.filter { $0.event == "closed" }.map {
        "\($0.connection) \($0.cause ?? "") \($0.mono)"
    }
    #expect(others.count == 0, "\(told) \(ends)", sourceLocation: location)
}
