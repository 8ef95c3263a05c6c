// A gateway that fails is left alone and found again; one that says goodbye, or why it refuses us, is understood.

import Foundation
import TestSupport
import Testing

@Suite("A gateway") struct Breakers {
    @Test(
        "that fails costs few pushes a try, is asked by one push at a time, and everything goes out when it works again"
    )
    func outage() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...2000)
            try await rig.simulator.set("answer-all", "500:InternalServerError")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--lanes", "1", "--connections", "1")
            try await worker.logs("a gateway fails; nothing is sent to it for a while")
            // What was claimed goes back.
            try await rig.eventually(
                "SELECT count(*) FROM notification_batches WHERE state = 'leased'", is: "0")
            let tries = try await rig.simulator.counts().requests
            #expect((20...40).contains(tries), "\(tries)")

            // After 15 to 19 s one push, which fails.
            try await rig.simulator.wait(for: .requests, atLeast: tries + 1)
            try await rig.eventually(
                "SELECT count(*) FROM notification_batches WHERE state = 'leased'", is: "0")
            #expect(try await rig.simulator.counts().requests == tries + 1)
            try await rig.simulator.control("calm")
            try await worker.logs("a gateway works again; sending goes on", within: .seconds(180))
            try await rig.simulator.wait(for: .accepted, atLeast: 2000 - tries - 1)
            #expect(worker.log.components("a gateway fails") == 1)
            #expect(worker.log.components("a gateway works again") == 1)
            try await worker.stop()

            try rig.psql("UPDATE notification_batches SET not_before = now() WHERE state = 'ready'")
            try await rig.drain()
            #expect(try rig.row(all) == NotificationRow("sent", 2000, accepted: 2000))
            let counts = try await rig.simulator.counts()
            #expect(counts.accepted == 2000 && counts.repeatedAccepted == 0)
            // Nobody was charged but those that were tried.
            #expect(
                try rig.database.number("SELECT count(*) FROM delivery_failures WHERE NOT is_final") == tries + 1)
        }
    }

    @Test("of the sandbox that fails holds up production for nobody")
    func sandboxOnly() async throws {
        try await Rig.run { rig in
            // With the same authority and key as the first.
            try await SimulatorProcess.run(["--ca-dir", "\(rig.simulator.folder)/credentials"]) { other in
                try rig.addDevices(1...1000)
                try rig.psql("UPDATE devices SET environment = 'sandbox' WHERE id % 2 = 0")
                try await other.set("answer-all", "503:ServiceUnavailable")
                let all = try rig.insert("broadcast, body", "true, 'x'")
                let worker = try rig.worker(
                    "--lanes", "1", "--connections", "1", more: ["APNS_SANDBOX_URL": other.sandboxURL])
                try await worker.logs("a gateway fails")
                try await rig.simulator.wait(for: .accepted, atLeast: 500)
                let one = try rig.insert("user_id, body", "'user-7', 'x'")
                try await rig.status(of: one, is: "sent")
                #expect(try rig.value("status", of: all) == "sending")
                try await worker.stop()
            }
        }
    }

    @Test("that answers 5xx once gets the early try over another connection")
    func otherConnection() async throws {
        try await Rig.run { rig in
            let tokens = ["0500", "0503"].map { DeviceTokens.magic($0) }
            let worker = try rig.worker("--lanes", "1", "--connections", "1")
            try await rig.listeners(1)
            for (number, token) in tokens.enumerated() {
                try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('user-\(number)', '\(token)')")
                let id = try rig.insert("user_id, body", "'user-\(number)', 'x'")
                // It comes by itself, five to thirty seconds later.
                try await rig.status(of: id, is: "sent")
                let tries = try rig.simulator.journal().requests(for: token)
                #expect(tries.map(\.status) == [number == 0 ? 500 : 503, 200])
                #expect(Set(tries.map(\.connection)).count == 2 && Set(tries.map(\.apnsId)).count == 1)
                let wait = Double(tries[1].received - tries[0].mono) / 1e9
                #expect(wait > 4.9, "\(wait) s")
            }
            try await worker.stop()
        }
    }

    @Test("that asks for time gets it: Retry-After lengthens the wait, at most to an hour")
    func retryAfter() async throws {
        try await Rig.run(simulator: ["--retry-after-s", "1200"]) { rig in
            func waits() throws -> (least: Int, most: Int) {
                let row = try rig.psql(
                    """
                    SELECT floor(min(extract(epoch FROM not_before - now())))::int, ceil(max(extract(epoch FROM not_before - now())))::int
                    FROM notification_batches WHERE state = 'ready'
                    """)[0]
                return (Int(row[0] ?? "") ?? 0, Int(row[1] ?? "") ?? 0)
            }
            for (number, choice) in ["0429", "0503"].enumerated() {
                try rig.psql(
                    "INSERT INTO devices (user_id, device_token) VALUES ('user-\(number)', '\(DeviceTokens.magic(choice))')"
                )
                _ = try rig.insert("user_id, body", "'user-\(number)', 'x'")
            }
            try await rig.drain()
            let asked = try waits()
            #expect(asked.least > 1100 && asked.most <= 1235, "\(asked)")

            try await rig.simulator.control("forget")
            try await rig.simulator.set("retry-after-s", 1_000_000)
            try rig.psql("UPDATE notification_batches SET not_before = now() WHERE state = 'ready'")
            try await rig.drain()
            let bounded = try waits()
            #expect(bounded.least > 3500 && bounded.most <= 3635, "\(bounded)")
        }
    }

    @Test("that ends each connection for a reason of the credential's holds the scope, as the answer would")
    func farewell() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...200)
            try await rig.simulator.set("goaway-reason", "BadCertificateEnvironment")
            try await rig.simulator.set("goaway-after", 1)
            try await rig.simulator.set("goaway-last", "zero")
            // It says so before it has answered anything.
            try await rig.simulator.set("latency-ms", 300)
            let one = try rig.insert("user_id, body", "'user-1', 'x'")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let drained = try await rig.drain()
            #expect(
                try rig.psql("SELECT app, environment, topic, reason, automatic FROM app_pauses")
                    == [["default", "production", nil, "BadCertificateEnvironment", "t"]])
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)
            for id in [one, all] { #expect(try rig.value("status", of: id) == "sending", "\(drained.log)") }
            let tries = try await rig.simulator.counts().requests
            #expect(tries < 20, "\(tries)")

            // A probe hears the same and waits on with the others.
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.drain()
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 1)
            #expect(
                try rig.column("SELECT DISTINCT state FROM notification_batches WHERE state <> 'done'") == ["parked"])

            try await rig.simulator.control("calm")
            try rig.psql("SELECT resume_app('default')")
            try await rig.drain()
            #expect(try rig.row(one) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(all) == NotificationRow("sent", 200, accepted: 200))
            let counts = try await rig.simulator.counts()
            #expect(counts.accepted == 201 && counts.repeatedAccepted == 1)
        }
    }

    @Test("that says goodbye in an orderly way has not failed")
    func goodbyes() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...300)
            try await rig.simulator.set("goaway-after", 5)
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--connections", "4")
            try await rig.status(of: all, is: "sent", within: .seconds(120))
            try await worker.stop()
            #expect(!worker.log.contains("a gateway fails"))
            #expect(try rig.row(all) == NotificationRow("sent", 300, accepted: 300))
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)
            #expect(try await rig.simulator.counts().repeatedAccepted == 0)
        }
    }
}

extension String {
    /// How often a part occurs.
    fileprivate func components(_ part: String) -> Int { ranges(of: part).count }
}
