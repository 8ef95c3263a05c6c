// The payload: rendered and measured by the database, to the byte.

import Foundation
import TestSupport
import Testing

@Suite struct PayloadTests {
    let database: TestDatabase

    init() throws { database = try .make() }

    /// The payload of a notification to user a, or the SQLSTATE that refuses it.
    private func payload(_ columns: String, _ values: String) throws -> String? {
        do {
            return try database.value(
                "INSERT INTO scheduled_notifications (user_id, \(columns)) VALUES ('a', \(values)) RETURNING payload")
        } catch let failure as SQLFailure {
            return failure.sqlState
        }
    }

    private func object(_ text: String?) throws -> NSDictionary {
        let json = try JSONSerialization.jsonObject(with: Data(try #require(text).utf8))
        return try #require(json as? NSDictionary)
    }

    private func sameJSON(_ text: String?, _ expected: String) throws -> Bool {
        let (found, wanted) = (try object(text), try object(expected))
        return found == wanted
    }

    @Test("F19 raw UTF-8, measured in bytes as it goes out")
    func sizes() throws {
        let frame = #"{"aps":{"alert":{"body":""},"sound":"default"}}"#.utf8.count
        #expect(try payload("body", "repeat('x', \(4096 - frame))")?.utf8.count == 4096)
        #expect(try payload("body", "repeat('x', \(4097 - frame))") == "PN003")
        #expect(try payload("body", "repeat('語', 1000)")?.utf8.count == frame + 3000)
        // A quote costs two bytes, a control character six.
        #expect(try payload("body", "repeat('\"', \((4096 - frame) / 2))")?.utf8.count == 4095)
        #expect(try payload("body", "repeat('\"', \((4096 - frame) / 2)) || 'x'")?.utf8.count == 4096)
        #expect(try payload("body", "repeat('\"', \((4096 - frame) / 2)) || 'xx'") == "PN003")
        #expect(try payload("body", "repeat(E'\\x01', 600)")?.utf8.count == frame + 3600)
        #expect(
            try payload("push_type, raw_payload", "'voip', ('{\"a\":\"' || repeat('x', 5112) || '\"}')::json")?.utf8
                .count
                == 5120)
        #expect(
            try payload("push_type, raw_payload", "'voip', ('{\"a\":\"' || repeat('x', 5113) || '\"}')::json")
                == "PN003")
        let channel = { (count: Int) in
            try database.refusal(
                """
                INSERT INTO scheduled_notifications (channel_id, push_type, raw_payload)
                VALUES ('YWJj', 'liveactivity', ('{"aps":{"event":"end","timestamp":1},"a":"' || repeat('x', \(count)) || '"}')::json)
                """)
        }
        #expect(try channel(5112 - 36) == nil)
        #expect(try channel(5113 - 36) == "PN003")

        let text = "a/b \"c\" \\ é 👨‍👩‍👧‍👦🇺🇦 \u{202B}שלום\u{202C}"
        let sent = try payload("title", "$t$\(text)$t$")
        #expect(sent?.contains("👨‍👩‍👧‍👦🇺🇦") == true)
        let alert = try #require((try object(sent)["aps"] as? NSDictionary)?["alert"] as? NSDictionary)
        #expect(alert["title"] as? String == text)
    }

    @Test("F20 zero and empty are not the same as nothing")
    func zeroAndEmpty() throws {
        #expect(try payload("badge", "0") == #"{"aps":{"badge":0}}"#)
        #expect(try payload("badge", "-1") == "PN028")
        #expect(
            try sameJSON(payload("title, body", "'', 'b'"), #"{"aps":{"alert":{"body":"b"},"sound":"default"}}"#))
        #expect(try sameJSON(payload("title", "'t'"), #"{"aps":{"alert":{"title":"t"},"sound":"default"}}"#))
        #expect(
            try sameJSON(
                payload("title, subtitle, category, thread_id", "'t', '', '', NULL"),
                #"{"aps":{"alert":{"title":"t"},"sound":"default"}}"#))
        for nothing in ["NULL, NULL", "'', ''", "'', NULL"] { #expect(try payload("title, body", nothing) == "PN013") }
        #expect(try payload("title, sound", "'t', ''") == #"{"aps":{"alert":{"title":"t"}}}"#)
        #expect(try payload("sound", "'ping.caf'") == #"{"aps":{"sound":"ping.caf"}}"#)
        #expect(try payload("sound", "''") == "PN013")
        #expect(try payload("content_available", "true") == "PN013")
        #expect(try payload("aps", "'{\"alert\": {}}'") == "PN013")
        #expect(try payload("aps", "'{\"badge\": null}'") == "PN013")
    }

    @Test("F21 one aps, made of the columns")
    func oneAPS() throws {
        #expect(try payload("title, data", "'t', '{\"aps\": {\"alert\": \"x\"}, \"k\": 1}'") == "PN010")
        #expect(try payload("title, data", "'t', '{\"aps\": null}'") == "PN010")
        for other in ["[1]", "\"x\"", "1", "null", "true"] {
            #expect(try payload("title, data", "'t', '\(other)'") == "PN008", "\(other)")
            #expect(try payload("title, aps", "'t', '\(other)'") == "PN009", "\(other)")
            #expect(try payload("raw_payload", "'\(other)'") == "PN017", "\(other)")
        }
        let deep = String(repeating: "{\"a\":", count: 200) + "1" + String(repeating: "}", count: 200)
        let sent = try payload("title, data", "'t', '\(deep)'")
        #expect(sent?.contains(deep.dropFirst().dropLast()) == true)
        #expect(sent?.components(separatedBy: "\"aps\":").count == 2)
    }

    @Test func columnsAndApsAreMerged() throws {
        let merged = try payload(
            "title, badge, sound, category, thread_id, target_content_id, interruption_level, relevance_score, mutable_content, aps, data",
            """
            't', 3, 'ping', 'c', 'th', 'tc', 'time-sensitive', 0.5, true,
            '{"alert": {"loc-key": "K", "loc-args": ["a", null]}, "sound": {"critical": 1}, "badge": 4, "extra": null}',
            '{"k": {"n": null, "list": [1, "a, b: c", null]}, "z": true}'
            """)
        #expect(
            try sameJSON(
                merged,
                """
                {"aps": {"alert": {"title": "t", "loc-key": "K", "loc-args": ["a", null]}, "badge": 4, "sound": {"critical": 1},
                 "category": "c", "thread-id": "th", "target-content-id": "tc", "interruption-level": "time-sensitive",
                 "relevance-score": 0.5, "mutable-content": 1, "extra": null},
                 "k": {"n": null, "list": [1, "a, b: c", null]}, "z": true}
                """))
        #expect(merged?.contains("\"a, b: c\"") == true)
        #expect(
            merged?.contains(": ") == true && merged?.replacing("a, b: c", with: "").contains(" ") == false, "compact")
        #expect(
            try payload("title, aps", "'t', '{\"alert\": \"plain\"}'")
                == #"{"aps":{"alert":"plain","sound":"default"}}"#)
        #expect(try payload("title, interruption_level", "'t', 'urgent'") == "PN026")
        for score in ["1.1", "-0.1", "'NaN'", "'Infinity'"] {
            #expect(try payload("title, relevance_score", "'t', \(score)") == "PN027")
        }
        #expect(
            try payload("push_type, aps, relevance_score", "'liveactivity', '{\"event\": \"end\"}', 100")?.contains(
                "100") == true)
    }

    /// Both ways of writing compact JSON give the same.
    @Test func compactJSON() throws {
        let value = #"{"a": "x, y: \"z\" \\", "b": [1, 2.50, -1e3, true, {}], "c": {"d": "\u001f\n\t/é", "": []}}"#
        let rows = try database.psql(
            """
            SELECT pgpush_compact(v), regexp_replace(v::text, '("(?:[^"\\\\]|\\\\.)*")|([,:]) ', '\\1\\2', 'g'),
                   pgpush_compact(v || '{"n": null}'), pgpush_compact(v || '{"n": null}')::jsonb = v || '{"n": null}'
            FROM (SELECT '\(value)'::jsonb AS v) x
            """)[0]
        #expect(rows[0] == rows[1])
        #expect(rows[2]?.contains(#""n":null"#) == true)
        #expect(rows[3] == "t")
        #expect(rows[0]?.contains(#"x, y: \"z\" \\"#) == true)
    }

    @Test func pushTypesOfTheirOwn() throws {
        #expect(try payload("push_type", "'background'") == #"{"aps":{"content-available":1}}"#)
        #expect(
            try sameJSON(
                payload("push_type, data", "'background', '{\"sync\": true}'"),
                #"{"aps":{"content-available":1},"sync":true}"#))
        #expect(try payload("push_type", "'widgets'") == #"{"aps":{"content-changed":true}}"#)
        #expect(try payload("push_type", "'controls'") == #"{"aps":{"content-changed":true}}"#)
        #expect(try sameJSON(payload("push_type, data", "'voip', '{\"call\": 1}'"), #"{"aps":{},"call":1}"#))
        #expect(
            try payload("push_type, topic, data", "'mdm', 'com.apple.mgmt.1', '{\"mdm\": \"magic\"}'")
                == #"{"mdm":"magic"}"#)
        #expect(try payload("push_type, topic, title", "'mdm', 'com.apple.mgmt.1', 'x'") == "PN033")
        #expect(
            try sameJSON(
                payload(
                    "push_type, scheduled_at, aps",
                    "'liveactivity', to_timestamp(1800000000.9), '{\"event\": \"update\", \"content-state\": {}}'"),
                #"{"aps":{"event":"update","timestamp":1800000000,"content-state":{}}}"#))
        #expect(
            try sameJSON(
                payload("push_type, aps", "'liveactivity', '{\"event\": \"end\", \"timestamp\": 5}'"),
                #"{"aps":{"event":"end","timestamp":5}}"#))
        #expect(try payload("push_type, title", "'location', 't'") == #"{"aps":{"alert":{"title":"t"}}}"#)
    }

    @Test("F28 raw payloads go out byte for byte, odd escapes and all")
    func rawPayload() throws {
        let raw = #"{ "aps" : {"alert":"x"},  "n" : 1.50, "a":"\u0000", "b":"\ud83d", "n":2 }"#
        #expect(try payload("raw_payload", "'\(raw)'") == raw)
        #expect(try payload("raw_payload, title", "'\(raw)', 't'") == "PN016")
        #expect(try payload("raw_payload, badge", "'\(raw)', 0") == "PN016")
        #expect(try payload("raw_payload, mutable_content", "'\(raw)', true") == "PN016")
        #expect(try payload("raw_payload, data", "'\(raw)', '{}'") == "PN016")
        #expect(try payload("title, data", #"'t', '{"a": "\u0000"}'"#) == "22P05", "PostgreSQL itself refuses it")
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', 'ab12cd34')")
        let worker = QueueWorker(database)
        #expect(try worker.accept(worker.claim()) == ["applied"])
        // Whoever lists such rows is not harmed either.
        #expect(try database.psql("SELECT to_jsonb(r) FROM notification_progress r").count == 1)
    }

    @Test func contentMayChangeWhilePending() throws {
        let id = try database.notify()
        try database.psql("UPDATE scheduled_notifications SET title = 'Other', badge = 2 WHERE id = \(id)")
        #expect(try sameJSON(database.payload(id), #"{"aps":{"alert":{"title":"Other"},"badge":2,"sound":"default"}}"#))
        #expect(
            try database.refusal("UPDATE scheduled_notifications SET title = NULL, badge = NULL WHERE id = \(id)")
                == "PN013")
        #expect(try database.refusal("UPDATE scheduled_notifications SET payload = '{}' WHERE id = \(id)") == "PN034")
        #expect(try database.refusal("UPDATE scheduled_notifications SET user_id = NULL WHERE id = \(id)") == "PN001")
        #expect(
            try database.refusal("UPDATE scheduled_notifications SET expires_at = '2001-01-01' WHERE id = \(id)")
                == "PN011")
        try database.psql(
            "UPDATE scheduled_notifications SET push_type = NULL, app = NULL, scheduled_at = NULL WHERE id = \(id)")
        #expect(try database.psql("SELECT push_type, app FROM scheduled_notifications") == [["alert", "default"]])

        // A Live Activity's timestamp moves with the due time.
        let activity = try database.number(
            """
            INSERT INTO scheduled_notifications (user_id, push_type, aps, scheduled_at)
            VALUES ('a', 'liveactivity', '{"event": "update", "content-state": {}}', to_timestamp(1900000000)) RETURNING id
            """)
        #expect(
            try database.value("SELECT reschedule_notification(\(activity), to_timestamp(1900000060))") == "rescheduled"
        )
        #expect(try database.payload(activity)?.contains("1900000060") == true)

        let worker = QueueWorker(database)
        #expect(try worker.claim().count == 1)
        #expect(try database.refusal("UPDATE scheduled_notifications SET title = 'Late' WHERE id = \(id)") == "PN022")
        #expect(try database.refusal("UPDATE scheduled_notifications SET user_ids = '{b}' WHERE id = \(id)") == "PN022")
        // An ORM that writes everything back unchanged does no harm.
        try database.psql(
            "UPDATE scheduled_notifications SET title = title, raw_payload = raw_payload, data = data WHERE id = \(id)")
        #expect(try database.value("SELECT reschedule_notification(\(id), now())") == "sending")
    }
}
