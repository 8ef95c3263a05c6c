// cancel, reschedule, retry: what an operator can do to a notification that is there already.

package import Postgres

extension OperatorStore {
    /// Cancels notifications, in the order of their ids (the order in which everybody locks them).
    ///
    /// The column `result` says what became of each: `cancelled`, `cancelling`, `not_found` or `already_…`.
    package func cancel(_ ids: [Int64], actor: String?) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        let list = parameters.add(ids)
        let actor = actor.map { ", actor => \(parameters.add($0))" } ?? ""
        return try await report(
            ReportQuery(
                columns: [ReportColumn("id", .number), ReportColumn("result", .status)],
                body: """
                    SELECT i.id, @schema@.cancel_notification(i.id\(actor)) AS result
                      FROM (SELECT DISTINCT u AS id FROM unnest(\(list)) AS u ORDER BY u) AS i
                    """,
                parameters: parameters))
    }

    /// Moves the due time.
    ///
    /// The column `result` is `rescheduled`, `not_found` or the status that forbids it.
    package func reschedule(_ id: Int64, to moment: Moment) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        let identifier = parameters.add(id)
        return try await report(
            ReportQuery(
                columns: [
                    ReportColumn("id", .number), ReportColumn("result", .status), ReportColumn("scheduled_at", .time),
                    ReportColumn("time_zone"),
                ],
                body: """
                    SELECT \(identifier) AS id, @schema@.reschedule_notification(\(identifier), m.at) AS result,
                           m.at AS scheduled_at, current_setting('TimeZone') AS time_zone
                      FROM (SELECT \(parameters.add(moment)) AS at) AS m
                    """,
                parameters: parameters))
    }

    /// Requeues the devices that were not reached; the column `devices` says how many.
    package func retry(_ id: Int64) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        let identifier = parameters.add(id)
        return try await report(
            ReportQuery(
                columns: [ReportColumn("id", .number), ReportColumn("devices", .number)],
                body: "SELECT \(identifier) AS id, @schema@.retry_notification(\(identifier)) AS devices",
                parameters: parameters))
    }
}
