// The one way in which verbs reach the database: a loop of their own, one session, one piece of work, and everything closed.

import Postgres
import PushStore
import Reactor
import Telemetry

extension Invocation {
    /// The settings that the environment and --schema give.
    func databaseSettings() throws(ConfigurationError) -> DatabaseSettings {
        try DatabaseSettings(Settings(environment: environment), schemaOption: arguments.text(.schema))
    }

    /// Runs `body` with a store and turns faults of the database into failures.
    func withStore<T: Sendable>(
        _ body: @escaping @Sendable (OperatorStore) async throws -> T
    ) throws -> T {
        let settings = try databaseSettings()
        return try withSession(settings.connectionString, settings.schema) { session, _ in
            try await body(OperatorStore(session: session, schema: settings.schema))
        }
    }

    /// Runs `body` with a session on a loop that lives as long as the call.
    func withSession<T: Sendable>(
        _ connectionString: String, _ schema: SchemaName,
        _ body: @escaping @Sendable (PostgresSession, EventLoop) async throws -> T
    ) throws -> T {
        do {
            let configuration = try PostgresConfiguration(
                connectionString: connectionString, applicationName: "pgpush \(verb.name)")
            let loop = try EventLoop(name: "pgpush")
            try loop.start()
            defer {
                loop.stop()
                loop.join()
            }
            return try loop.runBlocking { _ in
                let session = PostgresSession(loop: loop, configuration: configuration, logger: .silent)
                defer { session.close() }
                try await SessionStart.connect(session, within: .seconds(15), patient: false)
                return try await body(session, loop)
            }
        } catch let error as PostgresError {
            throw CommandFailure(error, schema: schema)
        }
    }
}
