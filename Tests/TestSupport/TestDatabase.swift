// A database of its own for a suite or a test.

package import Foundation

/// One database of a test cluster.
package final class TestDatabase: Sendable {
    package let cluster: PostgresCluster
    package let name: String
    private let session: PsqlSession

    init(cluster: PostgresCluster, name: String) {
        self.cluster = cluster
        self.name = name
        session = PsqlSession(cluster, database: name)
    }

    /// Ends the session.
    ///
    /// The database stays until the cluster goes: DROP DATABASE makes a checkpoint, and everybody waits.
    deinit { session.close() }

    /// A connection string (URI) over TCP, as the superuser.
    package var connectionString: String { cluster.connectionString(database: name) }

    /// Runs statements, together one transaction unless they say BEGIN; returns the rows of all of them.
    ///
    /// - Throws: `SQLFailure`.
    @discardableResult
    package func psql(_ sql: String, timeout: TimeInterval = 120) throws -> [[String?]] {
        try session.run(sql, timeout: timeout)
    }

    /// The first field of the first row; nil for NULL or no row.
    package func value(_ sql: String) throws -> String? { try psql(sql).first?.first ?? nil }

    /// The first field of the first row as a number; 0 when there is none.
    package func number(_ sql: String) throws -> Int { try value(sql).flatMap { Int($0) } ?? 0 }

    /// Another session, for what has to happen side by side.
    package func openSession() -> PsqlSession { PsqlSession(cluster, database: name) }
}
