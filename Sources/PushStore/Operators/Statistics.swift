// stats: the queue as a whole, out of the views that monitoring reads as well.

package import Postgres

/// One table of the statistics.
package struct StatisticsPart: Sendable {
    /// The key in JSON.
    package let name: String
    /// The heading.
    package let title: String
    package let report: Report
}

extension OperatorStore {
    /// Totals by status, the state of the queue by app, workers, and reasons of the last day.
    package func statistics() async throws(PostgresError) -> [StatisticsPart] {
        var parts: [StatisticsPart] = []
        for (name, title, query) in Self.statisticsQueries {
            // Sums over everything that was ever sent may take their time.
            let found = try await report(query, statementTimeout: .seconds(120))
            parts.append(StatisticsPart(name: name, title: title, report: found))
        }
        return parts
    }

    private static let statisticsQueries: [(name: String, title: String, query: ReportQuery)] = [
        (
            "totals", "Notifications",
            ReportQuery(
                columns: [
                    ReportColumn("app"), ReportColumn("status", .status), ReportColumn("notifications", .number),
                    ReportColumn("accepted", .number), ReportColumn("rejected", .number),
                    ReportColumn("unknown", .number),
                ],
                body: """
                    SELECT app, status, count(*) AS notifications, sum(accepted_count) AS accepted,
                           sum(rejected_count) AS rejected, sum(unknown_count) AS unknown
                      FROM @schema@.scheduled_notifications GROUP BY app, status ORDER BY app, status
                    """)
        ),
        (
            "queue", "Queue",
            ReportQuery(
                columns: [
                    ReportColumn("app"), ReportColumn("due", .number), ReportColumn("oldest_due_at", .time),
                    ReportColumn("lag_seconds", .number), ReportColumn("sending", .number),
                    ReportColumn("ready_batches", .number), ReportColumn("leased_batches", .number),
                    ReportColumn("parked_batches", .number), ReportColumn("live_workers", .number),
                    ReportColumn("message", .long),
                ],
                body: """
                    SELECT app, due_count AS due, oldest_due_at,
                           round(extract(epoch FROM oldest_due_age)) AS lag_seconds, sending_count AS sending,
                           ready_batches, leased_batches, parked_batches, live_workers, message
                      FROM @schema@.queue_health
                    """)
        ),
        (
            "workers", "Workers",
            ReportQuery(
                columns: [
                    ReportColumn("host"), ReportColumn("pid", .number), ReportColumn("version"),
                    ReportColumn("app_names", .long), ReportColumn("lanes", .number),
                    ReportColumn("in_flight", .number),
                    ReportColumn("accepted", .number), ReportColumn("rejected", .number),
                    ReportColumn("started_at", .time), ReportColumn("last_seen_at", .time),
                ],
                body: """
                    SELECT owner, host, pid, version, apps, array_to_string(apps, ', ') AS app_names, lanes, in_flight,
                           accepted_count AS accepted, rejected_count AS rejected, started_at, last_seen_at
                      FROM @schema@.pgpush_workers ORDER BY started_at
                    """)
        ),
        (
            "reasons", "Reasons of the last day",
            ReportQuery(
                columns: [
                    ReportColumn("app"), ReportColumn("environment"), ReportColumn("http_status", .number),
                    ReportColumn("reason"), ReportColumn("final_count", .number),
                    ReportColumn("retried_count", .number),
                    ReportColumn("notification_count", .number), ReportColumn("last_at", .time),
                ], body: "SELECT * FROM @schema@.failure_reasons")
        ),
    ]
}
