// What a worker asks of its database before it starts: that it can be reached, that it is the right one, and that its schema is
// one this program knows. A worker that has started never ends for any of these again.

package import Postgres
package import Reactor

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
    /// out; a wrong password, an unknown database or a schema of another version ends it at once.
    package static func check(
        _ session: PostgresSession, schema: SchemaName, loop: EventLoop, within limit: Duration = .seconds(60)
    ) async throws(CommandFailure) -> DatabaseFacts {
        let deadline = MonotonicTime.now().advanced(by: limit)
        while true {
            let failure: CommandFailure
            switch await look(session, schema) {
            case .success(let (status, environment)):
                try checkVersion(status)
                return DatabaseFacts(
                    serverVersion: status.serverVersion, schemaVersion: status.version, defaultEnvironment: environment)
            case .failure(let error): failure = CommandFailure(error, schema: schema)
            }
            guard failure.code == .databaseUnreachable else { throw failure }
            guard MonotonicTime.now() < deadline else {
                throw CommandFailure(
                    .databaseUnreachable, "no usable database within \(limit.components.seconds) s: \(failure.message)",
                    hint: failure.hint ?? "check DATABASE_URL or the PG* variables, and that the server runs",
                    sqlState: failure.sqlState)
            }
            // The session has its own back-off; this only keeps a fault that comes at once from spinning.
            _ = await LoopSignal(loop: loop).wait(.milliseconds(250))
        }
    }

    private static func look(
        _ session: PostgresSession, _ schema: SchemaName
    ) async -> Result<(MigrationStatus, String), PostgresError> {
        do throws(PostgresError) {
            let status = try await MigrationStatus.read(session, schema)
            guard status.version > 0 else { return .success((status, "production")) }
            let text = schema.sql("SELECT @schema@.pgpush_default_environment()")
            return .success((status, try await session.query(PostgresStatement(text)).string(0, 0)))
        } catch {
            return .failure(error)
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
