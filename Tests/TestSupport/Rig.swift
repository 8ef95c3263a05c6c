// All that a push goes through, each as a process of its own: a database with the schema in it, a simulator of Apple's service, and
// pgpush. What the tables say is judged by the simulator's journal.
//
//     psql ──► PostgreSQL ◄── (pgbouncer) ◄── pgpush worker ──► apns-simulator ──► journal

import Foundation

/// A test's own database and simulator, and the pgpush processes that work between them.
package final class Rig: Sendable {
    /// How much of the machine a test needs; together they take no more than there is.
    package enum Load: Int, Sendable {
        /// A few pushes, and long waits.
        case idle = 0
        /// A few pushes.
        case light = 1
        /// Thousands of pushes, or times that are measured: nothing else runs meanwhile.
        case heavy = 4
    }

    package let database: TestDatabase
    package let simulator: SimulatorProcess
    /// What pgpush finds in its environment, and nothing else.
    package let environment: [String: String]

    private let workers = WorkerList()
    private static let turnstile = Turnstile(places: Load.heavy.rawValue)

    // MARK: Start and end

    /// Runs `body` with a rig and takes it down afterwards, with all workers that are left.
    ///
    /// - Parameters:
    ///   - load: how much of the machine it needs.
    ///   - cluster: where the database is made; nil: the cluster that all share.
    ///   - options: further options of the simulator.
    ///   - body: the test.
    /// - Returns: what `body` returned.
    /// - Throws: what `body` threw, or what kept the rig from being set up.
    package static func run<T>(
        _ load: Load = .light, cluster: PostgresCluster? = nil, simulator options: [String] = [],
        _ body: (Rig) async throws -> T
    ) async throws -> T {
        await turnstile.enter(load.rawValue)
        let result: Result<T, any Error>
        do {
            result = .success(
                try await SimulatorProcess.run(options) { simulator in
                    let rig = try Rig(try cluster ?? .shared(), simulator)
                    let result: Result<T, any Error>
                    do { result = .success(try await body(rig)) } catch { result = .failure(error) }
                    for worker in rig.workers.all { await worker.kill() }
                    return try result.get()
                })
        } catch { result = .failure(error) }
        await turnstile.leave(load.rawValue)
        return try result.get()
    }

    private init(_ cluster: PostgresCluster, _ simulator: SimulatorProcess) throws {
        database = try MigratedTemplate.copy(in: cluster)
        self.simulator = simulator
        environment = try Rig.environment(database).merging(simulator.environment) { $1 }
    }

    /// The variables that lead to a database: straight, or through a pooler with a way around it.
    package static func environment(_ database: TestDatabase) throws -> [String: String] {
        // Without the first three, libpq would look into the home folder and the user's own variables.
        var variables = ["PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"]
        variables["DATABASE_URL"] = database.connectionString
        if Pooler.isWanted {
            let pooler = try Pooler.shared(before: database.cluster)
            variables["DATABASE_URL"] = pooler.connectionString(database: database.name)
            variables["DATABASE_DIRECT_URL"] = database.connectionString
        }
        return variables
    }

    // MARK: pgpush

    /// Starts `pgpush worker` with these options, and with `more` in its environment; `wrapper` as `WorkerProcess` takes it.
    package func worker(
        _ options: String..., more: [String: String] = [:], within wrapper: [String] = []
    ) throws -> WorkerProcess {
        let worker = try WorkerProcess(options, environment: environment.merging(more) { $1 }, within: wrapper)
        workers.add(worker)
        return worker
    }

    /// Runs `pgpush worker --once`, which must end with 0; returns it for its log.
    @discardableResult
    package func drain(
        _ options: String..., more: [String: String] = [:], within limit: Duration = .seconds(240)
    ) async throws -> WorkerProcess {
        let worker = try WorkerProcess(["--once"] + options, environment: environment.merging(more) { $1 })
        workers.add(worker)
        let code = try await worker.exitCode(within: limit)
        guard code == 0 else { throw worker.failure("ended with exit code \(code)") }
        return worker
    }

    /// Runs another verb to its end, with `more` in its environment.
    package func pgpush(_ words: String..., more: [String: String] = [:]) throws -> CommandResult {
        try Subprocess.run(
            SimulatorProcess.executable("pgpush").path, words, environment: environment.merging(more) { $1 })
    }

    // MARK: The database

    /// Runs statements through psql and returns their rows.
    @discardableResult
    package func psql(_ sql: String) throws -> [[String?]] { try database.psql(sql) }

    /// Inserts a notification as any backend would and returns its id: `insert("user_id, body", "'anna', 'Hi'")`.
    @discardableResult
    package func insert(_ columns: String, _ values: String) throws -> Int {
        try database.number("INSERT INTO scheduled_notifications (\(columns)) VALUES (\(values)) RETURNING id")
    }

    /// The first column of the rows of a query.
    package func column(_ sql: String) throws -> [String] { try psql(sql).compactMap { $0.first ?? nil } }

    /// Waits until the first field that a query returns is `expected`.
    ///
    /// - Throws: `CommandError` when it is not within the limit, with what it was and the ends of the workers' logs.
    package func eventually(_ sql: String, is expected: String, within limit: Duration = .seconds(120)) async throws {
        let deadline = ContinuousClock.now + limit
        while true {
            let found = try database.value(sql)
            if found == expected { return }
            guard ContinuousClock.now < deadline else {
                let logs = workers.all.map { "worker \($0.pid): \($0.log.suffix(2000))" }.joined(separator: "\n")
                throw CommandError(
                    description: "“\(found ?? "NULL")” instead of “\(expected)” after \(limit): \(sql)\n\(logs)")
            }
            // There is nothing to wait on but the table itself.
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Waits until a notification has this status.
    package func status(of id: Int, is expected: String, within limit: Duration = .seconds(120)) async throws {
        try await eventually(
            "SELECT status FROM scheduled_notifications WHERE id = \(id)", is: expected, within: limit)
    }

    /// Waits until so many workers listen for notifications of the database.
    package func listeners(_ count: Int) async throws {
        try await eventually(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'pgpush listen' AND state = 'idle' AND query <> ''
            """, is: "\(count)")
    }
}

/// The workers of a rig.
private final class WorkerList: @unchecked Sendable {
    private let lock = NSLock()
    private var workers: [WorkerProcess] = []

    func add(_ worker: WorkerProcess) { lock.withLock { workers.append(worker) } }

    var all: [WorkerProcess] { lock.withLock { workers } }
}
