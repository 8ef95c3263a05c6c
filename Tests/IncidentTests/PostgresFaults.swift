// F25 to F27: a database that restarts, a pooler that gives every transaction another session, a server without patience.

import TestSupport
import Testing

@Suite("PostgreSQL faults") struct PostgresFaults {
    @Test("F25: an idle worker outlives a fast and an immediate restart, without a busy loop, and listens again")
    func restarts() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await Rig.run(.idle, cluster: cluster) { rig in
            try rig.addDevices(1...3)
            let worker = try rig.worker("--poll-interval", "60")
            for (number, mode) in [nil, PostgresCluster.StopMode.fast, .immediate].enumerated() {
                if let mode { try await restart(mode, cluster, worker, rig) }
                try await rig.listeners(1)
                let id = try rig.insert("user_id, body", "'user-\(number + 1)', 'x'")
                try await rig.status(of: id, is: "sent")
                // Heard of, not polled for: that would take a minute.
                let delay = try rig.value("extract(epoch FROM sent_at - created_at)", of: id)
                #expect(try #require(delay.flatMap { Double($0) }) < 30)
            }
            try await worker.stop()
            expectEachOnce(try rig.simulator.journal(), 3)
        }
    }

    private func restart(
        _ mode: PostgresCluster.StopMode, _ cluster: PostgresCluster, _ worker: WorkerProcess, _ rig: Rig
    ) async throws {
        let failure = "cannot connect to the database"
        let (known, used, start) = (worker.log.count(of: failure), try worker.processorTime(), ContinuousClock.now)
        try cluster.stop(mode)
        // Some tries of each of its four connections or so: a few seconds.
        try await worker.logs(failure, times: known + 16, within: .seconds(240))
        let (outage, work) = (ContinuousClock.now - start, try worker.processorTime() - used)
        #expect(work < outage / 2, "\(work) of \(outage)")
        // Never more than five a second for each connection.
        #expect(worker.log.count(of: failure) - known < 16 + Int(outage / .seconds(1)) * 20)
        #expect(worker.isRunning)
        try cluster.start()
        // The session of the test has ended with the server; the next one is new.
        _ = try? rig.psql("SELECT")
    }

    @Test("F25: a worker whose sessions are terminated between claim and write-back books the answer and goes on")
    func terminated() async throws {
        try await Rig.run(simulator: ["--latency-ms", "12000"]) { rig in
            try rig.addDevices(1...2)
            let worker = try rig.worker("--poll-interval", "60")
            try await rig.listeners(1)
            let first = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.simulator.wait(for: .held, atLeast: 1)
            let ended = try rig.psql(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'pgpush%'
                """)
            #expect(ended.count >= 3)
            try await rig.simulator.control("answer-held")
            try await rig.simulator.set("latency-ms", 0)
            try await rig.status(of: first, is: "sent")
            try await rig.listeners(1)
            let second = try rig.insert("user_id, body", "'user-2', 'x'")
            try await rig.status(of: second, is: "sent")
            try await worker.stop()
            expectEachOnce(try rig.simulator.journal(), 2)
        }
    }

    /// How a pooler in transaction mode leaves a session behind.
    enum Pooling: String, CaseIterable {
        case asItIs = "as it is", wiped = "wiped by DISCARD ALL"

        var settings: [String: String] {
            let few = ["default_pool_size": "2"]
            guard self == .wiped else { return few }
            return few.merging(["server_reset_query": "DISCARD ALL", "server_reset_query_always": "1"]) { $1 }
        }
    }

    @Test("F26: two workers share two sessions behind pgbouncer; 200 rows go out once", arguments: Pooling.allCases)
    func pooled(_ pooling: Pooling) async throws {
        let cluster = try PostgresCluster(settings: ["log_statement": "'all'"])
        defer { cluster.remove() }
        let weather = ["--first-limit", "5", "--stream-limit", "5", "--latency-ms", "2000"]
        try await Rig.run(cluster: cluster, simulator: weather) { rig in
            try rig.addDevices(1...200)
            let pooler = try Pooler(before: cluster, settings: pooling.settings)
            let variables = [
                "DATABASE_URL": pooler.connectionString(database: rig.database.name), "DATABASE_DIRECT_URL": "",
            ]
            let workers = try (1...2).map { _ in
                try rig.worker("--poll-interval", "1", "--batch-size", "10", "--connections", "1", more: variables)
            }
            for worker in workers { try await worker.logs("notifications are not available") }
            try rig.addSingles(1...200)
            // Each holds forty at most, and answers are slow until both have some.
            try await rig.eventually("SELECT count(DISTINCT owner) FROM scheduled_notifications", is: "2")
            try await rig.simulator.set("latency-ms", 100)
            try await rig.allSinglesSent(200)
            for worker in workers { try await worker.stop() }

            expectEachOnce(try rig.simulator.journal(), 200)
            try rig.expectNothingCharged()
            let log = cluster.log
            #expect(log.count(of: "execute <unnamed>") > 100)
            #expect(log.count(of: "execute ") == log.count(of: "execute <unnamed>"), "no named statements")
            #expect(log.count(of: "pg_advisory_lock") == 0)
            #expect((log.count(of: "DISCARD ALL") > 100) == (pooling == .wiped))
        }
    }

    @Test(
        "F27: a server that ends idle transactions and slow statements, and a locked table, cost no row and no worker")
    func impatientServer() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        let weather = ["--first-limit", "100", "--stream-limit", "100", "--latency-ms", "0"]
        try await Rig.run(cluster: cluster, simulator: weather) { rig in
            try rig.addDevices(1...52)
            try rig.psql(
                """
                ALTER ROLE \(PostgresCluster.user) SET idle_in_transaction_session_timeout = '10s';
                ALTER ROLE \(PostgresCluster.user) SET statement_timeout = '4s'
                """)
            let locker = rig.database.openSession()
            defer { locker.close() }
            try locker.run("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
            let worker = try rig.worker("--poll-interval", "1")
            // The first answer opens a connection for many.
            try rig.addSingles(52...52)
            try await rig.allSinglesSent(1)
            try await rig.simulator.set("latency-ms", 12_000)
            try rig.addSingles(1...50)
            try await rig.simulator.wait(for: .held, atLeast: 50)
            // Nothing can be claimed, and no answer that comes can be written down.
            try locker.run(
                """
                BEGIN; LOCK TABLE scheduled_notifications IN ACCESS EXCLUSIVE MODE;
                INSERT INTO scheduled_notifications (user_id, body) VALUES ('user-51', 'x')
                """)
            try await expectNoOpenTransaction(rig, for: .seconds(8))
            try await worker.logs("55P03")
            try await rig.simulator.control("answer-held")
            try await rig.simulator.set("latency-ms", 0)
            try await worker.logs("55P03", times: worker.log.count(of: "55P03") + 1)
            let sent = try locker.run("SELECT count(*) FROM scheduled_notifications WHERE status = 'sent'")
            #expect(sent == [["1"]])
            try locker.run("COMMIT")
            try await rig.allSinglesSent(52)
            try await worker.stop()

            expectEachOnce(try rig.simulator.journal(), 52)
            try rig.expectNothingCharged()
            #expect(!cluster.log.contains("idle-in-transaction timeout"))
        }
    }

    /// Looks again and again while nothing is answered: no session of the worker keeps a transaction open.
    private func expectNoOpenTransaction(_ rig: Rig, for time: Duration) async throws {
        let open = """
            SELECT count(*) FROM pg_stat_activity
            WHERE application_name LIKE 'pgpush%' AND state LIKE 'idle in transaction%' AND state_change < now() - interval '5 s'
            """
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end {
            #expect(try rig.database.number(open) == 0)
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
