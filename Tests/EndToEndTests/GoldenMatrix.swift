// Every push type, by key and by certificate, to production and to the sandbox: each header and body that arrives is compared with
// a file that people have looked at.
//
//     PGPUSH_GOLDEN=write ./deploy/test.sh --filter GoldenMatrix    # writes the files anew; look at the difference before committing

import Foundation
import TestSupport
import Testing

@Suite("The matrix of push types") struct GoldenMatrix {
    /// One notification; sent to a device in each environment.
    private struct Form {
        let name: String
        let columns: String
        let values: String

        init(_ name: String, _ columns: String, _ values: String) {
            self.name = name
            self.columns = columns
            self.values = values
        }
    }

    /// The first of each push type: by certificate these go alone.
    private static let plain: [Form] = [
        Form("alert", "title, subtitle, body, badge", "'Title', 'Subtitle', 'Grüße, 日本 👩‍👩‍👧', 3"),
        Form("background", "push_type, data", #"'background', '{"sync": "orders"}'"#),
        Form("voip", "push_type, data", #"'voip', '{"call": "b3f1"}'"#),
        Form("complication", "push_type, data", #"'complication', '{"steps": 8100}'"#),
        Form("fileprovider", "push_type, data", #"'fileprovider', '{"container-identifier": "root"}'"#),
        Form("mdm", "push_type, topic, data", #"'mdm', 'com.apple.mgmt.External.1234', '{"mdm": "magic"}'"#),
        Form("location", "push_type, data", #"'location', '{"query": 7}'"#),
        Form(
            "liveactivity", "push_type, aps",
            """
            'liveactivity', '{"event": "update", "timestamp": 1767225600, "content-state": {"minutes": 12, "courier": null},
            "stale-date": 1767229200}'
            """),
        Form("pushtotalk", "push_type, data", #"'pushtotalk', '{"activeSpeaker": "Bert"}'"#),
        Form("widgets", "push_type", "'widgets'"),
        Form("controls", "push_type", "'controls'"),
        Form(
            "accessory", "push_type, aps",
            #"'accessory', '{"encryptedData": "3q2+7w==", "sessionIdentifier": "s", "keyID": "k", "messageIndex": 1}'"#),
    ]

    private static let variants: [Form] = [
        Form("alert, badge alone", "badge", "0"),
        Form("alert, silent", "title, sound", "'Title', ''"),
        Form(
            "alert, localised", "aps",
            #"'{"alert": {"title-loc-key": "T", "loc-key": "B", "loc-args": ["18273", "Friday"]}}'"#),
        Form(
            "alert, critical", "title, interruption_level, aps",
            #"'Smoke', 'critical', '{"sound": {"critical": 1, "name": "alarm.caf", "volume": 0.8}}'"#),
        Form(
            "alert, all columns",
            "title, sound, category, thread_id, target_content_id, interruption_level, relevance_score, content_available",
            "'Title', 'ping.caf', 'C', 'th', 'tc', 'time-sensitive', 0.5, true"),
        Form(
            "alert, rich", "title, mutable_content, data",
            #"'Bert', true, '{"attachment": "https://example.com/a/b.jpg"}'"#),
        Form("alert, priority 1", "title, priority", "'Title', 1"),
        Form(
            "alert, collapse, expiry, priority 5", "title, collapse_id, expires_at, priority",
            "'Title', 'match-17', '2099-12-31 23:59:59Z', 5"),
        Form("alert, one try", "title, store_if_offline", "'Title', false"),
        Form("alert, raw", "raw_payload", #"'{ "aps" : {"alert":"é"},  "n":1.0 }'"#),
        Form("background, priority 1", "push_type, priority", "'background', 1"),
        Form("mdm, raw", "push_type, topic, raw_payload", #"'mdm', 'com.apple.mgmt.External.1234', '{"mdm":"magic"}'"#),
        Form("location, priority 5", "push_type, priority", "'location', 5"),
        Form(
            "liveactivity, start", "push_type, title, body, aps",
            """
            'liveactivity', 'On its way', 'At 19:40.', '{"event": "start", "timestamp": 1767225600, "attributes-type": "Delivery",
            "attributes": {"order": 18273}, "content-state": {"minutes": 25}, "input-push-token": 1}'
            """),
        Form(
            "liveactivity, end, priority 5", "push_type, priority, aps",
            """
            'liveactivity', 5, '{"event": "end", "timestamp": 1767225600, "content-state": {"minutes": 0},
            "dismissal-date": 1767229200}'
            """),
        Form(
            "liveactivity, raw", "push_type, raw_payload",
            #"'liveactivity', '{"aps":{"timestamp":1767225600,"event":"update","content-state":{"minutes":1.50}}}'"#),
    ]

    @Test("with a key arrives as the file says") func byKey() async throws {
        try await compare("key", Self.plain + Self.variants)
    }

    @Test(
        "with a certificate arrives as the file says; what a certificate cannot send pauses its topic and fails nobody")
    func byCertificate() async throws {
        try await compare("certificate", Self.plain, ["--auth", "certificate"])
    }

    @Test("with the certificate of a device management, whose topic is its own, arrives as the file says")
    func byManagementCertificate() async throws {
        try await compare(
            "management", Self.plain.filter { $0.name == "mdm" } + Self.variants.filter { $0.name == "mdm, raw" },
            ["--auth", "certificate", "--bundle-id", "com.apple.mgmt.External.1234"])
    }

    /// Sends all to a device in each environment and compares what the simulator saw with the file.
    private func compare(_ file: String, _ forms: [Form], _ options: [String] = []) async throws {
        try await Rig.run(simulator: ["--strict"] + options) { rig in
            try rig.psql(
                """
                INSERT INTO devices (user_id, device_token, environment) VALUES
                    ('anna', '\(DeviceTokens.plain(1))', 'production'), ('anna', '\(DeviceTokens.plain(2))', 'sandbox')
                """)
            var ids: [Int] = []
            for form in forms { ids.append(try rig.insert("user_id, \(form.columns)", "'anna', \(form.values)")) }
            let sending = Int64(Date().timeIntervalSince1970)
            try await rig.drain()

            // A stream that was refused for a falling limit was sent again.
            let requests = try rig.simulator.journal().requests.filter { $0.outcome == "answered" }
            #expect(requests.count == 2 * forms.count)
            var text = ""
            for (form, id) in zip(forms, ids) {
                for (device, environment) in [(1, "production"), (2, "sandbox")] {
                    let apnsID = try rig.database.value("SELECT apns_id(\(id), \(device))")
                    let found = requests.filter { $0.apnsId == apnsID }
                    #expect(found.count == 1, "\(form.name) to \(environment)")
                    let request = try #require(found.first)
                    #expect(request.environment == environment && request.token == DeviceTokens.plain(device))
                    text += "\(form.name) · \(environment)\n" + describe(request, sending)
                    text += "    \(try outcome(of: id, request, rig))\n\n"
                }
            }
            try check(text, file)
        }
    }

    /// What arrived, without what differs from run to run.
    private func describe(_ request: SimulatedRequest, _ sending: Int64) -> String {
        let path = request.path.replacingOccurrences(of: request.token ?? "-", with: "<token>")
        var lines = ["\(request.method) \(path)"]
        if request.authorization != nil { lines.append("authorization: <provider token>") }
        for (name, value) in request.headers.sorted(by: { $0.key < $1.key }) {
            var value = value
            switch name {
            case "apns-id": value = "<made of notification and device>"
            case "apns-expiration":
                let days = (Int64(value) ?? 0) - sending - 30 * 86_400
                if (0...300).contains(days) { value = "<in 30 days>" }
            case "apns-collapse-id": value = value.replacing(/^pgpush-[0-9]+$/, with: "pgpush-<notification>")
            default: break
            }
            lines.append("\(name): \(value)")
        }
        return (lines + [request.body ?? ""] + (request.warnings ?? [])).map { "    \($0)\n" }.joined()
    }

    private func outcome(of id: Int, _ request: SimulatedRequest, _ rig: Rig) throws -> String {
        let environment = request.environment
        let answer = "\(request.status ?? 0) \(request.reason ?? "")".trimmingCharacters(in: .whitespaces)
        let pause = try rig.column(
            """
            SELECT concat_ws(' ', 'paused', coalesce(topic, 'all topics'), 'of', environment || ':', reason) FROM app_pauses
            WHERE environment = '\(environment)'
                AND topic = '\(request.headers["apns-topic"] ?? "")'
            """)
        return "→ \(answer) · " + ([try rig.value("status", of: id) ?? ""] + pause).joined(separator: " · ")
    }

    private func check(_ text: String, _ name: String) throws {
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "Golden/\(name).txt")
        if ProcessInfo.processInfo.environment["PGPUSH_GOLDEN"] == "write" {
            return try Data(text.utf8).write(to: path)
        }
        let expected = try String(contentsOf: path, encoding: .utf8)
        let (found, wanted) = (text.components(separatedBy: "\n\n"), expected.components(separatedBy: "\n\n"))
        #expect(found.count == wanted.count)
        for (one, other) in zip(found, wanted) { #expect(one == other) }
    }
}
