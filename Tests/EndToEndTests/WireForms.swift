// What the columns of a notification become on the wire: push types with their topics and priorities, and the headers that a
// producer may choose.

import Foundation
import TestSupport
import Testing

@Suite("On the wire") struct WireForms {
    /// A notification, and what is expected of its only request.
    private struct Form {
        let columns: String
        let values: String
        let headers: [String: String]
        let body: String
        /// What takes the place of 30 days from now.
        var expiration: String?
    }

    /// What Apple's table of push types says: the topic's suffix, and the priority when none was chosen.
    private static func type(
        _ name: String, _ suffix: String, priority: String = "10", _ columns: String = "data",
        _ values: String = "'{\"k\":1}'",
        _ body: String = #"{"k":1,"aps":{}}"#
    ) -> Form {
        Form(
            columns: "push_type, \(columns)", values: "'\(name)', \(values)",
            headers: [
                "apns-push-type": name, "apns-topic": "com.example.pgpush\(suffix)", "apns-priority": priority,
            ],
            body: body)
    }

    private static let types: [Form] = [
        type("background", "", priority: "5", "data", "'{\"k\":1}'", #"{"k":1,"aps":{"content-available":1}}"#),
        type("voip", ".voip"),
        type("complication", ".complication"),
        type("fileprovider", ".pushkit.fileprovider"),
        type("location", ".location-query"),
        type(
            "liveactivity", ".push-type.liveactivity", "aps",
            #"'{"event":"update","content-state":{"goals":2},"timestamp":1767323045}'"#,
            #"{"aps":{"event":"update","timestamp":1767323045,"content-state":{"goals":2}}}"#),
        type("pushtotalk", ".voip-ptt"),
        type("widgets", ".push-type.widgets", "data", "null", #"{"aps":{"content-changed":true}}"#),
        type("controls", ".push-type.controls", "data", "null", #"{"aps":{"content-changed":true}}"#),
        type(
            "accessory", ".push-type.accessory", "aps",
            #"'{"encryptedData":"a","sessionIdentifier":"b","keyID":"c","messageIndex":1}'"#,
            #"{"aps":{"keyID":"c","messageIndex":1,"encryptedData":"a","sessionIdentifier":"b"}}"#),
        Form(
            columns: "push_type, topic, data", values: #"'mdm', 'com.apple.mgmt.External.42', '{"mdm":"magic"}'"#,
            headers: [
                "apns-push-type": "mdm", "apns-topic": "com.apple.mgmt.External.42", "apns-priority": "10",
            ],
            body: #"{"mdm":"magic"}"#),
    ]

    private static func alert(
        _ columns: String, _ values: String, _ headers: [String: String] = [:], body: String? = nil,
        expiration: String? = nil
    ) -> Form {
        let usual = ["apns-push-type": "alert", "apns-topic": "com.example.pgpush", "apns-priority": "10"]
        return Form(
            columns: body == nil ? "title, \(columns)" : columns, values: body == nil ? "'T', \(values)" : values,
            headers: usual.merging(headers) { $1 },
            body: body ?? #"{"aps":{"alert":{"title":"T"},"sound":"default"}}"#, expiration: expiration)
    }

    private static let choices: [Form] = [
        alert("badge", "0", body: #"{"aps":{"badge":0}}"#),
        alert("priority", "5", ["apns-priority": "5"]),
        alert("priority", "1", ["apns-priority": "1"]),
        alert("collapse_id", "'score-1'", ["apns-collapse-id": "score-1"]),
        alert("collapse_id", "repeat('c', 64)", ["apns-collapse-id": String(repeating: "c", count: 64)]),
        alert("topic", "'com.example.other'", ["apns-topic": "com.example.other"]),
        alert("expires_at", "'2099-12-31 23:59:59.9Z'", expiration: "4102444799"),
        alert("store_if_offline", "false", expiration: "0"),
        alert("store_if_offline, expires_at", "false, '2099-12-31Z'", expiration: "0"),
        alert(
            "raw_payload", #"'{ "aps" : {"alert":"é"},  "n":1.0 }'"#, body: #"{ "aps" : {"alert":"é"},  "n":1.0 }"#),
        alert(
            "title, data", #"'T', '{"a":[1,null,"x"],"b":{"c":true}}'"#,
            body: #"{"a":[1,null,"x"],"b":{"c":true},"aps":{"alert":{"title":"T"},"sound":"default"}}"#),
        // To the byte: 4096 bytes pass.
        alert(
            "raw_payload", "('{\"aps\":{\"alert\":\"' || repeat('x', 4096 - 22) || '\"}}')::json",
            body: "{\"aps\":{\"alert\":\"" + String(repeating: "x", count: 4096 - 22) + "\"}}"),
    ]

    @Test("each push type has its topic, priority and payload") func pushTypes() async throws {
        try await check(Self.types)
    }

    @Test("a producer's choices arrive as they are") func producersChoices() async throws {
        try await check(Self.choices)
    }

    @Test("a Live Activity without a time of its own carries the due time") func dueTime() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let id = try rig.insert(
                "user_id, push_type, aps, scheduled_at",
                "'user-1', 'liveactivity', '{\"event\":\"end\"}', now() - interval '90 minutes'")
            try await rig.drain()
            let due = try #require(try rig.value("floor(extract(epoch FROM scheduled_at))", of: id))
            #expect(
                try rig.simulator.journal().requests.map(\.body) == [#"{"aps":{"event":"end","timestamp":\#(due)}}"#])
        }
    }

    /// Sends all of them, each to a user of its own, and compares.
    private func check(_ forms: [Form]) async throws {
        try await Rig.run(simulator: ["--bundle-id", "com.example.pgpush", "--bundle-id", "com.example.other"]) { rig in
            try rig.addDevices(0...forms.count)
            var ids: [Int] = []
            for (number, form) in forms.enumerated() {
                ids.append(try rig.insert("user_id, \(form.columns)", "'user-\(number)', \(form.values)"))
            }
            let now = Int64(Date().timeIntervalSince1970)
            try await rig.drain()

            let journal = try rig.simulator.journal()
            for (number, form) in forms.enumerated() {
                let requests = journal.requests(for: DeviceTokens.plain(number))
                let request = try #require(requests.first, "\(form)")
                #expect(requests.count == 1 && request.isAccepted, "\(form) \(request)")
                #expect(request.warnings == nil)
                #expect(request.body == form.body)
                var headers = request.headers
                #expect(headers.removeValue(forKey: "apns-id") != nil)
                let expiration = headers.removeValue(forKey: "apns-expiration") ?? ""
                if let expected = form.expiration {
                    #expect(expiration == expected)
                } else {
                    #expect((now...now + 60).contains((Int64(expiration) ?? 0) - 30 * 86_400))
                }
                var expected = form.headers
                // An alert collapses onto its own repeats unless told otherwise.
                if expected["apns-push-type"] == "alert", expected["apns-collapse-id"] == nil {
                    expected["apns-collapse-id"] = "pgpush-\(ids[number])"
                }
                #expect(headers == expected)
                #expect(try rig.row(ids[number]) == NotificationRow("sent", 1, accepted: 1))
            }
        }
    }
}
