// Each verb of producers and operators on a migrated database: what it prints, as JSON too, and its exit code.

import Foundation
import TestSupport
import Testing

@Suite("pgpush verbs") struct CommandLineVerbs {
    private let database: TestDatabase
    private let pgpush: CommandLineRunner
    private let token = String(repeating: "ab", count: 32)

    init() throws { (database, pgpush) = try migratedDatabase() }

    // MARK: enqueue

    @Test func enqueuePrintsTheID() throws {
        let result = try pgpush.run("enqueue", "--user", "42", "--title", "Grüße", "--body", "日本 👩‍👩‍👧")
        #expect(result.status == 0)
        #expect(result.output == "1\n")
        #expect(result.errors.hasPrefix("notification 1 is pending, due "))
        #expect(
            try database.psql("SELECT user_id, title, body FROM scheduled_notifications") == [["42", "Grüße", "日本 👩‍👩‍👧"]])
        let object = try #require(try pgpush.objects("enqueue", "--user", "42", "--body", "x").first)
        #expect(object["id"] as? Int == 2)
        #expect(object["status"] as? String == "pending")
    }

    @Test func enqueueSetsEveryColumn() throws {
        try pgpush.output(
            "enqueue", "--app", "shop", "--user", "7", "--environment", "sandbox", "--title", "T", "--subtitle", "S",
            "--body", "B",
            "--badge", "0", "--sound", "ping.caf", "--category", "C", "--thread-id", "th", "--target-content-id", "tc",
            "--interruption-level", "time-sensitive", "--relevance-score", "0.5", "--data", "{\"k\":[1,null]}",
            "--aps", "{\"x\":{\"y\":2}}", "--push-type", "alert", "--priority", "5", "--topic", "com.example.other",
            "--collapse-id", "col", "--idempotency-key", "key", "--at", "2099-03-08T09:30:00+05:30",
            "--expires", "2099-03-09 00:00Z", "--no-store", "--mutable-content", "--content-available", "--at-most-once"
        )
        let row = try #require(
            try database.psql(
                """
                SELECT app, user_id, environment, title, subtitle, body, badge, sound, category, thread_id, target_content_id,
                       interruption_level, relevance_score, data, aps, push_type, priority, topic, collapse_id, idempotency_key,
                       scheduled_at AT TIME ZONE 'UTC', expires_at AT TIME ZONE 'UTC', store_if_offline, mutable_content,
                       content_available, delivery
                  FROM scheduled_notifications
                """
            ).first)
        #expect(
            row == [
                "shop", "7", "sandbox", "T", "S", "B", "0", "ping.caf", "C", "th", "tc", "time-sensitive", "0.5",
                "{\"k\": [1, null]}", "{\"x\": {\"y\": 2}}", "alert", "5", "com.example.other", "col", "key",
                "2099-03-08 04:00:00", "2099-03-09 00:00:00", "f", "t", "t", "at_most_once",
            ])
    }

    /// Nothing of an argument ever becomes SQL.
    @Test func valuesAreNotStatements() throws {
        let hostile = "'); DROP TABLE devices; --$1 \\ \"x\" {\"a\":1}"
        try pgpush.output("enqueue", "--user", hostile, "--body", hostile)
        #expect(try database.value("SELECT body FROM scheduled_notifications WHERE user_id = body") == hostile)
        #expect(try pgpush.objects("list", "--user", hostile).count == 1)
    }

    @Test func targets() throws {
        try pgpush.output("enqueue", "--user", "1", "--user", "2", "--body", "x")
        try pgpush.output("enqueue", "--device-token", "<ABCD 1234>", "--device-token", token, "--body", "x")
        try pgpush.output("enqueue", "--broadcast", "--body", "x")
        try pgpush.output(
            "enqueue", "--channel", "dHN0LXNyY2gtY2hubA==", "--push-type", "liveactivity", "--aps", Self.activity)
        #expect(
            try database.psql(
                "SELECT user_id, user_ids, device_tokens, broadcast, channel_id FROM scheduled_notifications ORDER BY id"
            )
                == [
                    [nil, "{1,2}", "{}", "f", nil], [nil, "{}", "{abcd1234,\(token)}", "f", nil],
                    [nil, "{}", "{}", "t", nil],
                    [nil, "{}", "{}", "f", "dHN0LXNyY2gtY2hubA=="],
                ])
        for words in [["--body", "x"], ["--user", "1", "--broadcast", "--body", "x"]] {
            let result = try Subprocess.run(
                CommandLineRunner.executable, ["enqueue"] + words, environment: pgpush.environment)
            #expect(result.status == 2)
            #expect(result.errors.contains("--device-token"))
        }
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 4)
    }

    private static let activity = #"{"event":"update","content-state":{"n":1}}"#

    @Test func jsonFromFiles() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x", "--data", "@-", input: #"{"from":"input"}"#)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID()).json")
        try Data(#"{"aps":{"alert":"raw"}}"#.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        try pgpush.output("enqueue", "--user", "1", "--raw-payload", "@\(file.path)")
        #expect(try database.value("SELECT data ->> 'from' FROM scheduled_notifications WHERE id = 1") == "input")
        #expect(
            try database.value("SELECT payload FROM scheduled_notifications WHERE id = 2")
                == #"{"aps":{"alert":"raw"}}"#)
        let missing = try pgpush.run("enqueue", "--user", "1", "--data", "@/nonexistent")
        #expect(missing.status == 1)
        #expect(missing.errors.contains("--data: cannot read /nonexistent"))
    }

    @Test func refusalsAreTold() throws {
        let long = String(repeating: "x", count: 70)
        let result = try pgpush.run("enqueue", "--user", "1", "--body", "x", "--collapse-id", long)
        #expect(result.status == 1)
        #expect(result.output.isEmpty)
        #expect(result.errors.contains("collapse_id") && result.errors.contains("SQLSTATE PN007"))
        #expect(result.errors.contains("\n  hint: "))
        let json = try pgpush.run("enqueue", "--user", "1", "--body", "x", "--data", "{broken")
        #expect(json.status == 1)
        #expect(json.errors.contains("SQLSTATE 22P02") && json.errors.contains("hint: --data"))
        let zone = try pgpush.run("enqueue", "--user", "1", "--body", "x", "--at", "2099-03-08 09:30 Mars/Olympus")
        #expect(zone.status == 1)
        #expect(zone.errors.lowercased().contains("mars/olympus"))
        #expect(try pgpush.run("enqueue", "--user", "1", "--badge", "-1").status == 2)
        #expect(try pgpush.run("enqueue", "--user", "1", "--body", "x", "--at", "tomorrow").status == 2)
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 0)
    }

    @Test func repeatedKeyGivesTheSameID() throws {
        let words = ["enqueue", "--user", "1", "--body", "x", "--idempotency-key", "k"]
        #expect(try pgpush.output(words[0], words[1], words[2], words[3], words[4], words[5], words[6]) == "1")
        #expect(try pgpush.output(words[0], words[1], words[2], words[3], words[4], words[5], words[6]) == "1")
        let other = try pgpush.run("enqueue", "--user", "1", "--body", "y", "--idempotency-key", "k")
        #expect(other.status == 1)
    }

    /// F29: the zone of the database session reads a time without one; the zone is shown, whatever this process's is.
    @Test func timesAndZones() throws {
        try database.psql("ALTER DATABASE \(database.name) SET timezone = 'America/New_York'")
        try database.psql("ALTER DATABASE \(database.name) SET datestyle = 'German, DMY'")
        let there = pgpush.with(["TZ": "Asia/Kolkata"])
        let result = try there.run("enqueue", "--user", "1", "--body", "x", "--at", "2099-07-08 12:00")
        #expect(
            result.errors.contains("2099-07-08 12:00:00-04, read in the database session's time zone America/New_York"))
        try there.output("enqueue", "--user", "1", "--body", "x", "--at", "2099-07-08T12:00Z")
        try there.output("enqueue", "--user", "1", "--body", "x", "--at", "2099-07-08 12:00 Asia/Tokyo")
        // The hour that is skipped and the hour that comes twice: PostgreSQL's reading decides.
        try there.output("enqueue", "--user", "1", "--body", "x", "--at", "2026-03-08 02:30")
        try there.output("enqueue", "--user", "1", "--body", "x", "--at", "2026-11-01 01:30")
        let rows = try database.psql(
            "SELECT scheduled_at AT TIME ZONE 'UTC', id FROM scheduled_notifications ORDER BY id")
        #expect(rows.count == 5)
        let utc = try database.psql(
            "SET datestyle = 'ISO'; SELECT scheduled_at AT TIME ZONE 'UTC' FROM scheduled_notifications ORDER BY id"
        ).map { $0[0] }
        #expect(
            utc.suffix(5) == [
                "2099-07-08 16:00:00", "2099-07-08 12:00:00", "2099-07-08 03:00:00", "2026-03-08 07:30:00",
                "2026-11-01 06:30:00",
            ])
        let shown = try there.output("list")
        #expect(shown.contains("2099-07-08 12:00:00-04") && shown.contains("2099-07-08 08:00:00-04"))
        let object = try #require(try there.objects("show", "1").first)
        #expect(object["scheduled_at"] as? String == "2099-07-08T12:00:00-04:00")
    }

    // MARK: cancel, reschedule, retry

    @Test func cancelAndRepeat() throws {
        for _ in 0..<3 { try pgpush.output("enqueue", "--user", "1", "--body", "x") }
        let first = try pgpush.run("cancel", "2", "1", "--actor", "ana")
        #expect(first.status == 0)
        #expect(first.output == "id  result\n 1  cancelled\n 2  cancelled\n")
        #expect(
            try database.psql("SELECT DISTINCT cancelled_by FROM scheduled_notifications WHERE status = 'cancelled'")
                == [["ana"]])
        let again = try pgpush.run("cancel", "1", "--json")
        #expect(again.status == 0)
        #expect(again.output == "{\"id\":1,\"result\":\"already_cancelled\"}\n")
        let unknown = try pgpush.run("cancel", "3", "99")
        #expect(unknown.status == 3)
        #expect(unknown.output.contains("99  not_found") && unknown.output.contains(" 3  cancelled"))
        #expect(try pgpush.run("cancel", "x").status == 2)
        #expect(try pgpush.run("cancel").status == 2)
    }

    @Test func reschedule() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x")
        let moved = try #require(try pgpush.objects("reschedule", "1", "2099-03-08T09:30:00Z").first)
        #expect(moved["result"] as? String == "rescheduled")
        #expect(
            try database.value("SELECT scheduled_at AT TIME ZONE 'UTC' FROM scheduled_notifications")
                == "2099-03-08 09:30:00")
        try pgpush.output("reschedule", "1", "+1h")
        #expect(
            try database.value(
                "SELECT scheduled_at BETWEEN now() + '59 min' AND now() + '61 min' FROM scheduled_notifications") == "t"
        )
        try pgpush.output("cancel", "1")
        let late = try pgpush.run("reschedule", "1", "now")
        #expect(late.status == 1)
        #expect(late.errors.contains("is cancelled"))
        #expect(try pgpush.run("reschedule", "99", "now").status == 3)
        #expect(try pgpush.run("reschedule", "1", "later").status == 2)
        #expect(try pgpush.run("reschedule", "1").status == 2)
    }

    @Test func retryOfNothing() throws {
        #expect(try pgpush.run("retry", "99").status == 3)
        try pgpush.output("enqueue", "--user", "1", "--body", "x")
        let pending = try pgpush.run("retry", "1", "--json")
        #expect(pending.status == 3)
        #expect(pending.output == "{\"id\":1,\"devices\":0}\n")
    }

    // MARK: list, show, why, stats

    @Test func listFiltersAndPages() throws {
        for number in 1...5 {
            try pgpush.output(
                "enqueue", "--user", "u\(number % 2)", "--body", "b\(number)", "--at", "2099-01-0\(number) 00:00Z")
        }
        try pgpush.output("cancel", "5")
        let page = try pgpush.run("list", "-n", "2")
        #expect(page.output.split(separator: "\n").map { $0.split(separator: " ")[0] } == ["id", "5", "4"])
        #expect(page.errors.contains("--below 4"))
        func ids(_ words: String...) throws -> [Int] {
            let result = try Subprocess.run(
                CommandLineRunner.executable, ["list", "--json"] + words, environment: pgpush.environment)
            return try CommandLineRunner.objects(result.output).compactMap { $0["id"] as? Int }
        }
        #expect(try ids("--below", "4", "-n", "2") == [3, 2])
        #expect(try ids("--status", "cancelled") == [5])
        #expect(try ids("-s", "pending", "-s", "cancelled") == [5, 4, 3, 2, 1])
        #expect(try ids("--user", "u0") == [4, 2])
        #expect(try ids("--due-from", "2099-01-02 00:00Z", "--due-until", "2099-01-04 00:00Z") == [3, 2])
        #expect(try ids("--app", "default").count == 5)
        let none = try pgpush.run("list", "--app", "other")
        #expect(none.status == 3)
        #expect(none.output.isEmpty && none.errors == "nothing matches\n")
        #expect(try pgpush.run("list", "--status", "sendin").errors.contains("did you mean 'sending'?"))
        #expect(try pgpush.run("list", "--limit", "0").status == 2)
    }

    @Test func showsContentAndState() throws {
        try pgpush.output("enqueue", "--user", "1", "--title", "\u{1B}[31mred", "--body", "x", "--badge", "3")
        let text = try pgpush.output("show", "1")
        #expect(text.contains("status") && text.contains("pending") && text.contains("\\u{1b}[31mred"))
        #expect(!text.contains("\u{1B}"))
        #expect(!text.contains("cancelled by"))
        let object = try #require(try pgpush.objects("show", "1").first)
        #expect(object["title"] as? String == "\u{1B}[31mred")
        #expect(object["badge"] as? Int == 3)
        #expect(object["target"] as? String == "user 1")
        #expect((object["payload"] as? String)?.contains("\"badge\":3") == true)
        #expect(try pgpush.run("show", "99").status == 3)
        #expect(try pgpush.run("show", "abc").status == 2)
    }

    @Test func why() throws {
        try pgpush.output("devices", "register", "--user", "1", "--token", token)
        try pgpush.output("enqueue", "--user", "1", "--body", "x", "--at", "+1h")
        let row = try #require(try pgpush.objects("why", "1", "--user", "1").first)
        #expect(row["outcome"] as? String == "waiting")
        #expect(row["device_id"] as? Int == 1)
        let other = try pgpush.run("why", "1", "--user", "2")
        #expect(other.status == 3)
        #expect(other.errors.contains("not addressed to a device of user 2"))
        #expect(try pgpush.run("why", "99").status == 3)
    }

    @Test func stats() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x")
        try pgpush.output("enqueue", "--user", "1", "--body", "x", "--app", "shop")
        let text = try pgpush.output("stats")
        for heading in ["Notifications", "Queue", "Workers", "Reasons of the last day"] {
            #expect(text.contains(heading))
        }
        let object = try #require(try pgpush.objects("stats").first)
        let queue = try #require(object["queue"] as? [[String: Any]])
        #expect(queue.map { $0["app"] as? String } == ["default", "shop"])
        #expect(queue.allSatisfy { $0["due"] as? Int == 1 })
        #expect((object["workers"] as? [Any])?.isEmpty == true)
        #expect((object["totals"] as? [[String: Any]])?.count == 2)
    }

    // MARK: devices, apps

    @Test func devices() throws {
        #expect(
            try pgpush.output(
                "devices", "register", "-u", "1", "-t", "<\(token.uppercased())>", "--app", "shop", "--environment",
                "sandbox",
                "--platform", "ipados", "--app-version", "1.2", "--os-version", "18.1", "--locale", "de_DE",
                "--time-zone",
                "Europe/Berlin") == "1")
        let row = try #require(try pgpush.objects("devices", "list").first)
        #expect(row["device_token"] as? String == token)
        #expect(row["environment"] as? String == "sandbox")
        #expect(row["time_zone"] as? String == "Europe/Berlin")
        // The same token under another user: the same device.
        #expect(try pgpush.output("devices", "register", "-u", "2", "-t", token, "--app", "shop") == "1")
        #expect(try pgpush.run("devices", "list", "--user", "1").status == 3)
        #expect(try pgpush.objects("devices", "list", "--user", "2", "--active", "--environment", "sandbox").count == 1)

        #expect(try pgpush.run("devices", "deactivate", "-u", "1", "-t", token, "--app", "shop").status == 3)
        try pgpush.output("devices", "deactivate", "-u", "2", "-t", token.uppercased(), "--app", "shop")
        #expect(try pgpush.run("devices", "deactivate", "-u", "2", "-t", token, "--app", "shop").status == 3)
        #expect(try pgpush.objects("devices", "list", "--inactive").count == 1)
        #expect(try pgpush.run("devices", "list", "--active").status == 3)

        for number in 2...4 {
            try pgpush.output("devices", "register", "-u", "9", "-t", "\(number)\(token.dropFirst())")
        }
        let page = try pgpush.run("devices", "list", "--user", "9", "-n", "2")
        #expect(page.errors.contains("--above 3"))
        #expect(try pgpush.objects("devices", "list", "--user", "9", "--above", "3").map { $0["id"] as? Int } == [4])

        let bad = try pgpush.run("devices", "register", "-u", "1", "-t", "{length = 32, bytes = 0x0011... aabb}")
        #expect(bad.status == 1)
        #expect(bad.errors.contains("SQLSTATE PN015") && bad.errors.contains("shortened"))
        #expect(try pgpush.run("devices", "register", "-u", "1").status == 2)
        #expect(try pgpush.run("devices").status == 2)
        #expect(try pgpush.run("devices", "regster").errors.contains("did you mean 'register'?"))
    }

    @Test func apps() throws {
        #expect(try pgpush.run("apps", "list").status == 3)
        try pgpush.output("devices", "register", "-u", "1", "-t", token, "--app", "shop")
        try pgpush.output("enqueue", "--user", "1", "--body", "x")
        #expect(try pgpush.objects("apps", "list").map { $0["app"] as? String } == ["default", "shop"])
        let paused = try pgpush.run("apps", "pause", "shop", "--reason", "bad release", "--json")
        #expect(paused.status == 0)
        #expect(paused.output == "{\"changed\":true}\n")
        #expect(
            try pgpush.run("apps", "pause", "shop", "--reason", "bad release", "--json").output
                == "{\"changed\":false}\n")
        let shop = try #require(try pgpush.objects("apps", "list").last)
        #expect(shop["state"] as? String == "paused: bad release")
        try pgpush.output("apps", "resume", "shop")
        #expect(try pgpush.run("apps", "resume", "shop").status == 3)
        try pgpush.output("apps", "pause", "shop", "--environment", "sandbox")
        #expect(try database.psql("SELECT environment FROM app_pauses") == [["sandbox"]])
        #expect(try pgpush.run("apps", "pause", "shop", "--environment", "staging").status == 2)
        #expect(try pgpush.run("apps", "pause").status == 2)
    }
}
