// What a worker asks of its database before it starts: that it can be reached, that it is the right one, and that its schema is
// one this program knows. A worker that has started never ends for any of these again.

package import Postgres
import Reactor
package import Telemetry

/// What is known of a database that passed the checks.
package struct DatabaseFacts: Sendable, Equatable {
    /// Such as 150005.
    package let serverVersion: Int
    package let schemaVersion: Int
    /// What `devices.environment` is when a producer leaves it out: `production` or `sandbox`.
    package let defaultEnvironment: String
    /// How far the database's clock is ahead of this machine's.
    package let clockOffset: Duration
}

/// The checks at start.
package enum StartUp {
    /// Passes, or says why not: exit code 4 for what must be repaired, 5 when nothing could be reached within `limit`.
    ///
    /// Call it on the loop of the session. A fault that may pass (no answer, a server that is starting, a standby, a pooler whose
    /// server is away) is waited out and logged, whether it is met while connecting or by a question; a wrong password, an unknown
    /// database or a schema of another version ends it at once.
    package static func check(
        _ session: PostgresSession, schema: SchemaName, logger: Logger, within limit: Duration = .seconds(60)
    ) async throws(CommandFailure) -> DatabaseFacts {
        let (status, environment, offset) = try await patiently(session, schema, logger, limit)
        try checkVersion(status)
        return DatabaseFacts(
            serverVersion: status.serverVersion, schemaVersion: status.version, defaultEnvironment: environment,
            clockOffset: offset)
    }

    private static func patiently(
        _ session: PostgresSession, _ schema: SchemaName, _ logger: Logger, _ limit: Duration
    ) async throws(CommandFailure) -> (MigrationStatus, String, Duration) {
        let deadline = MonotonicTime.now().advanced(by: limit)
        var told: PostgresError?
        func tell(_ fault: PostgresError) {
            if fault.message == told?.message { return }
            told = fault
            logger.warning("waiting for the database", [.error: fault.description])
        }
        while true {
            do throws(PostgresError) {
                try await SessionStart.connect(
                    session, within: deadline.since(.now()), patient: true, waiting: tell)
                return try await look(session, schema, until: deadline)
            } catch {
                guard error.reaction == .retry else { throw CommandFailure(error, schema: schema) }
                if MonotonicTime.now() >= deadline { throw outOfPatience(error, schema) }
                tell(error)
            }
            _ = await LoopSignal(loop: session.loop).wait(pause)
        }
    }

    /// Between two looks at a database that answers with a fault; a session that lost its connection waits by itself.
    private static let pause = Duration.milliseconds(250)

    private static func look(
        _ session: PostgresSession, _ schema: SchemaName, until deadline: MonotonicTime
    ) async throws(PostgresError) -> (MigrationStatus, String, Duration) {
        // The first question is one that a pooler holds back while its server is away: it may not take longer than is left.
        let bound = min(max(deadline.since(.now()), .seconds(1)), .seconds(20))
        let offset = try await ClockReading.take(session, questions: 2, timeout: bound).offset
        let status = try await MigrationStatus.read(session, schema)
        guard status.version > 0 else { return (status, "production", offset) }
        let text = schema.sql("SELECT @schema@.pgpush_default_environment()")
        return (status, try await session.query(PostgresStatement(text)).string(0, 0), offset)
    }

    /// Whatever the last fault was: a supervisor that starts the worker again does the right thing.
    private static func outOfPatience(_ error: PostgresError, _ schema: SchemaName) -> CommandFailure {
        let failure = CommandFailure(error, schema: schema)
        return CommandFailure(
            .databaseUnreachable, failure.message, detail: failure.detail, hint: failure.hint,
            sqlState: failure.sqlState)
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
