// Databases as `pgpush migrate` makes them, without its taking its time for each: one is migrated, the others are copies of it.

import Foundation

/// The migrated databases of clusters.
enum MigratedTemplate {
    private static let lock = NSLock()
    nonisolated(unsafe) private static var templates: [Int: Result<TestDatabase, any Error>] = [:]

    /// Makes a database that `pgpush migrate` has made ready.
    static func copy(in cluster: PostgresCluster) throws -> TestDatabase {
        let template = try lock.withLock {
            let template = templates[cluster.port] ?? Result { try migrate(cluster) }
            templates[cluster.port] = template
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
