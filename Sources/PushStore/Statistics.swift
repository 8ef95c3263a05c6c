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
            parts.append(StatisticsPart(name: name, title: title, report: try await report(query)))
        }
        return parts
    }

    private static let statisticsQueries: [(String, String, ReportQuery)] = [
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
        )
    ]
}
