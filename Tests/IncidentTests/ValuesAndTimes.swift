// F28 to F30: values that one side of the database can hold and the other cannot, zones, and times without end. Under the same
// numbers SQLTests show what is stored and refused, and CommandLineVerbs how times are read and shown.

import Foundation
import TestSupport
import Testing

@Suite("Values and times") struct ValuesAndTimes {
    @Test("F28: a NUL or half a surrogate pair in JSON, and in Apple's reason, fail nobody else's row, nor any list")
    func oddEscapes() async throws {
        let raw = [#"{"aps":{"alert":"x"},"a":"\u0000"}"#, #"{"aps":{"alert":"x"},"a":"\ud83d"}"#]
        try await Rig.run { rig in
            try rig.addDevices(1...5)
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('nul', '\(DeviceTokens.magic("06dd"))')")
            for data in [#"{"a":"\u0000"}"#, #"{"a":"\ud83d"}"#] {
                let failure = #expect(throws: SQLFailure.self) {
                    try rig.insert("user_id, title, data", "'user-1', 'T', '\(data)'")
                }
                #expect(["22P05", "22P02"].contains(failure?.sqlState), "\(failure as Any)")
                let command = try rig.pgpush("enqueue", "--user", "user-1", "--title", "T", "--data", data)
                #expect(command.status == 1, "\(command)")
            }
            let odd = try raw.enumerated().map { try rig.insert("user_id, raw_payload", "'user-\($0 + 1)', '\($1)'") }
            let nul = try rig.insert("user_id, body", "'nul', 'x'")
            let normal = try (3...5).map { try rig.insert("user_id, body", "'user-\($0)', 'x'") }
            let all = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try await rig.drain()

            for id in normal { #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1)) }
            #expect(try rig.row(all) == NotificationRow("sent", 6, accepted: 5, rejected: 1))
            let journal = try rig.simulator.journal()
            for (number, id) in odd.enumerated() {
                // As they were written, for Apple to judge, each by itself.
                #expect(journal.requests(for: DeviceTokens.plain(number + 1)).contains { $0.body == raw[number] })
                #expect(try rig.row(id)?.hasEndTime == true)
            }
            let row = try #require(try rig.row(nul))
            #expect(row == NotificationRow("failed", 1, rejected: 1, error: row.error))
            let reasons = try rig.psql(
                "SELECT DISTINCT http_status, reason FROM delivery_failures WHERE notification_id = \(nul)")
            #expect(reasons.count == 1 && reasons.first?[0] == "400" && reasons.first?[1] == row.error)
            #expect(row.error?.isEmpty == false && row.error?.contains("\0") == false)
            #expect(!worker.log.contains("failed"), "\(worker.log)")

            for words in [["list"], ["list", "--json"], ["stats"], ["stats", "--json"]] {
                let result = try run(words, rig)
                #expect(result.status == 0 && result.errors.isEmpty, "\(words) \(result)")
            }
            for id in odd + [nul] {
                for words in [
                    ["show", "\(id)"], ["show", "\(id)", "--json"], ["why", "\(id)"], ["why", "\(id)", "--json"],
                ] {
                    let result = try run(words, rig)
                    #expect(result.status == 0 && !result.output.isEmpty, "\(words) \(result)")
                }
            }
        }
    }

    private func run(_ words: [String], _ rig: Rig) throws -> CommandResult {
        try Subprocess.run(SimulatorProcess.executable("pgpush").path, words, environment: rig.environment)
    }

    @Test(
        "F29: the stored instant decides when a row goes out, whatever the zones and date styles of producer and worker"
    )
    func zones() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...4)
            let there = [
                "TZ": "Asia/Kolkata", "TZDIR": "/nonexistent", "PGTZ": "Asia/Kolkata", "PGDATESTYLE": "German, DMY",
            ]
            let worker = try rig.worker(more: there)
            try await rig.listeners(1)
            let producer = rig.database.openSession()
            defer { producer.close() }
            try producer.run("SET TimeZone = 'America/New_York'")
            // Wall-clock times of New York, without and with the offset. For Kolkata the first is past, and so is what is due in an hour.
            let ids = try producer.run(
                """
                INSERT INTO scheduled_notifications (user_id, body, scheduled_at, expires_at)
                SELECT 'user-' || i, 'x', to_char(now() + due * interval '1 s', form)::timestamptz,
                       to_char(now() + interval '2 hours', 'YYYY-MM-DD HH24:MI:SS')::timestamptz
                FROM (VALUES (1, 3, 'YYYY-MM-DD HH24:MI:SS.US'), (2, 3, 'YYYY-MM-DD HH24:MI:SS.USTZH:TZM'),
                             (3, 3600, 'YYYY-MM-DD HH24:MI:SS'), (4, 3600, 'YYYY-MM-DD HH24:MI:SSTZH:TZM')) v(i, due, form)
                RETURNING id
                """
            ).compactMap { $0[0].flatMap { Int($0) } }
            for id in ids.prefix(2) { try await rig.status(of: id, is: "sent") }
            try await worker.stop()

            let requests = try rig.simulator.journal().requests
            #expect(requests.compactMap(\.token).sorted() == [1, 2].map(DeviceTokens.plain))
            let times = try rig.psql(
                "SELECT extract(epoch FROM scheduled_at), floor(extract(epoch FROM expires_at)) FROM scheduled_notifications WHERE id = \(ids[0])"
            )
            let due = try #require(times.first?[0].flatMap { Double($0) })
            for request in requests {
                let delay = Double(request.wall) / 1e9 - due
                #expect(delay >= -0.001 && delay < 50)
            }
            #expect(requests.first { $0.token == DeviceTokens.plain(1) }?.headers["apns-expiration"] == times.first?[1])
            for id in ids.suffix(2) { #expect(try rig.row(id) == NotificationRow("pending")) }
            // Reading and showing names the zone.
            for zone in ["America/New_York", "Asia/Kolkata"] {
                let shown = try rig.pgpush("show", "\(ids[2])", "--json", more: there.merging(["PGTZ": zone]) { $1 })
                let instant = try rig.database.value(
                    "SELECT to_char(scheduled_at AT TIME ZONE '\(zone)', 'YYYY-MM-DD\"T\"HH24:MI:SS') FROM scheduled_notifications WHERE id = \(ids[2])"
                )
                #expect(shown.output.contains("\"scheduled_at\":\"\(try #require(instant))"), "\(shown)")
            }
        }
    }

    @Test("F29: an hour that is skipped and one that comes twice are read by PostgreSQL, and shown with their offset")
    func clockChanges() async throws {
        try await Rig.run { rig in
            let there = ["PGTZ": "America/New_York", "TZ": "Asia/Kolkata", "TZDIR": "/nonexistent"]
            let times = [
                ("2099-03-08 02:30", "2099-03-08T07:30:00+00:00"), ("2099-11-01 01:30", "2099-11-01T06:30:00+00:00"),
                ("2099-11-01 01:30-04", "2099-11-01T05:30:00+00:00"),
                ("2099-11-01T01:30:00Z", "2099-11-01T01:30:00+00:00"),
            ]
            for (written, instant) in times {
                let command = try rig.pgpush("enqueue", "--user", "anna", "--body", "x", "--at", written, more: there)
                #expect(command.status == 0, "\(command)")
                let id = command.output.trimmingCharacters(in: .newlines)
                let shown = try rig.pgpush("show", id, "--json", more: ["PGTZ": "UTC"])
                #expect(shown.output.contains(#""scheduled_at":"\#(instant)""#), "\(written) \(shown)")
                // Without an offset it says in which zone it was read.
                let isNamed = written.hasSuffix("-04") || written.hasSuffix("Z")
                #expect(command.errors.contains("time zone America/New_York") != isNamed, "\(command)")
            }
        }
    }

    @Test("F30: times without end, before Christ and in the year 294276 crash nobody; normal rows go out")
    func farTimes() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...3)
            for time in ["infinity", "-infinity"] {
                for column in ["scheduled_at", "expires_at"] {
                    let failure = #expect(throws: SQLFailure.self) {
                        try rig.insert("user_id, body, \(column)", "'user-1', 'x', '\(time)'")
                    }
                    #expect(failure?.sqlState == "PN012")
                }
                let failure = #expect(throws: SQLFailure.self) {
                    try rig.psql(
                        "INSERT INTO devices (user_id, device_token, registered_at) VALUES ('a', 'ab12cd34', '\(time)')"
                    )
                }
                #expect(failure?.sqlState == "PN012")
                let command = try rig.pgpush("enqueue", "--user", "user-1", "--body", "x", "--at=\(time)")
                #expect([1, 2].contains(command.status) && !command.errors.isEmpty, "\(command)")
            }
            let old = try rig.insert("user_id, body, scheduled_at", "'user-1', 'x', '0044-03-15 BC'")
            let far = try rig.insert("user_id, body, scheduled_at", "'user-1', 'x', '294276-12-31'")
            let farEnd = try rig.insert("user_id, body, expires_at", "'user-1', 'x', '294276-12-31 23:59:59'")
            let normal = try rig.insert("user_id, body", "'user-2', 'x'")
            // What came past the triggers, as a restore or a subscription does.
            let endless = try rig.psql(
                """
                BEGIN; SET LOCAL session_replication_role = replica;
                UPDATE devices SET registered_at = 'infinity', last_active_at = '-infinity' WHERE user_id = 'user-3';
                INSERT INTO scheduled_notifications (user_id, body, payload, scheduled_at, expires_at)
                SELECT 'user-3', 'x', '{"aps":{"badge":1}}', s::timestamptz, e::timestamptz
                FROM (VALUES ('infinity', NULL), ('-infinity', NULL), ('-infinity', 'infinity'), ('now', 'infinity')) v(s, e)
                RETURNING id; COMMIT
                """
            ).compactMap { $0[0].flatMap { Int($0) } }
            let worker = try rig.worker("--poll-interval", "1")
            try await rig.listeners(1)
            try await rig.status(of: normal, is: "sent")
            try await rig.status(of: farEnd, is: "sent")
            try await rig.status(of: old, is: "expired", within: .seconds(240))
            let next = try rig.insert("user_id, body", "'user-2', 'y'")
            try await rig.status(of: next, is: "sent")
            #expect(try rig.row(far) == NotificationRow("pending"))
            // Never due; due since ever, and so too late; due now and for ever.
            let endings = ["pending", "expired", "expired", "sent"]
            for (id, status) in zip(endless, endings) {
                try await rig.status(of: id, is: status, within: .seconds(240))
            }
            #expect(worker.isRunning && !worker.log.contains("failed"), "\(worker.log)")
            for words in [
                ["list"], ["list", "--json"], ["stats"], ["devices", "list"], ["devices", "list", "--json"],
            ] {
                let result = try run(words, rig)
                #expect(result.status == 0 && result.errors.isEmpty, "\(words) \(result)")
            }
            for id in [old, far, farEnd] + endless {
                let shown = try run(["show", "\(id)"], rig)
                #expect(shown.status == 0, "\(shown)")
            }
            try await worker.stop()
        }
    }
}
