// A worker without a wire: calls the queue functions as the worker does, so that a test reads like the story of a notification.

import Foundation
import TestSupport

/// A leased piece of work.
struct Unit: Equatable {
    let notification: Int
    let batch: Int
    var epoch: Int
    var attempt = 1
    var deviceCount: Int?
}

/// Devices of a unit in one environment.
struct Devices: Equatable {
    let unit: Int
    let environment: String
    let ids: [Int]
    let tokens: [String]
}

/// What became of a unit.
struct Outcome {
    struct Failure {
        var device: Int
        var status: Int
        var reason: String
        var isFinal = true
        var token = "ab12cd34"
    }
    struct Retirement {
        var device: Int
        var before: String?
        var ageMilliseconds = 0
    }
    struct Again {
        var devices: [Int]
        var state = "ready"
        var isCharged = true
        var delayMilliseconds = 0
        var environment: String?
        var topic: String?
    }
    struct Pause {
        var app = "default"
        var environment: String?
        var topic: String?
        var reason = "InvalidProviderToken"
    }
    struct Scope: Hashable {
        var app = "default"
        var environment = "production"
        var topic = "com.example.app"
    }
    struct Evidence {
        var scope = Scope()
        var accepted = 0
        var answered = 0
    }
    struct Proposal {
        var device: Int
        var reason = "BadDeviceToken"
        var ageMilliseconds = 0
        var scope = Scope()
    }

    var unit: Unit
    var accepted = 0
    var rejected = 0
    var unknown = 0
    var isDone = true
    var doneThrough: Int?
    var error: String?
    var failures: [Failure] = []
    var retired: [Retirement] = []
    var again: [Again] = []
    var pauses: [Pause] = []
    var evidence: [Evidence] = []
    var proposals: [Proposal] = []

    /// Apple's answers to a unit as the worker reports them: so many accepted, and these tokens called bad.
    static func answers(
        _ unit: Unit, accepted: Int = 0, bad: [Int] = [], scope: Scope = Scope(), reason: String = "BadDeviceToken",
        sentBefore age: Int = 0
    ) -> Outcome {
        var outcome = Outcome(unit: unit, accepted: accepted, rejected: bad.count)
        outcome.error = bad.isEmpty ? nil : reason
        outcome.failures = bad.map { .init(device: $0, status: 400, reason: reason) }
        outcome.proposals = bad.map { .init(device: $0, reason: reason, ageMilliseconds: age, scope: scope) }
        outcome.evidence = [.init(scope: scope, accepted: accepted, answered: accepted + bad.count)]
        return outcome
    }
}

/// The queue functions under one owner.
final class QueueWorker {
    let session: PsqlSession
    let owner = UUID().uuidString
    var apps = "{default}"
    var lateness = "{24h}"
    /// The most of each app, as a worker says it; nil: as workers of the first version.
    var limits: String?

    init(_ database: TestDatabase) { session = database.openSession() }

    deinit { session.close() }

    func claim(limit: Int = 100, batchSize: Int = 500, lease: String = "75 s") throws -> [Unit] {
        let each = limits.map { ", NULL, NULL, '\($0)'" } ?? ""
        return try units(
            "claim_notifications('\(owner)', '\(apps)', '\(lateness)', \(limit), \(batchSize), '\(lease)'\(each))")
    }

    func claimBroadcast(batches: Int = 16, batchSize: Int = 500, lease: String = "75 s") throws -> [Unit] {
        let each = limits.map { ", '\($0)'" } ?? ""
        return try units(
            "claim_broadcasts('\(owner)', '\(apps)', '\(lateness)', \(batches), \(batchSize), '\(lease)'\(each))")
    }

    func claimBatches(limit: Int = 100, rescue: Bool = false, grace: String = "15 s") throws -> [Unit] {
        let each = limits.map { ", '\($0)', '\(lateness)'" } ?? ""
        return try units("claim_batches('\(owner)', '\(apps)', \(limit), '75 s', \(rescue), '\(grace)'\(each))")
    }

    func probe() throws -> [Unit] { try units("claim_probe('\(owner)', '\(apps)', '75 s')") }

    func expand(_ units: [Unit], limit: Int = 1000) throws -> [Devices] {
        let rows = try session.run(
            """
            SELECT unit, environment, array_to_string(device_ids, ' '), device_tokens
            FROM expand('\(list(units.map(\.notification)))', '\(list(units.map(\.batch)))', \(limit)) ORDER BY 1, 2
            """)
        return rows.map { row in
            Devices(
                unit: row[0].flatMap { Int($0) } ?? 0, environment: row[1] ?? "",
                ids: (row[2] ?? "").split(separator: " ").compactMap { Int($0) },
                tokens: (row[3] ?? "").split(separator: " ").map(String.init))
        }
    }

    /// Everything of the units was accepted.
    @discardableResult
    func accept(_ units: [Unit]) throws -> [String] {
        let counts = Dictionary(grouping: try expand(units), by: \.unit).mapValues {
            $0.reduce(0) { $0 + $1.ids.count }
        }
        return try settle(units.enumerated().map { Outcome(unit: $1, accepted: counts[$0 + 1] ?? 0) })
    }

    /// Results (`applied`, `already`, `fenced`) in the units' order.
    @discardableResult
    func settle(_ outcomes: [Outcome]) throws -> [String] {
        try session.run("SELECT result, status FROM \(settleCall(outcomes)) ORDER BY unit").map { $0[0] ?? "" }
    }

    @discardableResult
    func settle(_ outcome: Outcome) throws -> String { try settle([outcome]).first ?? "" }

    func settleCall(_ outcomes: [Outcome]) -> String {
        func each<T>(_ path: KeyPath<Outcome, [T]>) -> [(Int, T)] {
            outcomes.enumerated().flatMap { number, outcome in outcome[keyPath: path].map { (number + 1, $0) } }
        }
        let (failures, retired, again, pauses) = (each(\.failures), each(\.retired), each(\.again), each(\.pauses))
        let (evidence, proposals) = (each(\.evidence), each(\.proposals))
        let scopes = Array(Set(evidence.map(\.1.scope) + proposals.map(\.1.scope)))
        let place = Dictionary(uniqueKeysWithValues: scopes.enumerated().map { ($1, $0 + 1) })
        let moved = again.enumerated().flatMap { number, part in part.1.devices.map { (number + 1, $0) } }
        return """
            settle('\(owner)', '\(list(outcomes.map(\.unit.notification)))', '\(list(outcomes.map(\.unit.batch)))',
            '\(list(outcomes.map(\.unit.epoch)))', '\(list(outcomes.map(\.isDone)))', '\(list(outcomes.map(\.doneThrough)))',
            '\(list(outcomes.map(\.accepted)))', '\(list(outcomes.map(\.rejected)))', '\(list(outcomes.map(\.unknown)))',
            '\(list(outcomes.map { _ in 0 }))', \(texts(outcomes.map(\.error))),
            '\(list(failures.map(\.0)))', '\(list(failures.map(\.1.device)))', \(texts(failures.map(\.1.token))),
            \(texts(failures.map { _ in "production" })), '\(list(failures.map(\.1.status)))', \(texts(failures.map(\.1.reason))),
            '\(list(failures.map(\.1.isFinal)))', '\(list(failures.map { _ in 0 }))',
            '\(list(retired.map(\.0)))', '\(list(retired.map(\.1.device)))', \(texts(retired.map { _ in "Unregistered" })),
            ARRAY[\(retired.map { $0.1.before ?? "NULL" }.joined(separator: ", "))]::timestamptz[],
            '\(list(retired.map(\.1.ageMilliseconds)))',
            '\(list(again.map(\.0)))', \(texts(again.map(\.1.state))), '\(list(again.map(\.1.isCharged)))',
            '\(list(again.map(\.1.delayMilliseconds)))', \(texts(again.map(\.1.environment))), \(texts(again.map(\.1.topic))),
            '\(list(moved.map(\.0)))', '\(list(moved.map(\.1)))',
            \(texts(pauses.map(\.1.app))), \(texts(pauses.map(\.1.environment))), \(texts(pauses.map(\.1.topic))),
            \(texts(pauses.map(\.1.reason))),
            \(texts(scopes.map(\.app))), \(texts(scopes.map(\.environment))), \(texts(scopes.map(\.topic))),
            '\(list(evidence.map(\.0)))', '\(list(evidence.map { place[$0.1.scope] }))',
            '\(list(evidence.map(\.1.accepted)))', '\(list(evidence.map(\.1.answered)))',
            '\(list(proposals.map(\.0)))', '\(list(proposals.map { place[$0.1.scope] }))', '\(list(proposals.map(\.1.device)))',
            \(texts(proposals.map(\.1.reason))), '\(list(proposals.map(\.1.ageMilliseconds)))')
            """
    }

    /// The statuses of those that are finished now.
    @discardableResult
    func finalise(_ ids: Int...) throws -> [String] {
        try session.run("SELECT status FROM finalise('\(list(ids))') ORDER BY id").map { $0[0] ?? "" }
    }

    func renew(_ units: [Unit], lease: String = "75 s") throws -> [String] {
        try session.run("SELECT held || ' ' || status FROM renew(\(key(units)), '\(lease)') ORDER BY unit").map {
            $0[0] ?? ""
        }
    }

    @discardableResult
    func release(_ units: [Unit]) throws -> [String] {
        try session.run("SELECT released FROM release(\(key(units))) ORDER BY unit").map { $0[0] ?? "" }
    }

    /// What was judged in one call: verdict, applied, dropped, requeued of each window.
    @discardableResult
    func judge() throws -> [[String]] {
        try session.run("SELECT verdict, applied, dropped, requeued FROM judge_windows('\(apps)')").map {
            $0.map { $0 ?? "" }
        }
    }

    /// How many were not given up before.
    @discardableResult
    func giveUp(_ ids: Int..., reason: String = "BadTopic") throws -> Int {
        let reasons = texts(ids.map { _ in reason })
        return try session.run("SELECT give_up_rest('\(list(ids))', \(reasons))")[0][0].flatMap { Int($0) } ?? -1
    }

    /// How many units went back that were not known.
    @discardableResult
    func releaseLost(knowing units: [Unit] = []) throws -> Int {
        let known = "'\(list(units.map(\.notification)))', '\(list(units.map(\.batch)))'"
        return try session.run("SELECT release_lost('\(owner)', '\(apps)', \(known))")[0][0].flatMap { Int($0) } ?? -1
    }

    /// expired, unparked, lost, finished.
    @discardableResult
    func sweep(grace: String = "15 s") throws -> [Int] {
        try session.run("SELECT * FROM sweep('\(apps)', '\(lateness)', '\(grace)')")[0].map {
            $0.flatMap { Int($0) } ?? 0
        }
    }

    /// Milliseconds; nil: nothing is planned.
    func nextDue() throws -> Int? { try session.run("SELECT next_due('\(apps)')")[0][0].flatMap { Int($0) } }

    /// Milliseconds; nil: nothing is leased.
    func nextLost() throws -> Int? { try session.run("SELECT next_lost('\(apps)')")[0][0].flatMap { Int($0) } }

    private func units(_ call: String) throws -> [Unit] {
        let rows = try session.run(
            "SELECT notification_id, batch_no, epoch, attempt, device_count FROM \(call) ORDER BY 1, 2")
        return rows.map { row in
            let numbers = row.map { $0.flatMap { Int($0) } }
            return Unit(
                notification: numbers[0] ?? 0, batch: numbers[1] ?? 0, epoch: numbers[2] ?? 0, attempt: numbers[3] ?? 0,
                deviceCount: numbers[4])
        }
    }

    private func key(_ units: [Unit]) -> String {
        "'\(owner)', '\(list(units.map(\.notification)))', '\(list(units.map(\.batch)))', '\(list(units.map(\.epoch)))'"
    }

    private func list<T>(_ values: [T]) -> String { "{" + values.map { "\($0)" }.joined(separator: ",") + "}" }

    private func list(_ values: [Int?]) -> String {
        "{" + values.map { $0.map { "\($0)" } ?? "NULL" }.joined(separator: ",") + "}"
    }

    private func texts(_ values: [String?]) -> String {
        "ARRAY[" + values.map { $0.map { "'\($0)'" } ?? "NULL" }.joined(separator: ", ") + "]::text[]"
    }
}

extension TestDatabase {
    /// A database with the schema in it.
    static func make() throws -> TestDatabase { try PostgresCluster.shared().createDatabase() }

    /// Registers devices `u1`… with tokens that are their number in hex; every tenth is a sandbox device.
    func addDevices(_ count: Int, active: Int? = nil) throws {
        try psql(
            """
            INSERT INTO devices (user_id, device_token, environment, is_active)
            SELECT 'u' || i, lpad(to_hex(i), 64, '0'), CASE WHEN i % 10 = 0 THEN 'sandbox' ELSE 'production' END,
                   i <= \(active ?? count)
            FROM generate_series(1, \(count)) i
            """)
    }

    /// Inserts a notification; returns its id.
    @discardableResult
    func notify(_ columns: String = "user_id", _ values: String = "'u1'", title: String = "Hello") throws -> Int {
        try number(
            "INSERT INTO scheduled_notifications (title, \(columns)) VALUES ('\(title)', \(values)) RETURNING id")
    }

    func status(_ id: Int) throws -> String? {
        try value("SELECT status FROM scheduled_notifications WHERE id = \(id)")
    }

    /// devices, accepted, rejected, unknown.
    func counts(_ id: Int) throws -> [Int] {
        try psql(
            """
            SELECT device_count, accepted_count, rejected_count, unknown_count FROM scheduled_notifications WHERE id = \(id)
            """)[0].map { $0.flatMap { Int($0) } ?? -1 }
    }

    func payload(_ id: Int) throws -> String? {
        try value("SELECT payload FROM scheduled_notifications WHERE id = \(id)")
    }

    /// The SQLSTATE with which a statement is refused; nil when it is not.
    func refusal(_ sql: String) throws -> String? {
        do {
            try psql(sql)
            return nil
        } catch let failure as SQLFailure {
            return failure.sqlState
        }
    }
}
