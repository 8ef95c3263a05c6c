// What happens to the database: stopped, read-only, full, its sessions ended, locked, frozen or cut off by the network.

import Glibc
import TestSupport

/// The server is stopped and started again.
struct ServerStopped: Fault {
    let mode: PostgresCluster.StopMode
    let lasts: Duration
    var description: String { "PostgreSQL is stopped (\(mode.rawValue)) for \(lasts)" }

    func begin(on field: Field) throws { try field.cluster.stop(mode) }

    func end(on field: Field) async throws {
        try field.cluster.start()
        try await field.awaitReturn()
    }
}

/// Every transaction is read-only, as on a server that has become a standby.
struct ServerReadOnly: Fault {
    let lasts: Duration
    var description: String { "PostgreSQL is read-only for \(lasts)" }

    func begin(on field: Field) throws {
        try field.cluster.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        try field.cluster.execute("SELECT pg_reload_conf()")
    }

    func end(on field: Field) async throws {
        try field.cluster.execute("ALTER SYSTEM RESET default_transaction_read_only")
        try field.cluster.execute("SELECT pg_reload_conf()")
        try await field.awaitReturn()
    }
}

/// Others take every connection there is, and the workers' own are ended.
struct ConnectionsTaken: Fault {
    let lasts: Duration
    private let crowd = Crowd()
    var description: String { "no connection is to be had for \(lasts)" }

    init(lasts: Duration) { self.lasts = lasts }

    func begin(on field: Field) throws {
        // Those that we need are there before the crowd.
        try field.rig.psql("SELECT 1")
        try field.cluster.execute("SELECT 1")
        try crowd.come(to: field.cluster.port, database: field.rig.database.name, count: 90)
        try field.endSessions()
        try crowd.come(to: field.cluster.port, database: field.rig.database.name, count: 60)
    }

    func end(on field: Field) async throws {
        crowd.leave()
        try await field.awaitReturn()
    }
}

/// The workers' sessions are ended, again and again.
struct SessionsEnded: Fault {
    let times: Int
    let lasts = Duration.zero
    var description: String { "all sessions are ended \(times) times" }

    func begin(on field: Field) async throws {
        for _ in 1...times {
            try field.endSessions()
            try await field.pass(.milliseconds(700))
        }
        try await field.awaitReturn()
    }

    func end(on field: Field) {}
}

/// Somebody locks a table and thinks.
struct TableLocked: Fault {
    let table: String
    let lasts: Duration
    var description: String { "\(table) is locked for \(lasts)" }

    func begin(on field: Field) throws {
        // In one statement: the lock ends with it, whatever happens to the scenario.
        let seconds = lasts / .seconds(1)
        let session = field.rig.database.openSession()
        try session.start("LOCK TABLE \(table) IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(\(seconds))")
        _ = try session.finish()
        session.close()
    }

    func end(on field: Field) {}

    func strike(_ field: Field) async throws {
        try await field.trouble(description) { try await offPool { try begin(on: field) } }
    }
}

/// What a network does to connections.
enum NetworkHabit: String, CaseIterable, Sendable {
    case frozen, frozenOpen = "frozen where it is open", refused, reset
}

/// The way from a replica, or from all, to the database.
struct DatabaseWay: Fault {
    /// Nil: all.
    let number: Int?
    let habit: NetworkHabit
    let lasts: Duration
    var description: String {
        "the way of \(number.map { "replica \($0)" } ?? "all") to PostgreSQL is \(habit.rawValue) for \(lasts)"
    }

    private func ways(_ field: Field) -> [TCPProxy] {
        number.map { [field.replica($0).database] } ?? field.replicas.map(\.database)
    }

    func begin(on field: Field) {
        // Others may take its work over when it is away for so long.
        if lasts > .seconds(55), habit != .reset {
            field.crashed(.cutOff, from: Clock.now, to: Clock.now + lasts / .seconds(1))
        }
        ways(field).forEach { $0.take(habit) }
    }

    func end(on field: Field) async throws {
        try ways(field).forEach { try $0.thaw() }
        try await field.awaitReturn()
    }
}

extension TCPProxy {
    /// Behaves so from now on.
    func take(_ habit: NetworkHabit) {
        switch habit {
        case .frozen: freeze()
        case .frozenOpen: freezeOpen()
        case .reset: reset()
        case .refused:
            refuse()
            reset()
        }
    }
}

extension Field {
    /// Ends all sessions of workers.
    func endSessions() throws {
        try cluster.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pgpush%'")
    }
}

/// Runs something that blocks on a thread of its own.
func offPool<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
    try await withCheckedThrowingContinuation { continuation in
        Blocking.run { continuation.resume(with: Result { try body() }) }
    }
}

/// Kinds of faults of the database, drawn by a scenario.
enum DatabaseFaults {
    private static let tables = ["devices", "scheduled_notifications", "notification_batches", "delivery_failures"]

    static func draw(_ random: inout SeededGenerator, replicas: Int, isLong: Bool) -> any Fault {
        switch random.number(0...(isLong ? 11 : 10)) {
        case 0, 1: return ServerStopped(mode: .immediate, lasts: random.seconds(0...6))
        case 2: return ServerStopped(mode: .fast, lasts: random.seconds(0...6))
        case 3: return ServerReadOnly(lasts: random.seconds(2...8))
        case 4: return ConnectionsTaken(lasts: random.seconds(2...8))
        case 5, 6: return SessionsEnded(times: random.number(1...5))
        case 7: return TableLocked(table: random.pick(tables), lasts: random.seconds(1...8))
        case 8...10:
            return DatabaseWay(
                number: random.happens(0.7) ? random.number(1...replicas) : nil,
                habit: random.pick(NetworkHabit.allCases),
                lasts: random.seconds(1...12))
        default:
            return random.happens(0.5)
                ? ServerStopped(mode: .immediate, lasts: random.seconds(90...160))
                : DatabaseWay(number: random.number(1...replicas), habit: .frozen, lasts: random.seconds(95...125))
        }
    }
}
