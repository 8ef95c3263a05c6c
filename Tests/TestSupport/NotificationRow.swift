// What the table says became of a notification.

/// The outcome of a notification, to compare with what was expected.
package struct NotificationRow: Equatable, Sendable, CustomStringConvertible {
    package var status: String
    /// device_count, accepted_count, rejected_count, unknown_count.
    package var counts: [Int]
    /// Whether sent_at, finished_at and cancelled_at are set.
    package var hasSentTime: Bool
    package var hasEndTime: Bool
    package var hasCancelTime: Bool
    package var error: String?

    /// An expected outcome.
    package init(
        _ status: String, _ devices: Int = 0, accepted: Int = 0, rejected: Int = 0, unknown: Int = 0,
        error: String? = nil
    ) {
        self.status = status
        counts = [devices, accepted, rejected, unknown]
        hasSentTime = status == "sent"
        hasEndTime = !["pending", "sending", "cancelling"].contains(status)
        hasCancelTime = ["cancelling", "cancelled"].contains(status)
        self.error = error
    }

    package var description: String {
        "\(status) \(counts)" + (hasSentTime ? " sent_at" : "") + (hasEndTime ? " finished_at" : "")
            + (hasCancelTime ? " cancelled_at" : "") + (error.map { " “\($0)”" } ?? "")
    }
}

extension Rig {
    /// Reads the outcome of a notification.
    package func row(_ id: Int) throws -> NotificationRow? {
        let sql = """
            SELECT status, device_count, accepted_count, rejected_count, unknown_count, sent_at IS NOT NULL,
                   finished_at IS NOT NULL, cancelled_at IS NOT NULL, error
            FROM scheduled_notifications WHERE id = \(id)
            """
        guard let fields = try psql(sql).first, let status = fields[0] else { return nil }
        var row = NotificationRow(status)
        row.counts = fields[1...4].map { $0.flatMap { Int($0) } ?? -1 }
        row.hasSentTime = fields[5] == "t"
        row.hasEndTime = fields[6] == "t"
        row.hasCancelTime = fields[7] == "t"
        row.error = fields[8]
        return row
    }
}
