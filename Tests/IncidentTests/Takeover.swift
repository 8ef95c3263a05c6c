// F22: a worker that is killed leaves its claims behind, and the lease, not a person, ends them. The real times are waited for.

import Foundation
import TestSupport
import Testing

@Suite("A killed worker's claims") struct Takeover {
    @Test(
        "F22: are taken over after the lease, by a worker with another identity as by one with the same; nothing is repeated that was booked",
        arguments: [false, true])
    func takenOver(hasSameIdentity: Bool) async throws {
        try await Rig.run(.idle, simulator: ["--stream-limit", "5", "--latency-ms", "500"]) { rig in
            try rig.addDevices(0...100)
            try rig.addSingles(1...100)
            // Each is process 1 of this machine then: host and id are no identity.
            let wrapper = hasSameIdentity ? Namespace.command() : []
            let first = try rig.worker("--connections", "1", within: wrapper)
            try await rig.simulator.wait(for: .accepted, atLeast: 50)
            await first.kill()
            let booked = Set(try rig.column("SELECT user_id FROM scheduled_notifications WHERE status = 'sent'"))
            let early = try rig.simulator.journal()
            let arrived = Set((early.requests + early.held).compactMap(\.token))

            // Nobody takes what is under a lease, or was 15 s ago; a second less, since clocks are read at different moments.
            try rig.psql(
                """
                CREATE TABLE taken_early (id bigint);
                CREATE FUNCTION note_taken() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN INSERT INTO taken_early VALUES (NEW.id); RETURN NEW; END $$;
                CREATE TRIGGER note_taken BEFORE UPDATE ON scheduled_notifications FOR EACH ROW
                WHEN (NEW.epoch > OLD.epoch AND OLD.lease_until > now() - interval '14 s') EXECUTE FUNCTION note_taken()
                """)
            let second = try rig.worker("--poll-interval", "1", within: wrapper)
            try await rig.eventually("SELECT count(*) FROM pgpush_workers", is: "2")
            let identities = try rig.psql(
                "SELECT count(DISTINCT owner), count(DISTINCT (host, pid)) FROM pgpush_workers")
            #expect(identities == [["2", hasSameIdentity ? "1" : "2"]])
            // 75 s of lease, 15 s of patience; then anything that comes along wakes the second worker.
            try await rig.eventually(
                """
                SELECT count(*) FROM scheduled_notifications
                WHERE status = 'sending' AND epoch = 1 AND lease_until > now() - interval '15 s'
                """, is: "0", within: .seconds(240))
            try rig.addSingles(0...0)
            try await rig.allSinglesSent(101, within: .seconds(240))
            kill(hasSameIdentity ? try Namespace.first(of: second) : second.pid, SIGTERM)
            #expect(try await second.exitCode() == 0)

            #expect(try rig.column("SELECT id FROM taken_early").isEmpty)
            let journal = try rig.simulator.journal()
            #expect(Set(journal.acceptedTokens).count == 101)
            for user in 1...100 {
                let requests = journal.requests(for: DeviceTokens.plain(user))
                if requests.count > 1 {
                    // In doubt: written to the wire, and the answer not booked. The same push, to Apple and to the phone.
                    #expect(requests.count == 2 && arrived.contains(DeviceTokens.plain(user)))
                    #expect(!booked.contains("user-\(user)"), "user-\(user)")
                    #expect(Set(requests.map(\.apnsId)).count == 1)
                    #expect(Set(requests.map { $0.headers["apns-collapse-id"] }).count == 1)
                }
            }
            let states = "SELECT DISTINCT status, lease_until IS NULL, accepted_count FROM scheduled_notifications"
            #expect(try rig.psql(states) == [["sent", "t", "1"]])
        }
    }
}
