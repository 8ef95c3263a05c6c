// Days of operation in minutes: all clocks go sixty times as fast, connections and database are lost all day long, tokens are renewed,
// rows are deleted by retention and ledger partitions are made. At the end the worker holds what it held after its first hours. F35 does the
// same in small in every run of the tests; this is run by hand: `./deploy/test.sh day`.

import Foundation
import TestSupport
import Testing

@Suite("Endurance") struct Endurance {
    private static let seconds = ProcessInfo.processInfo.environment["PGPUSH_DAY_SECONDS"].flatMap { Int($0) } ?? 0
    private static let speed = 60

    /// Ways for connections to end, in turn; the last is silence.
    private static let ends = ["goaway", "abort", "close", "finish", "mute"]

    @Test(
        "days of losses and restarts leave descriptors, threads and memory where they were", .enabled(if: seconds > 0))
    func days() async throws {
        try await FastClock.run(speed: Self.speed) { clock in
            let cluster = try PostgresCluster()
            defer { cluster.remove() }
            let weather = ["--latency-ms", "5", "--journal-body", "none"]
            try await Rig.run(.heavy, cluster: cluster, simulator: weather) { rig in
                try prepare(rig)
                let worker = try rig.worker("--lanes", "2", "--connections", "8")
                try await worker.hasStarted()
                try await live(rig, worker, clock)
                try await expectAllDone(rig, clock)
                #expect(worker.isRunning)
                try await worker.stop()
            }
        }
    }

    private func prepare(_ rig: Rig) throws {
        try rig.addDevices(1...500)
        // Some that are refused now and then, and some that are dead.
        try rig.psql(
            """
            ALTER DATABASE \(rig.database.name) SET pgpush.keep_notifications = '3 hours';
            INSERT INTO devices (user_id, device_token)
            SELECT 'odd', '5ca1ab1e' || c || lpad(to_hex(i), 52, '0')
            FROM generate_series(1, 5) i, unnest('{0429,0500,0503,f400,02bb,00cc}'::text[]) c
            """)
    }

    /// An hour of theirs after the other, and what the worker holds after each.
    private func live(_ rig: Rig, _ worker: WorkerProcess, _ clock: FastClock) async throws {
        var readings: [ProcessReading] = []
        let end = ContinuousClock.now + .seconds(Self.seconds)
        while ContinuousClock.now < end {
            let hour = readings.count + 1
            try await liveAnHour(rig, hour, until: ContinuousClock.now + .seconds(3600 / Self.speed))
            readings.append(try await calm(rig, worker))
            print("hour \(hour) (\(clock.elapsed / .seconds(3600)) on their clocks): \(readings[hour - 1])")
        }
        // The first two hours fill caches and arenas.
        try #require(readings.count > 4, "too short to see a trend")
        let (first, last) = (readings[2], readings[readings.count - 1])
        #expect(last.descriptors <= first.descriptors + 4, "\(first) → \(last)")
        #expect(last.threads <= first.threads, "\(first) → \(last)")
        #expect(last.anonymous <= first.anonymous + 6144, "\(first) → \(last)")
    }

    /// Singles, lists and broadcasts, a lost connection every few seconds, and a restart of the database.
    private func liveAnHour(_ rig: Rig, _ hour: Int, until end: ContinuousClock.Instant) async throws {
        var turn = 0
        while ContinuousClock.now < end {
            try rig.psql(
                """
                INSERT INTO scheduled_notifications (user_id, body)
                SELECT 'user-' || 1 + (random() * 499)::int, 'x' FROM generate_series(1, 20);
                INSERT INTO scheduled_notifications (user_ids, body) VALUES ('{user-1,user-2,odd}', 'x');
                INSERT INTO scheduled_notifications (broadcast, body) VALUES (true, 'x')
                """)
            let requests = try await rig.simulator.counts().requests
            // Its own patience goes by the fast clock.
            let deadline = ContinuousClock.now + .seconds(60)
            while try await rig.simulator.counts().requests < requests + 50 {
                try #require(ContinuousClock.now < deadline, "the worker sends nothing any more")
                try await Task.sleep(for: .milliseconds(100))
            }
            try await rig.simulator.control(Self.ends[(hour + turn) % Self.ends.count])
            turn += 1
            if turn == 3 { try restart(rig, hour % 2 == 0 ? .fast : .immediate) }
        }
    }

    private func restart(_ rig: Rig, _ mode: PostgresCluster.StopMode) throws {
        try rig.database.cluster.stop(mode)
        try rig.database.cluster.start()
        // The session of the test has ended with the server; the next one is new.
        _ = try? rig.psql("SELECT")
    }

    /// What the worker holds once everything that was due has been sent.
    private func calm(_ rig: Rig, _ worker: WorkerProcess) async throws -> ProcessReading {
        try await rig.eventually(
            "SELECT count(*) FROM scheduled_notifications WHERE status = 'pending' OR device_count = 0 AND status = 'sending'",
            is: "0", within: .seconds(90))
        // What was lost with a connection, or has to wait for its retry, may be under way.
        return try await worker.reading(within: .seconds(30)) { $0.sockets < 40 }
    }

    private func expectAllDone(_ rig: Rig, _ clock: FastClock) async throws {
        // The retries of a notification take up to hours of theirs, minutes of ours.
        try await rig.eventually(
            "SELECT count(*) FROM scheduled_notifications WHERE finished_at IS NULL", is: "0", within: .seconds(300))
        let failed = try rig.psql("SELECT status, count(*) FROM scheduled_notifications GROUP BY 1 ORDER BY 1")
        #expect(failed.map { $0[0] } == ["sent"], "\(failed)")
        let hours = clock.elapsed / .seconds(3600)
        // Retention: nothing older than it keeps, and it has come round since.
        let old = "SELECT count(*) FROM scheduled_notifications WHERE finished_at < now() - interval '4 hours'"
        if hours > 5 { #expect(try rig.database.number(old) == 0) }
        // Partitions for today, by their clock, and the days to come.
        let partitions = """
            SELECT count(*) FROM generate_series(0, 2) d
            WHERE to_regclass('delivery_failures_' || to_char(now() AT TIME ZONE 'UTC' + d * interval '1 day', 'YYYYMMDD')) IS NOT NULL
            """
        #expect(try rig.database.number(partitions) == 3)
        #expect(try rig.database.number("SELECT count(*) FROM delivery_failures_default") == 0)
        // A provider token lasts for three quarters of an hour.
        let tokens = Set(try rig.simulator.journal().requests.compactMap(\.authorization)).count
        #expect(
            Double(tokens) >= hours * 60 / 50 - 1 && Double(tokens) <= hours * 60 / 40 + 2, "\(tokens) in \(hours) h")
        #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)
    }
}
