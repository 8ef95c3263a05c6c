// apps: which there are, and stopping and resuming them.

package import Postgres

extension OperatorStore {
    /// All apps that have devices, open notifications or a pause.
    package func apps() async throws(PostgresError) -> Report {
        try await report(
            ReportQuery(
                columns: [
                    ReportColumn("app"), ReportColumn("environment"), ReportColumn("topic"),
                    ReportColumn("paused_at", .time),
                    ReportColumn("reason", .long), ReportColumn("due", .number),
                    ReportColumn("active_devices", .number),
                ],
                body: """
                    SELECT 1
                    """))
    }

    /// Pauses an app, in one environment or in both (nil); false when it was paused already.
    package func pause(
        app: String, environment: String?, reason: String?
    ) async throws(PostgresError) -> Bool {
        var parameters = SQLParameters()
        let sql =
            "SELECT @schema@.pause_app(\(parameters.add(app)), \(parameters.add(environment)), \(parameters.add(reason)))"
        return try await session.query(parameters.statement(schema.sql(sql))).bool(0, 0)
    }

    /// Resumes an app; false when it was not paused.
    package func resume(app: String, environment: String?) async throws(PostgresError) -> Bool {
        var parameters = SQLParameters()
        let sql = "SELECT @schema@.resume_app(\(parameters.add(app)), \(parameters.add(environment)))"
        return try await session.query(parameters.statement(schema.sql(sql))).bool(0, 0)
    }
}
