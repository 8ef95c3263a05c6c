// list, show, why: looking at notifications.

package import Postgres

/// Which notifications to list; nil leaves a criterion out.
package struct NotificationFilter: Sendable {
    package var app: String?
    package var statuses: [String] = []
    package var userID: String?
    /// Due at or after.
    package var from: Moment?
    /// Due before.
    package var until: Moment?
    /// Only ids below this one: the next page.
    package var below: Int64?
    package var limit = 50

    package init() {}
}

extension OperatorStore {
    /// Lists notifications, the newest first; page on by `below`.
    package func notifications(_ filter: NotificationFilter) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        var conditions = ["true"]
        if let app = filter.app { conditions.append("n.app = \(parameters.add(app))") }
        if !filter.statuses.isEmpty { conditions.append("n.status = ANY (\(parameters.add(filter.statuses)))") }
        if let user = filter.userID {
            let placeholder = parameters.add(user)
            conditions.append("(n.user_id = \(placeholder) OR \(placeholder) = ANY (n.user_ids))")
        }
        if let from = filter.from { conditions.append("n.scheduled_at >= \(parameters.add(from))") }
        if let until = filter.until { conditions.append("n.scheduled_at < \(parameters.add(until))") }
        if let below = filter.below { conditions.append("n.id < \(parameters.add(below))") }
        return try await report(
            ReportQuery(
                columns: [
                    ReportColumn("id", .number), ReportColumn("status", .status), ReportColumn("scheduled_at", .time),
                    ReportColumn("app"), ReportColumn("target", .long), ReportColumn("push_type"),
                    ReportColumn("title", .long), ReportColumn("devices", .number), ReportColumn("accepted", .number),
                    ReportColumn("rejected", .number), ReportColumn("unknown", .number),
                ],
                body: """
                    SELECT n.id, n.status, n.scheduled_at, n.app, \(Self.target) AS target, n.push_type,
                           coalesce(n.title, n.body) AS title, n.device_count AS devices, n.accepted_count AS accepted,
                           n.rejected_count AS rejected, n.unknown_count AS unknown, n.sent_at, n.finished_at, n.error
                      FROM @schema@.scheduled_notifications AS n
                     WHERE \(conditions.joined(separator: " AND "))
                     ORDER BY n.id DESC LIMIT \(parameters.add(Int64(filter.limit)))
                    """,
                parameters: parameters))
    }

    /// One notification with all that a producer gave and all that became of it; no row when there is none.
    package func notification(_ id: Int64) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        let names = [
            "id", "app", "status", "error", "target", "user_id", "user_ids", "device_tokens", "broadcast", "channel_id",
            "environment", "push_type", "priority", "topic", "collapse_id", "title", "subtitle", "body", "badge",
            "sound", "category", "thread_id", "target_content_id", "interruption_level", "relevance_score",
            "mutable_content", "content_available", "data", "aps", "payload", "delivery", "store_if_offline",
            "idempotency_key", "scheduled_at", "expires_at", "started_at", "sent_at", "finished_at", "cancelled_at",
            "cancelled_by", "device_count", "accepted_count", "rejected_count", "unknown_count", "created_by",
            "created_at", "updated_at",
        ]
        let columns = names.map { name in
            ReportColumn(name, name == "status" ? .status : name.hasSuffix("_at") ? .time : .text)
        }
        let fields = names.map { $0 == "target" ? "\(Self.target) AS target" : "n.\($0)" }.joined(separator: ", ")
        return try await report(
            ReportQuery(
                columns: columns,
                body: "SELECT \(fields) FROM @schema@.scheduled_notifications AS n WHERE n.id = \(parameters.add(id))",
                parameters: parameters))
    }

    /// Why a notification did or did not reach its devices, or those of one user: a row for each device.
    package func delivery(_ id: Int64, userID: String?, limit: Int) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        var conditions = ["d.notification_id = \(parameters.add(id))"]
        if let userID { conditions.append("d.user_id = \(parameters.add(userID))") }
        return try await report(
            ReportQuery(
                columns: [
                    ReportColumn("user_id"), ReportColumn("device_id", .number), ReportColumn("environment"),
                    ReportColumn("outcome", .status), ReportColumn("http_status", .number), ReportColumn("reason"),
                    ReportColumn("attempt", .number), ReportColumn("occurred_at", .time),
                    ReportColumn("explanation", .long),
                ],
                body: """
                    SELECT d.* FROM @schema@.delivery_report AS d
                     WHERE \(conditions.joined(separator: " AND ")) LIMIT \(parameters.add(Int64(limit)))
                    """,
                parameters: parameters))
    }

    /// The target of a notification in a few words.
    private static let target = """
        CASE WHEN n.broadcast THEN 'everyone' WHEN n.channel_id IS NOT NULL THEN 'channel ' || n.channel_id
             WHEN n.user_id IS NOT NULL THEN 'user ' || n.user_id
             WHEN cardinality(n.user_ids) > 0 THEN cardinality(n.user_ids) || ' users'
             ELSE cardinality(n.device_tokens) || ' tokens' END
        """
}
