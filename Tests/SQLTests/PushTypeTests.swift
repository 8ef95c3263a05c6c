// What Apple refuses, or takes and never delivers, is refused when it is inserted: push type by push type.

import TestSupport
import Testing

@Suite struct PushTypeTests {
    let database: TestDatabase

    init() throws { database = try .make() }

    /// `PN037 aps`: the SQLSTATE and the column that refuse a notification to user a; nil when it is taken.
    private func refusal(_ columns: String, _ values: String) throws -> String? {
        do {
            try database.psql("INSERT INTO scheduled_notifications (\(columns)) VALUES (\(values))")
            return nil
        } catch let failure as SQLFailure {
            #expect(failure.hint?.isEmpty == false, "\(failure)")
            return "\(failure.sqlState) \(failure.column ?? "")"
        }
    }

    /// The same with aps, in both ways of writing it.
    private func aps(_ type: String, _ aps: String) throws -> [String?] {
        [
            try refusal("user_id, push_type, aps", "'a', '\(type)', '\(aps)'"),
            try refusal("user_id, push_type, raw_payload", "'a', '\(type)', '{\"aps\": \(aps)}'"),
        ]
    }

    private func both(_ state: String) -> [String?] { ["\(state) aps", "\(state) raw_payload"] }
    private let taken: [String?] = [nil, nil]

    @Test func liveActivities() throws {
        let good = [
            #"{"event": "update", "timestamp": 1, "content-state": {}}"#,
            #"{"event": "update", "timestamp": 1, "content-state": {"a": null}, "stale-date": 1.5, "relevance-score": 100}"#,
            #"{"event": "end", "timestamp": 1}"#,
            #"{"event": "end", "timestamp": 1, "content-state": {"a": 1}, "dismissal-date": 0}"#,
            #"{"event": "update", "timestamp": 1, "content-state": {}, "alert": {"title": {"loc-key": "K"}, "sound": "s"}}"#,
        ]
        for text in good { #expect(try aps("liveactivity", text) == taken, "\(text)") }
        let bad = [
            "{}", #"{"event": "update"}"#, #"{"event": null, "timestamp": 1, "content-state": {}}"#,
            #"{"event": "begin", "timestamp": 1, "content-state": {}}"#,
            #"{"event": "update", "timestamp": 1, "content-state": [1]}"#,
            #"{"event": "update", "timestamp": 1, "content-state": null}"#,
            #"{"event": "end", "timestamp": 1, "content-state": "x"}"#,
            #"{"event": "end", "timestamp": "2026-01-01"}"#,
            #"{"event": "end", "timestamp": 1, "dismissal-date": "soon"}"#,
            #"{"event": "update", "timestamp": 1, "content-state": {}, "stale-date": null}"#,
        ]
        for text in bad { #expect(try aps("liveactivity", text) == both("PN037"), "\(text)") }
        #expect(try refusal("user_id, push_type, title", "'a', 'liveactivity', 'x'") == "PN037 aps")
        // The due time stands in for a timestamp, but not in bytes of the producer's own.
        #expect(try aps("liveactivity", #"{"event": "end"}"#) == [nil, "PN037 raw_payload"])
    }

    @Test func startsOfLiveActivities() throws {
        func start(_ more: String) -> String {
            #"{"event": "start", "timestamp": 1, "content-state": {}\#(more)}"#
        }
        let attributes = #", "attributes-type": "T", "attributes": {"a": 1}"#
        let alert = #", "alert": {"title": "t", "body": "b"}"#
        #expect(try aps("liveactivity", start(attributes + alert)) == taken)
        #expect(try aps("liveactivity", start(attributes + alert + #", "input-push-token": 1"#)) == taken)
        #expect(try aps("liveactivity", start(attributes + alert + #", "input-push-channel": "YWJj""#)) == taken)
        #expect(
            try refusal("user_id, push_type, title, aps", "'a', 'liveactivity', 'x', '\(start(attributes))'") == nil)
        for more in [
            "", alert, #", "attributes-type": "T""# + alert, #", "attributes": {}"# + alert,
            #", "attributes-type": 7, "attributes": {}"# + alert,
            #", "attributes-type": "T", "attributes": [1]"# + alert,
            attributes + alert + #", "input-push-token": 1, "input-push-channel": "YWJj""#,
        ] { #expect(try aps("liveactivity", start(more)) == both("PN038"), "\(more)") }
        #expect(try aps("liveactivity", start(attributes)) == ["PN038 title", "PN038 raw_payload"])
        #expect(try aps("liveactivity", start(attributes + #", "alert": {}"#))[0] == "PN038 title")
        #expect(
            try refusal("channel_id, push_type, aps", "'YWJj', 'liveactivity', '\(start(attributes + alert))'")
                == "PN038 channel_id")
    }

    @Test func backgroundPushes() throws {
        for (column, value) in [
            ("title", "'x'"), ("badge", "0"), ("sound", "'x'"), ("category", "'c'"), ("thread_id", "'x'"),
            ("interruption_level", "'active'"), ("relevance_score", "0.5"),
        ] {
            #expect(
                try refusal("user_id, push_type, \(column)", "'a', 'background', \(value)") == "PN039 \(column)")
        }
        #expect(try refusal("user_id, push_type, body, subtitle", "'a', 'background', 'x', 'y'") == "PN039 title")
        #expect(try refusal("user_id, push_type, sound, data", "'a', 'background', '', '{\"k\": 1}'") == nil)
        #expect(try refusal("user_id, push_type, priority", "'a', 'background', 1") == nil)
        #expect(try aps("background", #"{"content-available": 1}"#) == taken)
        #expect(try aps("background", #"{"content-available": 0}"#) == both("PN039"))
        #expect(try aps("background", #"{"content-available": 1, "alert": "x"}"#) == both("PN039"))
        #expect(try aps("background", "{}") == [nil, "PN039 raw_payload"])
        #expect(
            try refusal("user_id, push_type, raw_payload", "'a', 'background', '{\"k\": 1}'") == "PN039 raw_payload")
    }

    @Test func widgetsControlsAndAccessories() throws {
        for type in ["widgets", "controls"] {
            #expect(try aps(type, #"{"content-changed": true}"#) == taken)
            #expect(try aps(type, "{}") == [nil, "PN040 raw_payload"])
            for value in ["false", "1", "null"] {
                #expect(try aps(type, "{\"content-changed\": \(value)}") == both("PN040"))
            }
        }
        let keys = ["encryptedData", "sessionIdentifier", "keyID", "messageIndex"]
        func accessory(_ keys: some Sequence<String>) -> String {
            "{" + keys.map { "\"\($0)\": 1" }.joined(separator: ", ") + "}"
        }
        #expect(try aps("accessory", accessory(keys)) == taken)
        for left in keys {
            #expect(try aps("accessory", accessory(keys.filter { $0 != left })) == both("PN041"), "\(left)")
        }
    }

    @Test func deviceManagement() throws {
        func raw(_ payload: String) throws -> String? {
            try refusal("user_id, push_type, topic, raw_payload", "'a', 'mdm', 'com.apple.mgmt.1', '\(payload)'")
        }
        #expect(try raw(#"{"mdm": "magic"}"#) == nil)
        for payload in [
            "{}", #"{"mdm": 1}"#, #"{"mdm": null}"#, #"{"mdm": "m", "aps": {}}"#, #"{"mdm": "m", "aps": null}"#,
        ] {
            #expect(try raw(payload) == "PN033 raw_payload", "\(payload)")
        }
        #expect(
            try refusal("user_id, push_type, topic, data, aps", "'a', 'mdm', 't', '{\"mdm\": \"m\"}', '{}'")
                == "PN033 push_type")
    }

    @Test func extensionsNeedAnAlert() throws {
        #expect(try refusal("user_id, title, mutable_content", "'a', 'x', true") == nil)
        #expect(try refusal("user_id, badge, mutable_content", "'a', 1, true") == "PN042 mutable_content")
        #expect(try refusal("user_id, push_type, mutable_content", "'a', 'voip', true") == "PN042 mutable_content")
        #expect(try aps("alert", #"{"badge": 1, "mutable-content": 1}"#) == both("PN042"))
        #expect(try aps("alert", #"{"badge": 1, "mutable-content": 0}"#) == taken)
        #expect(try aps("alert", #"{"alert": "", "badge": 1, "mutable-content": 1}"#) == both("PN042"))
        #expect(try aps("alert", #"{"alert": "x", "mutable-content": 1}"#) == taken)
    }

    @Test func formsOfKnownKeys() throws {
        for text in [
            #"{"alert": {"title-loc-key": "T", "title-loc-args": ["a"], "loc-key": "K", "loc-args": []}}"#,
            #"{"alert": "x", "sound": {"critical": 1, "name": "a.caf", "volume": 0.5}}"#,
            #"{"sound": {"critical": 0}}"#,
            #"{"alert": "x", "interruption-level": "critical", "relevance-score": 1}"#, #"{"badge": 2.0}"#,
            #"{"alert": "x", "own": [1], "badge": null, "sound": null}"#,
            #"{"alert": {"title": "x", "own": 1, "subtitle": null}, "content-available": 1, "filter-criteria": "f"}"#,
        ] { #expect(try aps("alert", text) == taken, "\(text)") }
        for text in [
            #""alert": 1"#, #""alert": {"title": 1}"#, #""alert": {"title": {"loc-key": "K"}}"#,
            #""alert": {"loc-args": "a"}"#, #""alert": {"loc-key": ["K"]}"#, #""sound": 1"#,
            #""sound": {"critical": true}"#,
            #""sound": {"name": 1}"#, #""sound": {"critical": 1, "volume": 1.1}"#, #""sound": {"volume": "loud"}"#,
            #""mutable-content": true"#, #""content-available": "1""#, #""thread-id": 1"#, #""category": {}"#,
        ] { #expect(try aps("alert", "{\"badge\": 1, \(text)}") == both("PN043"), "\(text)") }
        for level in [#""urgent""#, #""""#, "1"] {
            #expect(try aps("alert", "{\"alert\": \"x\", \"interruption-level\": \(level)}") == both("PN026"))
        }
        for score in ["1.01", "-0.5", #""high""#] {
            #expect(try aps("alert", "{\"alert\": \"x\", \"relevance-score\": \(score)}") == both("PN027"))
        }
        for badge in ["-1", "1.5", #""1""#, "true"] {
            #expect(try aps("alert", "{\"badge\": \(badge)}") == both("PN028"))
        }
        #expect(
            try refusal("user_id, raw_payload", "'a', '{\"aps\": [1]}'") == "PN043 raw_payload")
        // An empty object updates a wallet pass; what only the very bytes can say is not looked into.
        #expect(try refusal("user_id, raw_payload", "'a', '{}'") == nil)
        #expect(try refusal("user_id, raw_payload", #"'a', '{"aps": {"alert": "\u0000", "badge": 1e999999}}'"#) == nil)
    }

    /// What a former version has let in can still be cancelled.
    @Test func rowsOfAFormerVersionCanBeCancelled() throws {
        try database.psql(
            """
            INSERT INTO scheduled_notifications (user_id, push_type, aps, scheduled_at)
            VALUES ('a', 'liveactivity', '{"event": "end"}', now() + interval '1 hour');
            ALTER TABLE scheduled_notifications DISABLE TRIGGER USER;
            UPDATE scheduled_notifications SET aps = '{}';
            ALTER TABLE scheduled_notifications ENABLE TRIGGER USER;
            """)
        #expect(
            try database.refusal("SELECT reschedule_notification(1, now() + interval '2 hours')") == "PN037")
        #expect(try database.value("SELECT cancel_notification(1)") == "cancelled")
    }
}
