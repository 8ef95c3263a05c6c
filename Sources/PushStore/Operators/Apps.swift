// apps: which there are, and stopping and resuming them.

package import Postgres

extension OperatorStore {
    /// All apps that have devices, open notifications, a pause or a worker.
    package func apps() async throws(PostgresError) -> Report {
        try await report(
            ReportQuery(
                columns: [
                    ReportColumn("app"), ReportColumn("live_workers", .number), ReportColumn("due", .number),
                    ReportColumn("sending", .number), ReportColumn("paused_scopes", .number),
                    ReportColumn("state", .long),
                ],
                // The apps of devices by one probe of the unique index each, instead of a walk over all devices.
                body: """
                    WITH RECURSIVE registered AS (
                        (SELECT app FROM @schema@.devices ORDER BY app LIMIT 1)
                        UNION ALL
                        SELECT (SELECT d.app FROM @schema@.devices AS d WHERE d.app > r.app ORDER BY d.app LIMIT 1)
                          FROM registered AS r WHERE r.app IS NOT NULL)
                    SELECT app, coalesce(h.live_workers, 0) AS live_workers, coalesce(h.due_count, 0) AS due,
                           coalesce(h.sending_count, 0) AS sending, coalesce(h.paused_scopes, 0) AS paused_scopes,
                           h.pause_reason, coalesce(h.message, 'ok') AS state
                      FROM (SELECT app FROM registered WHERE app IS NOT NULL) AS r
                      FULL JOIN @schema@.queue_health AS h USING (app) ORDER BY app
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
