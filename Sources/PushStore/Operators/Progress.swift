// watch: how far a notification is, asked again and again.

package import Postgres

/// The state of one notification at one moment.
package struct NotificationProgress: Sendable, Equatable {
    package let status: String
    /// Devices in the audience, as far as known.
    package let total: Int64?
    package let accepted: Int64
    package let rejected: Int64
    package let unknown: Int64
    /// Seconds until it is due; negative once it is.
    package let dueIn: Double
    package let error: String?
    /// The same as a JSON object.
    package let json: String

    /// Whether nothing will change any more.
    package var isFinal: Bool { !["pending", "sending", "cancelling"].contains(status) }
}

extension OperatorStore {
    /// Reads the progress of a notification; nil when there is no such id.
    package func progress(_ id: Int64) async throws(PostgresError) -> NotificationProgress? {
        var parameters = SQLParameters()
        let names = ["status", "devices", "accepted", "rejected", "unknown", "due_in", "error"]
        let found = try await report(
            ReportQuery(
                columns: names.map { ReportColumn($0) },
                body: """
                    SELECT n.id, n.status, nullif(greatest(n.device_count, p.device_count), 0) AS devices,
                           coalesce(p.accepted_count, n.accepted_count) AS accepted,
                           coalesce(p.rejected_count, n.rejected_count) AS rejected,
                           coalesce(p.unknown_count, n.unknown_count) AS unknown,
                           extract(epoch FROM n.scheduled_at - clock_timestamp())::float8 AS due_in, n.error
                      FROM @schema@.scheduled_notifications AS n
                      LEFT JOIN @schema@.notification_progress AS p ON p.id = n.id
                     WHERE n.id = \(parameters.add(id))
                    """,
                parameters: parameters))
        guard let json = found.json.first else { return nil }
        func count(_ name: String) -> Int64 { found.cell(0, name).flatMap { Int64($0) } ?? 0 }
        return NotificationProgress(
            status: found.cell(0, "status") ?? "", total: found.cell(0, "devices").flatMap { Int64($0) },
            accepted: count("accepted"), rejected: count("rejected"), unknown: count("unknown"),
            dueIn: found.cell(0, "due_in").flatMap { Double($0) } ?? 0, error: found.cell(0, "error"), json: json)
    }
}
