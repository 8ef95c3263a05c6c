// No label ever holds a token, a user or a notification: everything that a worker shows at any time is searched for them.

import Foundation
import TestSupport
import Testing

@Suite("Nobody is named in /metrics") struct MetricsPrivacy {
    private static let user = "anna.quokka@example.org"
    private static let topic = "com.example.secret-wombat"
    /// Numbers that no count reaches by chance.
    private static let notification = 713_425_867
    private static let device = 912_754_386

    @Test("whatever Apple, the database and people say")
    func search() async throws {
        try await Rig.run { rig in
            var confidential = Confidential()
            try confidential.add(credentialsOf: rig.simulator)
            for text in [Self.user, Self.topic, "wombat", "quokka", "71342586", "91275438"] {
                confidential.add(text, text)
            }
            let tokens = ["0400", "0410", "0500", "0429", "7400", "0404", "01cc", "03dd"].map { answer in
                "5ca1ab1e" + answer + (0..<52).map { _ in String(UInt8.random(in: 0..<16), radix: 16) }.joined()
            }
            for token in tokens { confidential.add("a device token", token) }
            try rig.psql(
                """
                ALTER TABLE scheduled_notifications ALTER COLUMN id RESTART WITH \(Self.notification);
                ALTER TABLE devices ALTER COLUMN id RESTART WITH \(Self.device);
                """)
            for token in tokens {
                try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(Self.user)', '\(token)')")
            }
            let (worker, pages) = try await Pages.worker(rig, "--poll-interval", "1")
            var shown = ""
            func look() throws {
                for path in ["/metrics", "/readyz", "/healthz", "/\(Self.user)"] {
                    // The last is not there; nothing of what was asked is repeated.
                    shown += try pages.get(path).body
                }
            }
            for token in tokens { try rig.insert("device_tokens, body", "ARRAY['\(token)'], 'x'") }
            try rig.insert("broadcast, body", "true, 'x'")
            try rig.insert("user_id, body, topic", "'\(Self.user)', 'x', '\(Self.topic)'")
            try await pages.eventually { scrape in
                try look()
                return (scrape.sum("pgpush_pushes_total", "outcome=\"rejected\"") ?? 0) >= 2
            }
            // An answer with somebody's name for a reason, a farewell of the same kind, a credential and a topic that are refused.
            for (refusal, label) in [
                ("400:\(Self.user)", "other"), ("403:InvalidProviderToken", "InvalidProviderToken"),
                ("400:TopicDisallowed", "TopicDisallowed"),
            ] {
                try await rig.simulator.set("answer-all", refusal)
                try await rig.simulator.set("goaway-reason", Self.user)
                try await rig.simulator.control("goaway")
                try rig.insert("user_id, body, topic", "'\(Self.user)', 'x', '\(Self.topic)'")
                try await rig.eventually(
                    "SELECT count(*) > 0 FROM delivery_failures WHERE reason = '\(refusal.dropFirst(4))'", is: "t",
                    within: .seconds(90))
                try await pages.eventually { scrape in
                    try look()
                    let metric = label == "other" ? "pgpush_pushes_total" : "pgpush_paused_scopes"
                    return (scrape.sum(metric, "reason=\"\(label)\"") ?? 0) > 0
                }
                try rig.psql("SELECT resume_app('default')")
            }
            // A person's words, and a trigger's.
            try rig.psql("SELECT pause_app('default', 'sandbox', 'because of \(Self.user)')")
            try await rig.simulator.control("calm")
            try rig.psql(
                """
                CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'no %', NEW USING ERRCODE = 'AB123'; END $$;
                CREATE TRIGGER spy BEFORE UPDATE ON notification_batches FOR EACH ROW EXECUTE FUNCTION spy()
                """)
            try rig.insert("broadcast, body", "true, 'x'")
            try await pages.eventually { scrape in
                try look()
                return (scrape.sum("pgpush_database_errors_total", "sqlstate=\"AB123\"") ?? 0) > 0
                    && scrape.sum("pgpush_paused_scopes", "reason=\"Operator\"") == 1
            }
            #expect(confidential.found(in: shown).isEmpty, "\(confidential.found(in: shown))")
            #expect(shown.contains("pgpush_pushes_total{") && shown.contains("reason=\"other\""))
            await worker.kill()
        }
    }
}
