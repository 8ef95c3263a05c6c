// A plan carried out: faults and acts side by side, then calm, then the judge.

import Foundation
import TestSupport
import Testing

/// Carries out plans.
enum Scenario {
    /// Carries out a plan and fails the test with everything that is wrong, and with how to have it again.
    static func run(_ plan: Plan, measuresIdle: Bool = false) async throws {
        say("\(plan)")
        let options = ["--latency-ms", "\(plan.latency)", "--jitter-ms", "\(plan.latency)"]
        try await Field.run(replicas: plan.replicas, lanes: plan.lanes, ownClocks: true, simulator: options) { field in
            try field.register(plan.workload)
            for replica in field.replicas { try replica.start() }
            for replica in field.replicas { try await replica.worker?.hasStarted(within: .seconds(60)) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for track in plan.tracks {
                    group.addTask {
                        for (gap, fault) in track {
                            try await field.pass(gap)
                            try await fault.strike(field)
                        }
                    }
                }
                group.addTask { try await field.perform(plan.workload) }
                try await group.waitForAll()
            }
            let unfinished = try await field.calm()
            let rate = measuresIdle ? try await field.idleRate() : nil
            for replica in field.replicas { try await replica.stop() }
            let violations = try field.judge { $0.health.idleRate = rate }
            let name = "seed \(plan.seed)"
            #expect(violations.map { "\(name): \($0)" } == [])
            if !violations.isEmpty || unfinished > 0 { say("\(name) FAILED\n\(field.logs)") }
            say(
                "\(name): over, \(try field.summary())"
                    + (rate.map { ", idle \($0) transactions a second and replica" } ?? ""))
        }
    }

    /// Prints, so that a seed is known even if the tests are cut short.
    static func say(_ text: String) { FileHandle.standardError.write(Data("chaos: \(text)\n".utf8)) }
}

extension Field {
    /// Ends all faults, starts all replicas, and waits until everything is finished, or as long as that may take.
    ///
    /// Waits that Apple orders (a quarter of an hour after a 5xx) are shortened; leases never.
    ///
    /// - Returns: how many notifications are unfinished all the same.
    /// - Throws: when the database or the simulator is not to be had.
    @discardableResult
    func calm() async throws -> Int {
        let start = Clock.now
        record { $0.calm = start }
        try production.thaw()
        try sandbox.thaw()
        for replica in replicas {
            try replica.database.thaw()
            replica.worker?.signal(SIGCONT)
            try replica.start()
        }
        let limit = Health().finishLimit
        while true {
            try await insist(
                """
                UPDATE notification_batches SET not_before = now()
                WHERE state = 'ready' AND not_before > now() + interval '20 s';
                UPDATE app_pauses SET next_probe_at = now() WHERE automatic AND next_probe_at > now() + interval '40 s';
                """)
            let open = try rig.database.number("SELECT count(*) FROM scheduled_notifications WHERE finished_at IS NULL")
            replicas.forEach { $0.look() }
            if open == 0 || Clock.now > start + limit { return open }
            try await pass(.seconds(1))
        }
    }

    /// Transactions a second and replica while nothing is to be done.
    func idleRate() async throws -> Double {
        let sql = """
            SELECT pg_stat_force_next_flush();
            SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = current_database()
            """
        // Sessions report what they did when they end or have been idle for ten seconds.
        try await pass(.seconds(11))
        let (first, start) = (try rig.psql(sql).last?.first.flatMap { $0 }.flatMap(Int.init) ?? 0, Clock.now)
        try await pass(.seconds(20))
        let second = try rig.psql(sql).last?.first.flatMap { $0 }.flatMap(Int.init) ?? 0
        return Double(second - first) / (Clock.now - start) / Double(replicas.count)
    }

    /// How much there was.
    func summary() throws -> String {
        let counts = try rig.psql(
            "SELECT status, count(*) FROM scheduled_notifications GROUP BY 1 ORDER BY 1"
        ).map { "\($0[1] ?? "") \($0[0] ?? "")" }.joined(separator: ", ")
        let requests = try rig.simulator.journal().requests
        return "\(counts); \(requests.count) requests, \(deeds.crashes.count) crashes, \(deeds.cancels.count) cancels"
    }
}
