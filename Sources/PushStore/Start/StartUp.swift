// What a worker asks of its database before it starts: that it can be reached, that it is the right one, and that its schema is
// one this program knows. A worker that has started never ends for any of these again.

package import Postgres
package import Telemetry

/// What is known of a database that passed the checks.
package struct DatabaseFacts: Sendable, Equatable {
    /// Such as 150005.
    package let serverVersion: Int
    package let schemaVersion: Int
    /// What `devices.environment` is when a producer leaves it out: `production` or `sandbox`.
    package let defaultEnvironment: String
}

/// The checks at start.
package enum StartUp {
    /// Passes, or says why not: exit code 4 for what must be repaired, 5 when nothing could be reached within `limit`.
    ///
    /// Call it on the loop of the session. A fault that may pass (no answer, a server that is starting, a standby) is waited
    /// out and logged; a wrong password, an unknown database or a schema of another version ends it at once.
    package static func check(
        _ session: PostgresSession, schema: SchemaName, logger: Logger, within limit: Duration = .seconds(60)
    ) async throws(CommandFailure) -> DatabaseFacts {
        let (status, environment) = try await look(session, schema, limit, logger)
        try checkVersion(status)
        return DatabaseFacts(
            serverVersion: status.serverVersion, schemaVersion: status.version, defaultEnvironment: environment)
    }

    private static func look(
        _ session: PostgresSession, _ schema: SchemaName, _ limit: Duration, _ logger: Logger
    ) async throws(CommandFailure) -> (MigrationStatus, String) {
        do throws(PostgresError) {
            try await SessionStart.connect(session, within: limit, patient: true) { fault in
                logger.warning("waiting for the database", [.error: fault.description])
            }
            let status = try await MigrationStatus.read(session, schema)
            guard status.version > 0 else { return (status, "production") }
            let text = schema.sql("SELECT @schema@.pgpush_default_environment()")
            return (status, try await session.query(PostgresStatement(text)).string(0, 0))
        } catch {
            throw CommandFailure(error, schema: schema)
        }
    }

    private static func checkVersion(_ status: MigrationStatus) throws(CommandFailure) {
        if status.version == 0 {
            throw CommandFailure(
                .configuration, "schema \(status.schema) holds no pgpush",
                hint: "run 'pgpush migrate', or name the schema by PGPUSH_SCHEMA or --schema")
        }
        if status.version < SchemaVersion.supported.lowerBound {
            throw CommandFailure(
                .configuration,
                "the schema has version \(status.version), this program needs \(SchemaVersion.supported.lowerBound) or newer",
                hint: "run 'pgpush migrate'")
        }
        if status.version > SchemaVersion.supported.upperBound {
            throw CommandFailure(
                .configuration,
                "the schema has version \(status.version), this program knows up to \(SchemaVersion.supported.upperBound)",
                hint: "use a newer pgpush")
        }
    }
}
