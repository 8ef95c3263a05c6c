// What doctor wants to know of a database beyond what a worker asks at start.

package import Postgres
import Reactor

/// What was found in a database; nothing is changed.
package struct Examination: Sendable {
    package let status: MigrationStatus
    package let user: String
    package let database: String
    /// The server's own text, such as `15.6`.
    package let serverText: String
    /// The pgpush roles that exist.
    package let roles: [String]
    /// Functions of the queue that this user may not execute; empty also when there are none.
    package let forbidden: [String]
    /// `production` or `sandbox`; nil before the first migration and for a role that may not ask.
    package let defaultEnvironment: String?
    /// How far the database's clock is ahead of this machine's, in seconds.
    package let clockSkew: Double
    /// How long one question and its answer take.
    package let roundTrip: Duration
    /// Scopes that are paused at present.
    package let pauses: Int64

    /// Looks at everything.
    package static func run(_ session: PostgresSession, _ schema: SchemaName) async throws(PostgresError) -> Examination
    {
        let status = try await MigrationStatus.read(session, schema)
        let facts = try await session.query(
            PostgresStatement(
                """
                SELECT session_user::text, current_database()::text, current_setting('server_version'),
                       ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname IN
                             ('pgpush_producer', 'pgpush_operator', 'pgpush_worker', 'pgpush_monitor') ORDER BY 1),
                       ARRAY(SELECT p.proname::text FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
                             WHERE n.nspname = $1 AND p.proname IN
                                   ('claim_notifications', 'claim_broadcasts', 'claim_batches', 'expand', 'settle', 'renew')
                               AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1)
                """, [schema.name]))
        // A role with few rights may look into less; what it cannot see is left out.
        let environment = try? await one(session, schema.sql("SELECT @schema@.pgpush_default_environment()")).string(
            0, 0)
        let pauses = try? await one(session, schema.sql("SELECT count(*) FROM @schema@.app_pauses")).int64(0, 0)
        let clock = try await ClockReading.take(session, questions: 3)
        return Examination(
            status: status, user: try facts.string(0, 0), database: try facts.string(0, 1),
            serverText: try facts.string(0, 2), roles: try facts.stringArray(0, 3),
            forbidden: try facts.stringArray(0, 4), defaultEnvironment: environment,
            clockSkew: Double(clock.offset.wholeNanoseconds) / 1e9,
            roundTrip: clock.roundTrip, pauses: pauses ?? 0)
    }

    private static func one(_ session: PostgresSession, _ sql: String) async throws(PostgresError) -> PostgresResult {
        try await session.query(PostgresStatement(sql))
    }
}
