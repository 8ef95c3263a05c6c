// Metrics against the judges: the simulator's journal and the tables must say the same.

import Foundation
import TestSupport
import Testing

@Suite("The metrics of a worker") struct MetricsAgree {
    /// Tokens that choose answers of every kind; each ends by itself.
    private static let answers = ["0400", "0410", "1410", "0413", "0429", "0500", "0503", "1400", "2400", "00dd"]

    private func token(_ answer: String, _ number: Int) -> String {
        "5ca1ab1e\(answer)" + String(repeating: "0", count: 50) + (number < 10 ? "0\(number)" : "\(number)")
    }

    @Test("say what the journal and the tables say, over several lanes, singles, lists, broadcasts and retries")
    func agree() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...300)
            try rig.psql("UPDATE devices SET environment = 'sandbox' WHERE id % 3 = 0")
            for (number, answer) in Self.answers.enumerated() {
                let environment = number.isMultiple(of: 2) ? "production" : "sandbox"
                try rig.psql(
                    """
                    INSERT INTO devices (user_id, device_token, environment)
                    VALUES ('user-\(number + 1)', '\(token(answer, number))', '\(environment)')
                    """)
            }
            let (worker, pages) = try await Pages.worker(
                rig, "--lanes", "2", "--connections", "2", "--poll-interval", "1")
            try rig.insert("broadcast, body", "true, 'x'")
            try rig.psql(
                "INSERT INTO scheduled_notifications (user_id, body) SELECT 'user-' || i, 'x' FROM generate_series(1, 60) i"
            )
            try rig.insert("user_ids, body", "ARRAY['user-5', 'user-6', 'user-70'], 'x'")
            try rig.insert("user_id, body", "'nobody', 'x'")
            // Retries wait for minutes; the test does not.
            try await rig.eventually(
                """
                WITH sooner AS (UPDATE notification_batches SET not_before = now() WHERE state = 'ready' AND not_before > now())
                SELECT count(*) FROM scheduled_notifications WHERE finished_at IS NULL
                """, is: "0", within: .seconds(180))

            // The judges have nothing more to say; what lanes publish comes within about a second.
            let accepted = Double(
                try rig.database.number("SELECT sum(accepted_count) FROM scheduled_notifications"))
            let ledger = try ledger(rig)
            let journal = try rig.simulator.journal()
            let refused = journal.requests.count { ($0.status ?? 200) != 200 }
            let units = try rig.database.number(Self.unitsWithAcceptance)
            let scrape = try await pages.eventually { scrape in
                scrape.sum("pgpush_pushes_total") == accepted + ledger.values.reduce(0, +)
                    && scrape["pgpush_delivery_lag_seconds_count{app=\"default\"}"] == Double(units)
                    && scrape["pgpush_wire_results_total{result=\"accepted\"}"] == accepted
                    && scrape["pgpush_wire_results_total{result=\"not_accepted\"}"] == Double(refused)
                    && scrape["pgpush_devices_in_work"] == 0 && scrape["pgpush_leases"] == 0
                    && scrape["pgpush_queue_due_notifications{app=\"default\"}"] == 0
            }
            for environment in ["production", "sandbox"] {
                let said = scrape.sum(
                    "pgpush_pushes_total", "outcome=\"accepted\"", "environment=\"\(environment)\"", "app=\"default\"")
                #expect(said == Double(journal.accepted.count { $0.environment == environment }))
            }
            #expect(ledger.count >= 6)
            for (series, count) in ledger { #expect(scrape[series] == count, "\(series)\n\(scrape.text)") }
            #expect(
                scrape.sum("pgpush_pushes_total", "outcome=\"rejected\"")
                    == Double(try rig.database.number("SELECT sum(rejected_count) FROM scheduled_notifications")))
            #expect(scrape["pgpush_delivery_lag_seconds_bucket{app=\"default\",le=\"+Inf\"}"] == Double(units))

            // Connections: what the simulator sees. Nothing is under way any more.
            try await pages.eventually { scrape in
                let counts = try simulatorConnections(rig)
                return scrape.sum("pgpush_gateway_connections", "state=\"open\"") == Double(counts)
                    && scrape.sum("pgpush_gateway_streams") == 0
            }
            #expect(scrape["pgpush_database_up"] == 1)
            #expect(try pages.get("/healthz") == (200, "ok\n"))
            #expect(try pages.get("/readyz") == (200, "ok\n"))
            try await worker.stop()
        }
    }

    private static let unitsWithAcceptance = """
        SELECT (SELECT count(*) FROM notification_batches WHERE accepted_count > 0)
             + (SELECT count(*) FROM scheduled_notifications n WHERE n.accepted_count
                  > (SELECT coalesce(sum(b.accepted_count), 0) FROM notification_batches b WHERE b.notification_id = n.id))
        """

    /// The rows of the ledger as series of the metrics.
    private func ledger(_ rig: Rig) throws -> [String: Double] {
        let rows = try rig.psql(
            """
            SELECT environment, coalesce(http_status::text, 'none'), reason,
                   CASE WHEN NOT is_final THEN 'retried' WHEN http_status IS NULL AND reason IN ('NoAnswer', 'ConnectionLost')
                        THEN 'unknown' ELSE 'rejected' END, count(*)
            FROM delivery_failures GROUP BY 1, 2, 3, 4
            """)
        let pairs = rows.map { row in
            let fields = row.map { $0 ?? "" }
            let series = """
                pgpush_pushes_total{app="default",environment="\(fields[0])",outcome="\(fields[3])",\
                status="\(fields[1])",reason="\(fields[2].hasPrefix("HTTP ") ? "none" : fields[2])"}
                """
            return (series, Double(fields[4]) ?? 0)
        }
        return Dictionary(pairs, uniquingKeysWith: +)
    }

    private func simulatorConnections(_ rig: Rig) throws -> Int {
        let events = try rig.simulator.journal().connections
        return events.count { $0.event == "opened" } - events.count { $0.event == "closed" }
    }

    @Test("are text that a parser of somebody else reads, whatever the apps are called")
    func parse() async throws {
        try await Rig.run(.idle) { rig in
            var file = AppsFile()
            file.add("shop \"quoted\" \\ näme", at: rig.simulator)
            file.add("news", at: rig.simulator)
            let (worker, pages) = try await Pages.worker(rig, more: try file.write(in: rig.simulator.folder))
            let scrape = try await pages.eventually { $0.sum("pgpush_queue_due_notifications") == 0 }
            let script = """
                import sys
                from prometheus_client.parser import text_string_to_metric_families
                for family in text_string_to_metric_families(sys.stdin.read()):
                    for sample in family.samples:
                        print(family.type, sample.name, sample.labels.get("app", ""))
                """
            let parsed = try Subprocess.require("/usr/bin/python3", ["-c", script], input: scrape.text)
            #expect(parsed.contains("gauge pgpush_queue_due_notifications shop \"quoted\" \\ näme\n"), "\(parsed)")
            #expect(parsed.contains("gauge pgpush_queue_due_notifications news\n"))
            #expect(!parsed.contains("unknown"), "\(parsed)")
            try await worker.stop()
        }
    }

    @Test("are those that deploy/README.md explains, and no others")
    func documented() async throws {
        try await Rig.run(.idle) { rig in
            let (worker, pages) = try await Pages.worker(rig)
            try rig.addDevices(1...1)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: id, is: "sent")
            let names = try await pages.eventually { $0.sum("pgpush_delivery_lag_seconds_count") == 1 }.names
            let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../deploy/README.md")
            let text = try String(contentsOf: file, encoding: .utf8)
            let rows = text.split(separator: "\n").compactMap { line in
                line.firstMatch(of: /^\| `((?:pgpush|process)_[a-z_]+)` \|/).map { String($0.output.1) }
            }
            #expect(names == Set(rows), "\(names.symmetricDifference(rows))")
            try await worker.stop()
        }
    }
}
