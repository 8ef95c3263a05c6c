// migrate: brings a database to the version this program knows. Numbered migrations run once each, the re-creatable objects
// (functions, triggers, views, comments, rights) every time, each step in a transaction of its own; several at once are safe.

package import Postgres
package import Reactor
import Schema

/// What a migration did.
package struct MigrationOutcome: Sendable, Equatable {
    /// The version before; 0 for a database without pgpush.
    package let from: Int
    package let to: Int
    /// The migrations that this run did itself, by name.
    package let applied: [String]
}

/// Brings a schema up to date over one session, on the session's loop.
package final class Migrator {
    private let session: PostgresSession
    private let schema: SchemaName
    private let loop: EventLoop
    /// How often a step is tried while others hold locks on the tables; about a second apart.
    private let attempts = 10

    package init(session: PostgresSession, schema: SchemaName, loop: EventLoop) {
        self.session = session
        self.schema = schema
        self.loop = loop
    }

    /// Brings the schema up to date and, if wanted, creates the roles of producers, operators, workers and monitors.
    ///
    /// `defaultEnvironment` is what `devices.environment` shall be when a producer leaves it out; nil leaves it as it is.
    package func migrate(
        defaultEnvironment: String?, roles: Bool
    ) async throws(CommandFailure) -> MigrationOutcome {
        let before = try await status()
        try before.checkUsable()
        var applied: [String] = []
        for script in MigrationScript.migrations where !before.hasApplied(script) {
            if try await run(script) { applied.append(script.name) }
        }
        _ = try await run(MigrationScript.objects(defaultEnvironment: defaultEnvironment))
        if roles { _ = try await run(MigrationScript.roles) }
        return MigrationOutcome(from: before.version, to: SchemaVersion.newest, applied: applied)
    }

    /// What is there; changes nothing.
    package func status() async throws(CommandFailure) -> MigrationStatus {
        do throws(PostgresError) {
            return try await MigrationStatus.read(session, schema)
        } catch {
            throw CommandFailure(error, schema: schema)
        }
    }

    /// Runs one step; false when somebody else had done it meanwhile.
    private func run(_ script: MigrationScript) async throws(CommandFailure) -> Bool {
        let text = script.transaction(
            in: schema, newest: SchemaVersion.newest, reserved: MigrationScript.allObjects)
        for attempt in 1... {
            do throws(PostgresError) {
                try await session.simple(text, timeout: .seconds(900))
                return true
            } catch {
                switch error.sqlState {
                case MigrationGuard.alreadyDone: return false
                case MigrationGuard.foreignObject: throw foreign(error.message)
                case MigrationGuard.tooNew:
                    throw CommandFailure(.configuration, error.message, hint: SchemaVersion.newerHint)
                default:
                    guard isPassing(error, script) else { throw explained(error, script) }
                    if attempt >= attempts { throw blocked(error, script) }
                    _ = await LoopSignal(loop: loop).wait(.seconds(1))
                }
            }
        }
        return false
    }

    /// Whether somebody else was in the way: a lock, a deadlock, a serialization failure, or a role that the migrate of another
    /// database made at the same moment.
    private func isPassing(_ error: PostgresError, _ script: MigrationScript) -> Bool {
        switch error.sqlState {
        case "55P03", "40P01", "40001": true
        case "23505", "42710": script.kind == .roles
        default: false
        }
    }

    private func foreign(_ names: String) -> CommandFailure {
        CommandFailure(
            .failed, "the schema \(schema) holds objects that pgpush did not create: \(names)",
            hint: "rename or drop them, or give pgpush a schema of its own: pgpush migrate --schema NAME")
    }

    private func blocked(_ error: PostgresError, _ script: MigrationScript) -> CommandFailure {
        CommandFailure(
            .failed, "\(script.name): \(error.message)",
            hint: "a long transaction is in the way: see pg_stat_activity and pg_blocking_pids(), then run it again",
            sqlState: error.sqlState)
    }

    private func explained(_ error: PostgresError, _ script: MigrationScript) -> CommandFailure {
        let plain = CommandFailure(error, schema: schema)
        var hint = plain.hint
        if error.sqlState == "42501" {
            hint = "migrate needs a user that may create in schema \(schema), or owns what is there"
        }
        return CommandFailure(
            error.sqlState.isEmpty || error.sqlState == "42501" ? plain.code : .failed,
            "\(script.name): \(error.message)",
            detail: plain.detail, hint: hint, sqlState: plain.sqlState)
    }
}
