// kill −9 at named points. The product has no hooks for it: what a worker waits for is held back from outside (a lock, a proxy, an
// answer), and it is killed while it waits.

import Glibc
import TestSupport
import Testing

@Suite("Killed") struct NamedPoints {
    /// Where a worker is killed.
    enum Point: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case claimed = "after the claim, before the devices are read"
        case onTheWire = "with requests on the wire"
        case answered = "answered, before the settle"
        case settling = "in the settle, which goes on without it"
        case committed = "with the settle committed, before it knows"
        case settled = "after the settle, before finalise"
        var testDescription: String { rawValue }

        /// Whether Apple had answered by then.
        var isAnswered: Bool { ![.claimed, .onTheWire].contains(self) }
    }

    /// Active ones; three more are not.
    private static let devices = 150

    @Test("another worker finishes it", arguments: Point.allCases)
    func killed(at point: Point) async throws {
        try await Field.run(replicas: 2, options: ["--batch-size", "100"]) {
            field in
            var random = SeededGenerator(seed: 1)
            let workload = Workload(&random, devices: Self.devices + 3, length: .zero, isPlain: true)
            try field.register(workload)
            do { try await hold(at: point, field) } catch {
                throw SimulatorFailure(description: "\(error)\n\(field.logs)")
            }
            // What it had sent to the server is carried out, or not, before anything else happens.
            try await field.rig.eventually(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgpush%'", is: "0",
                within: .seconds(60))
            let booked = try field.booked()
            // Its leases have run out long ago.
            try await field.insist(
                """
                UPDATE scheduled_notifications SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL;
                UPDATE notification_batches SET lease_until = now() - interval '1 minute' WHERE lease_until IS NOT NULL
                """)
            try field.replicas[1].start()
            try await field.replicas[1].worker?.hasStarted(within: .seconds(60))
            try await field.rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE status <> 'sent'", is: "0", within: .seconds(200))
            try await field.replicas[1].stop()
            let violations = try field.judge()
            #expect(violations.map(\.description) == [], "\(field.logs)")
            // Exactly what was answered and not booked goes again.
            let counts = try await field.rig.simulator.counts()
            #expect(counts.distinctAccepted == Self.devices)
            #expect(counts.repeatedAccepted == (point.isAnswered ? Self.devices - booked : 0))
            let range =
                point == .settled
                ? Self.devices...Self.devices : [.settling, .committed].contains(point) ? 1...Self.devices : 0...0
            #expect(range.contains(booked), "\(booked) were booked")
        }
    }

    /// Starts the first replica, brings it to the point, and kills it there.
    private func hold(at point: Point, _ field: Field) async throws {
        let (first, simulator) = (field.replicas[0], field.rig.simulator)
        let locker = field.rig.database.openSession()
        defer { locker.close() }
        try await warmUp(field)
        if point == .claimed {
            try locker.run("BEGIN; LOCK TABLE devices IN ACCESS EXCLUSIVE MODE")
        }
        // Everything is on the wire before anything is answered.
        try await simulator.set("latency-ms", 600_000)
        let id = try point == .settled ? field.broadcast() : field.singles(Self.devices)
        if point == .claimed {
            try await field.rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE lease_until IS NOT NULL", is: "\(Self.devices)")
            try await field.waits(for: "expand")
            await field.strikeDown(first)
            try await simulator.control("calm")
            return
        }
        try await simulator.wait(for: .held, atLeast: Self.devices)
        switch point {
        case .claimed, .onTheWire: break
        case .answered: first.database.freeze()
        case .settling: try locker.run("BEGIN; SELECT FROM scheduled_notifications FOR UPDATE")
        case .committed: first.database.set(TCPProxy.Trap(on: "settle", .holdAnswer))
        case .settled:
            try locker.run("BEGIN; SELECT FROM scheduled_notifications WHERE id = \(id) FOR NO KEY UPDATE")
        }
        if point != .onTheWire {
            try await simulator.control("answer-held")
            try await simulator.wait(for: .accepted, atLeast: Self.devices)
        }
        switch point {
        case .claimed, .onTheWire, .answered: break
        case .settling: try await field.waits(for: "settle")
        case .committed:
            try await field.until("the settle is sent") { first.database.sprung > 0 }
            try await field.until("the settle is committed") { try field.booked() > 0 }
        case .settled:
            try await field.rig.eventually(
                "SELECT count(*) FROM notification_batches WHERE state = 'done'", is: "2", within: .seconds(60))
            try await field.waits(for: "finalise")
        }
        await field.strikeDown(first)
        // What the proxy holds of it is gone with it.
        first.database.reset()
        // The server would carry it out for the dead worker as soon as it may.
        if point == .settled { try field.endSessions() }
        try await simulator.control("calm")
    }

    /// Starts the first replica and lets it send something to both environments: a new connection carries one request at a time.
    private func warmUp(_ field: Field) async throws {
        try field.replicas[0].start()
        try field.rig.psql(
            "INSERT INTO scheduled_notifications (user_ids, body) SELECT array_agg(user_id), 'first' FROM devices WHERE id IN (9, 10)"
        )
        try await field.rig.eventually("SELECT status FROM scheduled_notifications", is: "sent", within: .seconds(60))
        try await field.rig.simulator.control("forget")
    }
}

extension Field {
    /// Notifications to so many users; returns the id of one.
    fileprivate func singles(_ count: Int) throws -> Int {
        try rig.database.number(
            """
            INSERT INTO scheduled_notifications (user_id, body)
            SELECT 'user-' || i, 'x' || i FROM generate_series(1, \(count)) i RETURNING id
            """)
    }

    /// One notification for all; returns its id.
    func broadcast() throws -> Int { try rig.insert("broadcast, body", "true, 'x'") }

    /// How many acceptances are written down, the first two aside.
    fileprivate func booked() throws -> Int {
        try rig.database.number(
            """
            SELECT (SELECT coalesce(sum(accepted_count), 0) FROM scheduled_notifications WHERE NOT broadcast AND body <> 'first')
                + (SELECT coalesce(sum(accepted_count), 0) FROM notification_batches)
            """)
    }

    /// Waits until a worker's statement that names a function waits for a lock.
    fileprivate func waits(for function: String) async throws {
        try await rig.eventually(
            """
            SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name LIKE 'pgpush%' AND wait_event_type = 'Lock'
                AND query LIKE '%\(function)%'
            """, is: "t", within: .seconds(60))
    }

    /// Kills a replica and writes that down.
    func strikeDown(_ replica: Replica) async {
        let from = Clock.now
        await replica.kill()
        crashed(.killed, from: from)
    }

    /// Waits until something is so.
    func until(_ what: String, within limit: Duration = .seconds(60), _ condition: () async throws -> Bool) async throws
    {
        let deadline = ContinuousClock.now + limit
        while try await !condition() {
            guard ContinuousClock.now < deadline else {
                throw SimulatorFailure(description: "not within \(limit): \(what)\n\(logs)")
            }
            try await pass(.milliseconds(20))
        }
    }
}
