// Several apps in one worker: what is the matter with one is not felt by the others.

import Foundation
import TestSupport
import Testing

@Suite("Of several apps in one worker", .serialized) struct SeveralApps {
    /// A rig whose worker serves `well` at the rig's simulator and `sick` at another.
    private func run(
        _ load: Rig.Load = .light, sick settings: [String: String] = [:],
        _ body: @escaping (Rig, SimulatorProcess, [String: String]) async throws -> Void
    ) async throws {
        try await Rig.run(load) { rig in
            try await SimulatorProcess.run { sick in
                for (name, value) in settings { try await sick.set(name, value) }
                var file = AppsFile()
                file.add("sick", at: sick)
                file.add("well", at: rig.simulator)
                try await body(rig, sick, try file.write(in: rig.simulator.folder))
            }
        }
    }

    @Test("one whose gateway is silent takes nothing from the other")
    func silent() async throws {
        try await run(.heavy, sick: ["silent-share": "1"]) { rig, sick, variables in
            try rig.addDevices(of: "sick", 10_000, offset: 0)
            try rig.addDevices(of: "well", 3000, offset: 20_000)
            try rig.psql("INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('sick', true, 'x')")
            try rig.addSingles(of: "sick", 9000)
            let worker = try rig.worker("--lanes", "1", "--connections", "1", more: variables)
            // The lane has taken all that it may of the sick one, and nothing comes back.
            try await sick.wait(for: .held, atLeast: 1)
            try await rig.eventually(
                "SELECT count(*) >= 400 FROM scheduled_notifications WHERE app = 'sick' AND status = 'sending'",
                is: "t")
            try rig.addSingles(of: "well", 1000)
            try rig.psql("INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('well', true, 'x')")
            try rig.psql("SELECT pg_notify('pgpush', '')")
            try await rig.finished("well", within: .seconds(120))
            #expect(try await sick.counts().accepted == 0)
            #expect(try await rig.simulator.counts().distinctAccepted == 3000)
            #expect(try await rig.simulator.counts().requests == 4000)
            await worker.kill()
        }
    }

    @Test("one whose gateway fails waits, is charged little, and a drain says so with 6; the other is sent")
    func failing() async throws {
        try await run(sick: ["answer-all": "503:ServiceUnavailable"]) { rig, sick, variables in
            try rig.holdRetries()
            try rig.addDevices(of: "sick", 500, offset: 0)
            try rig.addDevices(of: "well", 500, offset: 20_000)
            for app in ["sick", "well"] { try rig.addSingles(of: app, 500) }
            let drain = try rig.worker("--once", "--lanes", "1", "--connections", "1", more: variables)
            #expect(try await drain.exitCode(within: .seconds(180)) == 6)
            #expect(drain.log.contains("or fails; what is due stays due"))
            let statuses = try rig.psql(
                "SELECT app, status, count(*) FROM scheduled_notifications GROUP BY 1, 2 ORDER BY 1, 2")
            let tries = try await sick.counts().requests
            #expect((20...60).contains(tries), "\(tries)")
            #expect(
                statuses == [
                    ["sick", "pending", "\(500 - tries)"], ["sick", "sending", "\(tries)"], ["well", "sent", "500"],
                ])
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)

            // What was not tried is there at once when the gateway works again.
            try await sick.control("calm")
            let again = try rig.worker("--once", more: variables)
            #expect(try await again.exitCode(within: .seconds(180)) == 0)
            #expect(try await sick.counts().accepted == 500 - tries)
            #expect(try await rig.simulator.counts().requests == 500)
        }
    }

    @Test("one whose key is refused is paused by itself")
    func refused() async throws {
        try await run(sick: ["answer-all": "403:InvalidProviderToken"]) { rig, sick, variables in
            try rig.addDevices(of: "sick", 300, offset: 0)
            try rig.addDevices(of: "well", 300, offset: 20_000)
            try rig.psql(
                "INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('sick', true, 'x'), ('well', true, 'x')"
            )
            for app in ["sick", "well"] { try rig.addSingles(of: app, 50) }
            let drain = try rig.worker("--once", more: variables)
            #expect(try await drain.exitCode(within: .seconds(180)) == 0)
            #expect(
                try rig.psql("SELECT DISTINCT app, reason FROM app_pauses") == [["sick", "InvalidProviderToken"]])
            #expect(
                try rig.psql(
                    "SELECT DISTINCT app, status FROM scheduled_notifications WHERE status <> 'pending' ORDER BY 1")
                    == [["sick", "sending"], ["well", "sent"]])
            #expect(try await rig.simulator.counts().accepted == 350)
            #expect(try await sick.counts().requests < 12)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)
        }
    }

    @Test("one that is paused for an environment yields while the other has a lot to send, and catches up afterwards")
    func yielding() async throws {
        try await run(.heavy) { rig, _, variables in
            // The other keeps the lane full for some seconds.
            for (name, value) in [("latency-ms", "300"), ("stream-limit", "50"), ("first-limit", "50")] {
                try await rig.simulator.set(name, value)
            }
            try rig.addDevices(of: "sick", 9000, offset: 0)
            try rig.addDevices(of: "well", 2000, offset: 20_000)
            try rig.psql("SELECT pause_app('sick', 'production')")
            try rig.addSingles(of: "sick", 9000)
            try rig.psql("INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('well', true, 'x')")
            let worker = try rig.worker("--lanes", "1", "--connections", "1", more: variables)
            try await rig.finished("well", within: .seconds(120))
            let waiting = "SELECT count(*) FROM scheduled_notifications WHERE app = 'sick' AND status = 'pending'"
            let untouched = try rig.database.number(waiting)
            #expect(untouched >= 4500, "all of it could have been put aside in a second: \(untouched)")
            try await rig.eventually(
                "SELECT count(*) FROM notification_batches WHERE state = 'parked'", is: "9000", within: .seconds(240))
            #expect(try rig.database.number(waiting) == 0)
            await worker.kill()
        }
    }

    @Test("one with thousands of due rows and a hundred broadcasts does not keep another's few waiting")
    func greedy() async throws {
        try await Rig.run(.heavy, simulator: ["--latency-ms", "20", "--stream-limit", "50"]) { rig in
            var file = AppsFile()
            file.add("greedy", at: rig.simulator)
            file.add("modest", at: rig.simulator)
            try rig.addDevices(of: "greedy", 5000, offset: 0)
            try rig.addDevices(of: "modest", 500, offset: 20_000)
            try rig.addSingles(of: "greedy", 5000)
            try rig.psql(
                """
                INSERT INTO scheduled_notifications (app, broadcast, body) SELECT 'greedy', true, 'x' FROM generate_series(1, 4);
                INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('modest', true, 'x');
                """)
            try rig.addSingles(of: "modest", 50)
            let worker = try rig.worker(
                "--lanes", "1", "--connections", "1", more: try file.write(in: rig.simulator.folder))
            try await rig.finished("modest", within: .seconds(180))
            // By then most of the other's is still to come.
            let done = try rig.database.number(
                "SELECT sum(accepted_count) FROM notification_progress WHERE app = 'greedy'")
            #expect(done < 15_000, "\(done)")
            await worker.kill()
        }
    }

    @Test("those with one key share its provider token and its connections")
    func shared() async throws {
        try await Rig.run(simulator: ["--bundle-id", "com.example.pgpush", "--bundle-id", "com.example.other"]) { rig in
            var file = AppsFile()
            let apps = (1...6).map { "app\($0)" }
            for (number, app) in apps.enumerated() {
                let bundle = number % 2 == 0 ? "com.example.pgpush" : "com.example.other"
                file.add(app, at: rig.simulator, ["bundle_id": bundle])
                try rig.addDevices(of: app, 200, offset: number * 1000)
                try rig.addSingles(of: app, 200)
            }
            let drain = try rig.worker(
                "--once", "--lanes", "2", "--connections", "2", more: try file.write(in: rig.simulator.folder))
            #expect(try await drain.exitCode(within: .seconds(180)) == 0)
            let journal = try rig.simulator.journal()
            #expect(journal.accepted.count == 1200 && journal.requests.count == 1200)
            #expect(Set(journal.requests.compactMap(\.authorization)).count == 1)
            #expect(journal.connections.count { $0.event == "opened" } <= 2)
            let topics = Dictionary(grouping: journal.requests) { $0.headers["apns-topic"] ?? "" }
            #expect(topics.mapValues(\.count) == ["com.example.pgpush": 600, "com.example.other": 600])
            #expect(try rig.column("SELECT DISTINCT status FROM scheduled_notifications") == ["sent"])
        }
    }

    @Test("each has a lateness of its own")
    func lateness() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            var file = AppsFile()
            file.add("quick", at: rig.simulator, ["max_lateness": "10m"])
            file.add("default", at: rig.simulator, ["max_lateness": "3d"])
            let variables = try file.write(in: rig.simulator.folder)
            try rig.addDevices(of: "quick", 2, offset: 0)
            try rig.addDevices(of: "default", 1, offset: 100)
            func insert(_ app: String, _ user: Int, late: String) throws -> Int {
                try rig.insert(
                    "app, user_id, body, scheduled_at", "'\(app)', '\(app)-\(user)', 'x', now() - interval '\(late)'")
            }
            let late = try insert("quick", 1, late: "11 min")
            let old = try insert("default", 1, late: "2 days")
            let due = try insert("quick", 2, late: "1 min")
            try await rig.simulator.set("answer-all", "503:ServiceUnavailable")
            func drain() async throws {
                let drain = try rig.worker("--once", more: variables)
                #expect(try await drain.exitCode(within: .seconds(180)) == 0)
            }
            try await drain()
            #expect(try rig.row(late) == NotificationRow("expired", error: "later than the app's max_lateness"))
            #expect(try rig.value("status", of: due) == "sending")

            // Once more soon; then it would be a quarter of an hour later, which is too late for the one and not for the other.
            try rig.makeRetriesDue()
            try await drain()
            #expect(try rig.row(due) == NotificationRow("failed", 1, rejected: 1, error: "ServiceUnavailable"))
            #expect(try rig.value("status", of: old) == "sending")
            #expect(
                try rig.psql(
                    """
                    SELECT notification_id, attempt, is_final FROM delivery_failures ORDER BY 1, 2
                    """) == [
                        ["\(old)", "1", "f"], ["\(old)", "2", "f"], ["\(due)", "1", "f"], ["\(due)", "2", "t"],
                    ])
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM notification_batches WHERE state = 'ready' AND attempts = 3 AND not_before > now() + interval '14 min'"
                ) == 1)
        }
    }
}
