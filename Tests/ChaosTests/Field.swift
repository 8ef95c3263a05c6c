// Where a scenario takes place: a PostgreSQL server of its own, a simulator behind proxies, replicas, and a record of what is done
// to them.
//
//     replica 1 ──► proxy ──┐                    ┌──► proxy ──► production
//     replica 2 ──► proxy ──┼──► PostgreSQL      │                           apns-simulator ──► journal
//     …                     ┘    + history       └──► proxy ──► sandbox

import Foundation
import TestSupport

/// The place of a scenario.
final class Field: @unchecked Sendable {
    let rig: Rig
    let production: TCPProxy
    let sandbox: TCPProxy
    let replicas: [Replica]
    private let lock = NSLock()
    private var recorded = Deeds()
    private var returns: [Double] = []
    private var troubles: [UUID: String] = [:]

    var cluster: PostgresCluster { rig.database.cluster }

    /// Runs `body` on a field with replicas that have not been started, and clears it away.
    ///
    /// `lanes` are threads of each replica, `options` further ones of `pgpush worker`, `simulator` those of the simulator; with
    /// `ownClocks` the replicas' calendars can be changed.
    static func run<T>(
        replicas: Int, lanes: Int = 1, options: [String] = [], ownClocks: Bool = false, simulator: [String] = [],
        _ body: (Field) async throws -> T
    ) async throws -> T {
        let cluster = try PostgresCluster(settings: [
            "autovacuum": "on", "superuser_reserved_connections": "0", "max_connections": "80",
        ])
        defer { cluster.remove() }
        return try await Rig.run(.idle, cluster: cluster, simulator: simulator) { rig in
            let options = ["--lanes", "\(lanes)", "--connections", "4", "--poll-interval", "5"] + options
            let field = try Field(rig, replicas, options, ownClocks)
            let result: Result<T, any Error>
            do { result = .success(try await body(field)) } catch { result = .failure(error) }
            for replica in field.replicas { await replica.close() }
            field.production.close()
            field.sandbox.close()
            return try result.get()
        }
    }

    private init(_ rig: Rig, _ count: Int, _ options: [String], _ ownClocks: Bool) throws {
        self.rig = rig
        try rig.psql(History.triggers)
        production = try TCPProxy(to: rig.simulator.productionPort)
        sandbox = try TCPProxy(to: rig.simulator.sandboxPort)
        let gateways = [
            "APNS_PRODUCTION_URL": "https://127.0.0.1:\(production.port)",
            "APNS_SANDBOX_URL": "https://127.0.0.1:\(sandbox.port)",
        ]
        replicas = try (1...count).map {
            try Replica($0, rig, options: options, gateways: gateways, hasOwnClock: ownClocks)
        }
    }

    // MARK: The record

    /// What was done so far.
    var deeds: Deeds { lock.withLock { recorded } }

    /// Writes something down.
    func record(_ body: (inout Deeds) -> Void) { lock.withLock { body(&recorded) } }

    /// A worker is lost with what it had not written down.
    func crashed(_ kind: Deeds.Crash.Kind, from: Double, to: Double = Clock.now) {
        record { $0.crashes.append(Deeds.Crash(kind: kind, from: from, to: to)) }
    }

    /// Notes that something is wrong from now on, for as long as the body takes.
    func trouble<T>(_ what: String, _ body: () async throws -> T) async rethrows -> T {
        let id = UUID()
        lock.withLock { troubles[id] = what }
        defer { lock.withLock { _ = troubles.removeValue(forKey: id) } }
        return try await body()
    }

    /// What is wrong at present.
    var presentTroubles: [String] { lock.withLock { troubles.values.sorted() } }

    // MARK: Waiting

    /// Lets a span of time pass: faults last, and nothing but time ends them.
    func pass(_ duration: Duration) async throws { try await Task.sleep(for: duration) }

    /// Measures how soon each living replica is connected to the database again; not waited for longer than a minute.
    ///
    /// One that is frozen, or whose way there is cut by another fault, cannot come back: that time is not its own.
    func awaitReturn() async throws {
        let start = Clock.now
        var (away, last) = (Set(replicas.indices), start)
        var took = replicas.map { _ in 0.0 }
        while true {
            let now = Clock.now
            away = away.filter { replicas[$0].worker?.isRunning == true && replicas[$0].database.open == 0 }
            for index in away where !replicas[index].isHeldUp { took[index] += now - last }
            last = now
            if away.isEmpty || now > start + 60 { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        lock.withLock { returns += took }
    }

    /// A statement that is tried until the database takes it, which it may not for minutes.
    @discardableResult
    func insist(_ sql: String, within limit: Duration = .seconds(240)) async throws -> [[String?]] {
        let deadline = ContinuousClock.now + limit
        while true {
            do { return try rig.psql("SET default_transaction_read_only = off; \(sql)") } catch {
                guard ContinuousClock.now < deadline else { throw error }
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    /// Reads everything at the end and judges it.
    func judge(_ adjust: (inout Evidence) -> Void = { _ in }) throws -> [Violation] {
        var evidence = try Evidence(reading: rig)
        evidence.deeds = deeds
        replicas.forEach { $0.look() }
        evidence.health.memory = replicas.map(\.used.memory)
        evidence.health.connections = replicas.map(\.used.connections)
        evidence.health.returns = lock.withLock { returns }
        evidence.health.end = Clock.now
        adjust(&evidence)
        return Judge(evidence).violations()
    }

    /// The ends of all workers' logs, for the message of a failure.
    var logs: String {
        replicas.map { "replica \($0.number): \($0.worker?.log.suffix(3000) ?? "")" }.joined(separator: "\n")
    }
}
