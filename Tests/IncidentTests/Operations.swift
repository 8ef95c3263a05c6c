// F33: a worker that is told to stop in the middle of its work.

import Foundation
import TestSupport
import Testing

@Suite("Stopping") struct Operations {
    /// 50 pushes at a time, each answered after 2 s; at most 400 rows are leased.
    private static let weather = ["--first-limit", "50", "--stream-limit", "50", "--latency-ms", "2000"]

    /// With `late`, what is on the wire is answered after 12 s only, so that it outlasts all that follows on a busy machine.
    private func startInTheMiddle(_ rig: Rig, grace: Int, late: Bool) async throws -> WorkerProcess {
        try rig.addDevices(1...1000)
        try rig.addSingles(1...1000)
        let worker = try rig.worker("--grace", "\(grace)", "--connections", "1", "--batch-size", "100")
        try await rig.simulator.wait(for: .accepted, atLeast: 50)
        try await rig.simulator.wait(for: .held, atLeast: 50)
        if late {
            try await rig.simulator.set("latency-ms", 12_000)
            try await rig.simulator.wait(for: .accepted, atLeast: 100)
            try await rig.simulator.wait(for: .held, atLeast: 50)
        }
        return worker
    }

    private func count(_ condition: String, _ rig: Rig) throws -> Int {
        try rig.database.number("SELECT count(*) FROM scheduled_notifications WHERE \(condition)")
    }

    @Test(
        "F33: by SIGTERM: nothing more is claimed or sent, what is on the wire ends within the grace time, the rest is given back",
        arguments: [10, 1])
    func stopped(grace: Int) async throws {
        try await Rig.run(simulator: Self.weather) { rig in
            let first = try await startInTheMiddle(rig, grace: grace, late: grace == 1)
            first.signal(SIGTERM)
            try await first.logs("stopping")
            let stopped = try rig.simulator.journal()
            let onTheWire = stopped.requests.count + stopped.held.count
            #expect(try await first.exitCode(within: .seconds(120)) == 0)

            // What was under way when the signal came, and not a wave more.
            let counts = try await rig.simulator.counts()
            #expect(counts.requests <= onTheWire + 50 && counts.requests < 1000)
            #expect(try count("lease_until IS NOT NULL", rig) == 0)
            #expect(try rig.database.number("SELECT count(*) FROM notification_batches WHERE state = 'leased'") == 0)
            let (sent, untouched) = (try count("status = 'sent'", rig), try count("status = 'pending'", rig))
            #expect(untouched == 1000 - counts.requests)
            // With ten seconds all are answered; with one, those on the wire are in doubt.
            let doubtful = counts.requests - sent
            #expect((grace == 10) == (doubtful == 0) && doubtful <= 50 && sent >= 50)

            // Another replica.
            try await rig.simulator.set("latency-ms", 0)
            try rig.psql("UPDATE notification_batches SET not_before = now() WHERE state = 'ready'")
            try await rig.drain()
            #expect(try count("status <> 'sent'", rig) == 0)
            try expectRepeats(rig, atMost: doubtful)
        }
    }

    @Test("F33: by a second SIGTERM: at once, and what it held is taken over when its lease ends")
    func forced() async throws {
        try await Rig.run(.idle, simulator: Self.weather) { rig in
            let first = try await startInTheMiddle(rig, grace: 30, late: true)
            let claimed = try count("epoch > 0", rig)
            first.signal(SIGTERM)
            try await first.logs("stopping")
            first.signal(SIGTERM)
            #expect(try await first.exitCode() == 130)
            let sent = try count("status = 'sent'", rig)
            let touched = try await rig.simulator.counts().requests
            #expect(try count("lease_until > now() + interval '76 s'", rig) == 0)
            // Their time passes.
            try rig.psql(
                "UPDATE scheduled_notifications SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL"
            )
            try await rig.simulator.set("latency-ms", 0)
            let second = try rig.worker("--poll-interval", "1")
            // Whoever takes over must have had its connection for half a minute; then any new row wakes it.
            try await rig.eventually(
                "SELECT bool_or(started_at < now() - interval '31 s') FROM pgpush_workers WHERE pid = \(second.pid)",
                is: "t")
            try rig.addSingles(1...1)
            try await rig.allSinglesSent(1001, within: .seconds(240))
            try await second.stop()
            #expect(claimed > sent && touched >= sent)
            try expectRepeats(rig, atMost: touched - sent)
        }
    }

    /// Everybody was reached; so many at most were sent to twice, under the same id.
    private func expectRepeats(_ rig: Rig, atMost limit: Int) throws {
        let journal = try rig.simulator.journal()
        let expected = try rig.column(
            "SELECT apns_id(n.id, d.id) FROM scheduled_notifications n JOIN devices d USING (user_id)")
        let seen = journal.requests.compactMap(\.apnsId)
        #expect(Difference(expected: expected, seen: Array(Set(seen))) == .none)
        #expect(seen.count - expected.count <= limit)
        #expect(Set(journal.accepted.compactMap(\.apnsId)).count == expected.count)
    }
}
