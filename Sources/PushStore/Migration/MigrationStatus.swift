// What is in a database before anything is done to it.

import Postgres

/// The versions of the schema that this program can work with.
package enum SchemaVersion {
    /// What `migrate` makes.
    package static var newest: Int { MigrationScript.migrations.last?.number ?? 0 }

    /// What a worker of this program can work with: a range, so that database and replicas can be upgraded one after another.
    package static var supported: ClosedRange<Int> { min(oldest, newest)...newest }

    /// Raised when a migration makes this program's statements impossible on what was before it.
    private static let oldest = 4

    static let newerHint = "use a newer pgpush; this one would undo what that one did"
}

/// Server and schema as found.
package struct MigrationStatus: Sendable, Equatable {
    /// A step that was done.
    package struct Step: Sendable, Equatable {
        package let version: Int
        package let name: String
        package let checksum: String?
        package let appliedAt: String
        package let appliedBy: String
    }

    /// Such as 150005.
    package let serverVersion: Int
    package let encoding: String
    /// Whether this is a standby.
    package let isReadOnly: Bool
    package let schema: SchemaName
    /// The recorded migrations in order; empty for a database without pgpush.
    package let steps: [Step]

    /// The version of the schema; 0 when there is none.
    package var version: Int { steps.last?.version ?? 0 }

    /// Names of migrations that this program knows and the database has not.
    package var missing: [String] {
        MigrationScript.migrations.filter { !hasApplied($0) }.map(\.name)
    }

    /// Names of migrations that were done from another text than this program's.
    package var altered: [String] {
        MigrationScript.migrations.filter { script in
            steps.contains { $0.version == script.number && $0.checksum != nil && $0.checksum != script.checksum }
        }.map(\.name)
    }

    func hasApplied(_ script: MigrationScript) -> Bool { steps.contains { $0.version == script.number } }

    /// Refuses what pgpush cannot work on.
    func checkUsable() throws(CommandFailure) {
        if serverVersion < 150_000 {
            throw CommandFailure(
                .configuration, "the server is PostgreSQL \(serverVersion / 10_000), pgpush needs 15 or newer",
                hint: "upgrade the server")
        }
        if encoding != "UTF8" {
            throw CommandFailure(
                .configuration, "the database has the encoding \(encoding), pgpush needs UTF8",
                hint: "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'")
        }
        if isReadOnly {
            throw CommandFailure(
                .configuration, "the server takes no writes: it is a standby",
                hint: "name the primary in DATABASE_DIRECT_URL or DATABASE_URL")
        }
        if version > SchemaVersion.newest {
            throw CommandFailure(
                .configuration, "the schema has version \(version), this program knows up to \(SchemaVersion.newest)",
                hint: SchemaVersion.newerHint)
        }
    }

    /// Reads it all; works on a database that has never seen pgpush.
    static func read(_ session: PostgresSession, _ schema: SchemaName) async throws(PostgresError) -> MigrationStatus {
        let facts = try await session.query(
            PostgresStatement(
                """
                SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), pg_is_in_recovery(),
                       EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'objects'
                               AND NOT attisdropped)
                """, ["\(schema.quoted).pgpush_migrations"]))
        var steps: [Step] = []
        if try facts.bool(0, 3) {
            let rows = try await session.query(
                PostgresStatement(
                    schema.sql(
                        """
                        SELECT version, name, checksum, to_char(applied_at, 'YYYY-MM-DD HH24:MI:SSOF'), applied_by
                          FROM @schema@.pgpush_migrations WHERE version > 0 ORDER BY version
                        """)))
            for row in 0..<rows.rows {
                steps.append(
                    Step(
                        version: try rows.int(row, 0), name: try rows.string(row, 1),
                        checksum: try rows.stringIfPresent(row, 2), appliedAt: try rows.string(row, 3),
                        appliedBy: try rows.string(row, 4)))
            }
        }
        return MigrationStatus(
            serverVersion: try facts.int(0, 0), encoding: try facts.string(0, 1), isReadOnly: try facts.bool(0, 2),
            schema: schema, steps: steps)
    }
}
