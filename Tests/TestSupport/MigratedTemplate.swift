// Databases as `pgpush migrate` makes them, without its taking its time for each: one is migrated, the others are copies of it.

import Foundation

/// The migrated databases of clusters.
enum MigratedTemplate {
    private static let lock = NSLock()
    nonisolated(unsafe) private static var templates: [ObjectIdentifier: Result<TestDatabase, any Error>] = [:]

    /// Makes a database that `pgpush migrate` has made ready.
    static func copy(in cluster: PostgresCluster) throws -> TestDatabase {
        let template = try lock.withLock {
            // The template keeps its cluster, so that the identifier stays its own.
            let template = templates[ObjectIdentifier(cluster)] ?? Result { try migrate(cluster) }
            templates[ObjectIdentifier(cluster)] = template
            return try template.get()
        }
        return try cluster.createEmptyDatabase(options: "TEMPLATE \(template.name)")
    }

    private static func migrate(_ cluster: PostgresCluster) throws -> TestDatabase {
        let database = try cluster.createEmptyDatabase()
        try Subprocess.require(
            SimulatorProcess.executable("pgpush").path, ["migrate"],
            environment: ["PATH": "/usr/bin:/bin", "DATABASE_URL": database.connectionString])
        return database
    }
}
