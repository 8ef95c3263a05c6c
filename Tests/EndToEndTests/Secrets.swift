// No key, password, provider token, device token, user or text of a notification gets into a log, however much is logged and
// whatever goes wrong. Everything that worker and verbs write is searched; that the search finds things is tested first.

import Foundation
import TestSupport
import Testing

@Suite("Nothing confidential is logged") struct Secrets {
    private static let password = "pw-0kapi.tapir~9f31c7"
    private static let user = "anna.quokka@example.org"
    private static let title = "Quokka title"
    private static let body = "Your biopsy-4711 is ready"
    private static let value = "narwhal-9931"
    private static let key = "idem-pangolin-4477"

    /// Device tokens with nothing in them that could be met by chance.
    private static let tokens: [String] = [
        "0400", "1400", "3400", "0410", "2410", "5410", "6410", "0413", "7400", "9400", "0404", "0429", "3429", "0500",
        "1503", "2503", "00bb", "02bb", "05bb", "00cc", "01cc", "02cc", "00dd", "02dd", "03dd", "05dd", "06dd", "07dd",
        "09dd", "00ee", "03ee", "ffff",
    ].map { choice in
        "5ca1ab1e" + choice + (0..<52).map { _ in String(UInt8.random(in: 0..<16), radix: 16) }.joined()
    }

    private func confidential(_ simulator: SimulatorProcess? = nil) throws -> Confidential {
        var confidential = Confidential()
        if let simulator { try confidential.add(credentialsOf: simulator) }
        confidential.add("the password", Self.password)
        confidential.add("a user", Self.user)
        confidential.add("a title", Self.title)
        confidential.add("a body", "biopsy-4711")
        confidential.add("data", Self.value)
        confidential.add("an idempotency key", Self.key)
        for token in Self.tokens { confidential.add("a device token", token) }
        return confidential
    }

    /// The environment of a rig with a password in its address and everything logged.
    private func loud(_ rig: Rig, _ format: String) -> [String: String] {
        var more = ["PGPUSH_LOG_LEVEL": "trace", "PGPUSH_LOG_FORMAT": format]
        for name in ["DATABASE_URL", "DATABASE_DIRECT_URL"] {
            more[name] = rig.environment[name]?.replacing("@", with: ":\(Self.password)@", maxReplacements: 1)
        }
        return more
    }

    @Test("the search finds what it looks for") func search() async throws {
        try await Rig.run { rig in
            let confidential = try confidential(rig.simulator)
            #expect(confidential.found(in: rig.environment.description).isEmpty)
            let path = try #require(rig.environment["APNS_KEY_PATH"])
            #expect(confidential.found(in: try String(contentsOfFile: path, encoding: .utf8)) == ["the key"])
            #expect(confidential.found(in: "token=\(Self.tokens[3].dropFirst(5).prefix(24))…") == ["a device token"])
            #expect(confidential.found(in: "token=\(Self.tokens[3].prefix(12))…").isEmpty)
            #expect(confidential.found(in: "authorization=\"bearer eyJhbGciOiJFUzI1NiJ9\"") == ["a provider token"])
            #expect(confidential.found(in: loud(rig, "text").description) == ["the password"])
        }
    }

    // MARK: The worker

    private func insertAll(_ rig: Rig) throws {
        let columns = "title, body, data"
        let values = "'\(Self.title)', '\(Self.body)', '{\"parcel\":\"\(Self.value)\"}'"
        try rig.insert("user_id, \(columns)", "'\(Self.user)', \(values)")
        for token in Self.tokens { try rig.insert("device_tokens, \(columns)", "ARRAY['\(token)'], \(values)") }
        try rig.insert(
            "broadcast, idempotency_key, \(columns)", "true, '\(Self.key)' || gen_random_uuid(), \(values)")
    }

    /// Drains and returns the log.
    private func drained(_ rig: Rig, _ more: [String: String]) async throws -> String {
        let worker = try rig.worker("--once", more: more)
        _ = try await worker.exitCode(within: .seconds(180))
        return worker.log
    }

    @Test("by a worker, whatever Apple answers", arguments: ["text", "json"])
    func answers(_ format: String) async throws {
        try await Rig.run { rig in
            let confidential = try confidential(rig.simulator)
            for token in Self.tokens {
                try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(Self.user)', '\(token)')")
            }
            try insertAll(rig)
            var log = try await drained(rig, loud(rig, format))
            #expect(log.contains("worker started") && log.contains("connection lost"))
            for refusal in ["403:InvalidProviderToken", "400:TopicDisallowed", "403:BadEnvironmentKeyInToken"] {
                try rig.psql("SELECT resume_app('default')")
                try await rig.simulator.set("answer-all", refusal)
                try insertAll(rig)
                log += try await drained(rig, loud(rig, format))
            }
            #expect(log.contains("sending is paused"))
            #expect(confidential.found(in: log).isEmpty, "\(log.suffix(4000))")
        }
    }

    /// Somebody's own triggers and constraints, which say what is in the row.
    private static let spies = [
        "a notice": "RAISE NOTICE 'look at %', to_json(NEW)",
        "an exception": "RAISE EXCEPTION 'do not like %', NEW USING DETAIL = NEW::text, HINT = NEW::text",
        "an exception with a code": "RAISE EXCEPTION '%', NEW USING ERRCODE = 'AB123'",
        "an exception with a code of PostgreSQL's": "RAISE EXCEPTION 'no % here', NEW USING ERRCODE = '55000'",
        "a cast": "PERFORM (NEW::text)::int",
    ]

    @Test("by a worker, whatever the database complains about", arguments: ["text", "json"])
    func complaints(_ format: String) async throws {
        try await Rig.run { rig in
            let confidential = try confidential(rig.simulator)
            for token in Self.tokens {
                try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(Self.user)', '\(token)')")
            }
            var log = ""
            for (what, statement) in Self.spies.sorted(by: { $0.key < $1.key }) {
                try spy(statement, rig)
                let part = try await drained(rig, loud(rig, format))
                #expect(
                    part.contains(what == "a notice" ? "the server says" : "could not be written"), "\(what): \(part)")
                #expect(confidential.found(in: part).isEmpty, "\(what): \(part.suffix(4000))")
                log += part
            }
            #expect(log.contains("raised by PL/pgSQL function spy() line 2 at RAISE"))

            // A statement that cannot be right is tried for ever: somebody has to repair it.
            try spy("EXECUTE 'SELECT ' || quote_ident(NEW::text) || ' FROM \"' || NEW::text || '\" nonsense'", rig)
            let worker = try rig.worker(more: loud(rig, format))
            try await worker.logs("results cannot be written until")
            try await worker.logs("42622")
            await worker.kill()
            #expect(confidential.found(in: worker.log).isEmpty, "\(worker.log.suffix(4000))")

            try rig.psql(
                """
                DROP FUNCTION spy CASCADE;
                ALTER TABLE delivery_failures ADD CONSTRAINT spying CHECK (device_token = reason) NOT VALID
                """)
            try rig.insert("broadcast, title, body", "true, '\(Self.title)', '\(Self.body)'")
            let part = try await drained(rig, loud(rig, format))
            #expect(part.contains("spying"), "\(part)")
            #expect(confidential.found(in: part).isEmpty, "\(part.suffix(4000))")
        }
    }

    /// Lets a statement look at every row of the ledger and at every device that is retired; something to settle follows.
    private func spy(_ statement: String, _ rig: Rig) throws {
        try rig.psql(
            """
            CREATE OR REPLACE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $spy$
            BEGIN \(statement); RETURN NEW; END $spy$;
            CREATE OR REPLACE TRIGGER spy BEFORE INSERT ON delivery_failures FOR EACH ROW EXECUTE FUNCTION spy();
            CREATE OR REPLACE TRIGGER spy BEFORE UPDATE ON devices FOR EACH ROW EXECUTE FUNCTION spy();
            UPDATE notification_batches SET not_before = now() WHERE state = 'ready';
            SELECT resume_app('default')
            """)
        try rig.insert("broadcast, title, body", "true, '\(Self.title)', '\(Self.body)'")
    }

    @Test(
        "by a worker, with rows that cannot be read or sent and sessions that are ended", arguments: ["text", "json"])
    func oddRows(_ format: String) async throws {
        try await Rig.run { rig in
            let confidential = try confidential(rig.simulator)
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(Self.user)', '\(Self.tokens[0])')")
            let ids = try (0..<3).map { _ in
                try rig.insert("user_id, title, body", "'\(Self.user)', '\(Self.title)', '\(Self.body)'")
            }
            try rig.psql(
                """
                ALTER TABLE scheduled_notifications DISABLE TRIGGER USER;
                DO $$ DECLARE c text; BEGIN
                    FOR c IN SELECT conname FROM pg_constraint
                             WHERE conrelid = 'scheduled_notifications'::regclass AND contype = 'c' LOOP
                        EXECUTE format('ALTER TABLE scheduled_notifications DROP CONSTRAINT %I', c);
                    END LOOP;
                END $$;
                UPDATE scheduled_notifications SET push_type = 'novel' WHERE id = \(ids[0]);
                UPDATE scheduled_notifications SET collapse_id = E'\(Self.value)\\n' WHERE id = \(ids[1]);
                ALTER TABLE scheduled_notifications ENABLE TRIGGER USER
                """)
            let worker = try rig.worker("--poll-interval", "1", more: loud(rig, format))
            try await worker.logs("cannot be read")
            try await worker.logs("cannot be sent")
            try rig.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pgpush%' AND pid <> pg_backend_pid()"
            )
            try await worker.logs("was lost")
            try await rig.simulator.control("abort")
            let last = try rig.insert("user_id, title, body", "'\(Self.user)', '\(Self.title)', '\(Self.body)'")
            try await rig.eventually(
                "SELECT status <> 'pending' FROM scheduled_notifications WHERE id = \(last)", is: "t")
            await worker.kill()
            #expect(confidential.found(in: worker.log).isEmpty, "\(worker.log.suffix(4000))")
        }
    }

    // MARK: Starts that fail

    @Test("by a worker that cannot start, with secrets in the right and in the wrong variables") func starts()
        async throws
    {
        try await Rig.run { rig in
            let confidential = try confidential(rig.simulator)
            let path = try #require(rig.environment["APNS_KEY_PATH"])
            let key = try String(contentsOfFile: path, encoding: .utf8)
            let line = key.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
            let port = rig.database.cluster.port
            let guarded = PostgresCluster.passwordUser
            let changes: [[String: String]] = [
                ["APNS_KEY_PATH": key], ["APNS_KEY_PATH": line],
                ["APNS_KEY_PATH": "", "APNS_KEY": String(key.dropLast(60))],
                ["APNS_KEY_PATH": "", "APNS_KEY": String(line.dropLast(20))], ["APNS_KEY_ID": key],
                ["APNS_KEY_ID": line],
                ["APNS_TEAM_ID": line], ["APNS_BUNDLE_ID": key], ["APNS_CA_PATH": key], ["APNS_CA_PATH": line],
                ["APNS_PRODUCTION_URL": "https://me:\(Self.password)@127.0.0.1:1"],
                ["APNS_PROXY_URL": "https://me:\(Self.password)@127.0.0.1:1"], ["APNS_CERT_PASSWORD": Self.password],
                ["DATABASE_URL": "postgresql://\(guarded):\(Self.password)@127.0.0.1:\(port)/postgres"],
                ["DATABASE_URL": "postgresql://\(guarded)@127.0.0.1:\(port)/postgres", "PGPASSWORD": Self.password],
                // What people forget to encode, or to quote.
                ["DATABASE_URL": "postgresql://u:a@b/\(Self.password)@127.0.0.1:\(port)/postgres"],
                ["DATABASE_URL": "postgresql://u:12/\(Self.password)@127.0.0.1:\(port)/postgres"],
                ["DATABASE_URL": "postgresql://u:x@\(Self.password)@127.0.0.1:\(port)/postgres"],
                ["DATABASE_URL": "postgresql://u:x:\(Self.password)"],
                ["DATABASE_URL": "host=127.0.0.1 password=a \(Self.password) dbname=x"],
                ["DATABASE_URL": "host=127.0.0.1 port=1 passwort=\(Self.password)"], ["DATABASE_URL": Self.password],
            ]
            for change in changes {
                for format in LogForm.allCases {
                    var environment = rig.environment.merging(change) { $1 }
                    environment["PGPUSH_LOG_LEVEL"] = "trace"
                    environment["PGPUSH_LOG_FORMAT"] = format.rawValue
                    let worker = try WorkerProcess(["--once"], environment: environment)
                    let code = try await worker.exitCode(within: .seconds(180))
                    #expect(code == 4, "\(change.keys): \(worker.log)")
                    #expect(confidential.found(in: worker.log).isEmpty, "\(change.keys): \(worker.log)")
                    let doctor = try Subprocess.run(
                        SimulatorProcess.executable("pgpush").path, ["doctor"], environment: environment)
                    #expect(doctor.status != 0)
                    let said = doctor.output + doctor.errors
                    #expect(confidential.found(in: said).isEmpty, "\(change.keys): \(said)")
                }
            }
        }
    }

    private enum LogForm: String, CaseIterable { case text, json }

    // MARK: Verbs

    @Test("by the verbs of producers and operators, successful or not") func verbs() async throws {
        try await Rig.run { rig in
            let confidential = try confidential(rig.simulator)
            let (token, other) = (Self.tokens[0], Self.tokens[1])
            let text = ["--title", Self.title, "--body", Self.body, "--data", "{\"parcel\":\"\(Self.value)\"}"]
            try rig.psql("ALTER TABLE scheduled_notifications ADD CONSTRAINT spying CHECK (subtitle <> 'never')")
            let quiet: [[String]] = [
                ["migrate", "--status"], ["migrate", "--roles"], ["doctor"],
                ["devices", "register", "--user", Self.user, "--token", token],
                ["devices", "register", "--user", Self.user, "--token", "<\(other.uppercased())>"],
                ["devices", "register", "--user", Self.user, "--token", "\(token)x"],
                ["devices", "register", "--user", Self.user, "--token", token, "--time-zone", "Nowhere"],
                ["enqueue", "--user", Self.user, "--idempotency-key", Self.key] + text,
                ["enqueue", "--user", Self.user, "--idempotency-key", Self.key, "--badge", "1"] + text,
                ["enqueue", "--user", Self.user, "--broadcast"] + text,
                ["enqueue", "--device-token", token, "--at", "+1h"] + text,
                ["enqueue", "--device-token", "\(token)g"] + text,
                ["enqueue", "--user", Self.user, "--subtitle", "never"] + text,
                ["enqueue", "--user", Self.user, "--data", "{\"parcel\":\"\(Self.value)\""],
                ["enqueue", "--user", Self.user, "--body", String(repeating: Self.body, count: 200)],
                ["enqueue", "--user", Self.user, "--priority", "7"] + text,
                ["reschedule", "1", "+2h"], ["cancel", "2"], ["cancel", "99"], ["retry", "1"], ["stats"],
                ["apps", "list"],
                ["apps", "pause", "default", "--reason", "maintenance"], ["apps", "resume", "default"],
                ["devices", "deactivate", "--user", Self.user, "--token", other],
            ]
            let telling = [
                ["show", "1"], ["list"], ["why", "1"], ["devices", "list"], ["show", "99"], ["why", "99"],
            ]
            for json in [[], ["--json"]] {
                for words in quiet + telling {
                    let format = json.isEmpty ? "text" : "json"
                    let result = try Subprocess.run(
                        SimulatorProcess.executable("pgpush").path, words + json,
                        environment: rig.environment.merging(loud(rig, format)) { $1 })
                    #expect(confidential.found(in: result.errors).isEmpty, "\(words): \(result.errors)")
                    let found = Set(confidential.found(in: result.output))
                    // Whoever asks for rows gets rows, but no credential.
                    let rows: Set = ["a user", "a title", "a body", "data", "an idempotency key", "a device token"]
                    let allowed = telling.contains(words) ? rows : []
                    #expect(found.isSubset(of: allowed), "\(words): \(result.output)")
                }
            }
        }
    }
}
