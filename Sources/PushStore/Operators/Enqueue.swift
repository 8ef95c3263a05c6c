// enqueue: a notification is stored by the public function, which renders, measures and checks it.

package import Postgres

extension OperatorStore {
    /// Stores a notification and returns its id; the arguments are the columns a producer may set.
    package func enqueue(_ arguments: NamedArguments) async throws(PostgresError) -> Int64 {
        let sql = "SELECT \(arguments.call("enqueue_notification", schema))"
        return try await session.query(arguments.parameters.statement(sql)).int64(0, 0)
    }

    /// How many devices a target would reach now.
    package func audienceCount(_ arguments: NamedArguments) async throws(PostgresError) -> Int64 {
        let sql = "SELECT \(arguments.call("audience_count", schema))::bigint"
        return try await session.query(arguments.parameters.statement(sql)).int64(0, 0)
    }

    /// What became of an enqueued notification so far: id, status, due time and the zone it is shown in.
    package func receipt(_ id: Int64) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        return try await report(
            ReportQuery(
                columns: [
                    ReportColumn("id", .number), ReportColumn("status", .status), ReportColumn("scheduled_at", .time),
                    ReportColumn("time_zone"),
                ],
                body: """
                    SELECT id, status, scheduled_at, current_setting('TimeZone') AS time_zone
                      FROM @schema@.scheduled_notifications WHERE id = \(parameters.add(id))
                    """,
                parameters: parameters))
    }
}
