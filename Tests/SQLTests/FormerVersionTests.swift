// Workers of the former version go on working with this schema: replicas are upgraded one by one.

import Foundation
import TestSupport
import Testing

@Suite struct FormerVersionTests {
    let database: TestDatabase
    let worker: QueueWorker

    init() throws {
        database = try .make()
        worker = QueueWorker(database)
        try database.addDevices(4)
    }

    /// settle as version 3 had it: so many arguments, by position.
    private func settle(_ unit: Unit, arguments: Int) throws -> String? {
        let all = [
            "'\(worker.owner)'", "'{\(unit.notification)}'", "'{\(unit.batch)}'", "'{\(unit.epoch)}'", "'{t}'",
            "'{null}'", "'{0}'", "'{1}'",
            "'{0}'", "'{0}'", "'{Unregistered}'", "'{1}'", "'{1}'", "'{ab12cd34}'", "'{production}'", "'{410}'",
            "'{Unregistered}'", "'{t}'",
            "'{0}'", "'{1}'", "'{1}'", "'{Unregistered}'", "ARRAY[now() + interval '1 s']", "'{0}'", "'{}'", "'{}'",
            "'{}'", "'{}'", "'{}'",
            "'{}'", "'{}'", "'{}'", "'{default}'", "'{sandbox}'", "'{null}'", "'{BadEnvironmentKeyInToken}'",
        ]
        #expect(all.count == 36)
        let call = all.prefix(arguments).joined(separator: ", ")
        return try worker.session.run("SELECT result || ' ' || status FROM settle(\(call))")[0][0]
    }

    @Test func settleByPosition() throws {
        for _ in 1...3 { try database.notify() }
        let units = try worker.claim()
        #expect(try settle(units[0], arguments: 11) == "applied failed")
        #expect(try settle(units[1], arguments: 19) == "applied failed")
        #expect(try settle(units[2], arguments: 36) == "applied failed")
        #expect(try settle(units[2], arguments: 36) == "already failed")
        #expect(try database.number("SELECT count(*) FROM delivery_failures") == 2)
        #expect(try database.psql("SELECT id FROM devices WHERE NOT is_active") == [["1"]])
        #expect(
            try database.psql("SELECT environment, reason, needed FROM app_pauses") == [
                ["sandbox", "BadEnvironmentKeyInToken", "1"]
            ])
    }

    @Test func settleByPositionWithTypes() throws {
        // As libpq sends it: placeholders whose types the server finds out.
        try database.notify()
        let unit = try worker.claim()[0]
        let places = (1...36).map { "$\($0)" }.joined(separator: ", ")
        try worker.session.run("PREPARE former AS SELECT * FROM settle(\(places))")
        let types = try worker.session.run(
            "SELECT unnest(parameter_types) FROM pg_prepared_statements WHERE name = 'former'")
        #expect(types.count == 36)
        #expect(types[1] == ["bigint[]"])
        #expect(types[35] == ["text[]"])
        #expect(try settle(unit, arguments: 36) == "applied failed")
    }

    @Test func heartbeatByPosition() throws {
        for call in ["'h', 1, 'v', 1, '{default}'", "'h', 1, 'v', 1, '{default}', 5, 6, 7"] {
            #expect(try worker.session.run("SELECT heartbeat('\(worker.owner)', \(call)) IS NOT NULL") == [["t"]])
        }
        #expect(
            try database.psql("SELECT in_flight, accepted_count, rejected_count, owners FROM pgpush_workers") == [
                ["5", "6", "7", nil]
            ])
    }

    @Test func aBadTokenThatIsOnlyBookedRetiresNobody() throws {
        // The former version has no proposals: its refusals open no window, and its probes end no storm alone.
        let id = try database.notify()
        var outcome = Outcome(unit: try worker.claim()[0], rejected: 1)
        outcome.failures = [.init(device: 1, status: 400, reason: "BadDeviceToken")]
        try worker.settle(outcome)
        #expect(try database.status(id) == "failed")
        #expect(try database.number("SELECT count(*) FROM token_windows") == 0)
        try database.psql("SELECT pgpush_pause('{default}', '{production}', '{com.example.app}', '{BadDeviceToken}')")
        let ends = try (1...3).map { _ in
            try worker.session.run("SELECT end_pause('default', 'production', 'com.example.app')")[0][0]
        }
        #expect(ends == ["f", "f", "t"])
    }

    @Test func noNameStandsForTwoFunctions() throws {
        // An overload left over from a former version would make calls ambiguous, or take the wrong one.
        let twice = try database.psql(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace GROUP BY 1 HAVING count(*) > 1")
        #expect(twice.isEmpty)
    }
}
