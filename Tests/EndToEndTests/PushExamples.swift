// Every push that sql/README.md shows, sent to a simulator that refuses what Apple would refuse or never deliver.

import Foundation
import TestSupport
import Testing

@Suite("The examples of the push types") struct PushExamples {
    /// The statements between "```sql push" and "```", one text for each block.
    private func examples() throws -> [String] {
        let text = try String(contentsOfFile: "\(SchemaFiles.folder)/README.md", encoding: .utf8)
        return text.matches(of: /(?ms)^```sql push\n(.+?)^```$/).map { String($0.1) }
    }

    @Test("are accepted to the byte, of every type, with every priority and event")
    func accepted() async throws {
        try await Rig.run(simulator: ["--strict"]) { rig in
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('anna', '\(DeviceTokens.plain(1))')")
            let blocks = try examples()
            #expect(blocks.count >= 5)
            for block in blocks { try rig.psql(block) }
            try await rig.drain()

            let rows = try rig.psql("SELECT id, status, push_type, payload FROM scheduled_notifications ORDER BY id")
            let journal = try rig.simulator.journal()
            #expect(rows.count >= 22 && journal.requests.count == rows.count)
            for request in journal.requests {
                #expect(request.isAccepted && request.warnings == nil, "\(request)")
                let row = try rig.psql(
                    """
                    SELECT status, push_type, payload, round(extract(epoch FROM expires_at)), coalesce(priority, 0)
                    FROM scheduled_notifications
                    WHERE id = apns_id_notification('\(try #require(request.apnsId))')
                    """)[0]
                #expect(row[0] == "sent")
                #expect(row[1] == request.headers["apns-push-type"])
                #expect(row[2] == request.body, "to the byte")
            }
            #expect(
                Set(journal.requests.compactMap { $0.headers["apns-push-type"] }) == [
                    "alert", "background", "voip", "complication", "fileprovider", "mdm", "location", "liveactivity",
                    "pushtotalk", "widgets", "controls", "accessory",
                ])
            #expect(Set(journal.requests.compactMap { $0.headers["apns-priority"] }) == ["1", "5", "10"])
            #expect(journal.requests.contains { $0.headers["apns-collapse-id"] == "match-17" })
            #expect(journal.requests.contains { $0.headers["apns-expiration"] == "0" })
            #expect(
                Set(journal.requests.map { "\(event($0) ?? "none")" }) == ["none", "start", "update", "end"])
        }
    }

    @Test("content-state keeps its JSON value, and raw_payload its very bytes")
    func contentState() async throws {
        let states = [
            #"{"b": 1, "a": {"z": null, "y": [1, 2.50, -1e3, true, "x, y: z"]}, "": "é \" \\ \u001f"}"#,
            #"{"big": 12345678901234567890.12345678901234567890, "none": null}"#, "{}",
        ]
        let raws = states.map { #"{ "aps": {"timestamp":1, "event" : "update","content-state":\#($0)}, "n":1.0 }"# }
        try await Rig.run(simulator: ["--strict"]) { rig in
            try rig.addDevices(1...1)
            var expected: [Int: String] = [:]
            for state in states {
                expected[
                    try rig.insert(
                        "user_id, push_type, aps",
                        "'user-1', 'liveactivity', $s${\"event\": \"update\", \"content-state\": \(state)}$s$")] = state
            }
            var bytes: [Int: String] = [:]
            for raw in raws {
                bytes[
                    try rig.insert("user_id, push_type, raw_payload", "'user-1', 'liveactivity', $s$\(raw)$s$")] = raw
            }
            try await rig.drain()
            let requests = try rig.simulator.journal().requests
            #expect(requests.count == 6 && requests.allSatisfy(\.isAccepted))
            for request in requests {
                let id = try rig.database.number("SELECT apns_id_notification('\(request.apnsId ?? "")')")
                let body = try #require(request.body)
                if let raw = bytes[id] { #expect(body == raw) }
                guard let state = expected[id] else { continue }
                // PostgreSQL compares numbers of any length by their value.
                let isSame = try rig.database.value(
                    "SELECT $s$\(body)$s$::jsonb #> '{aps,content-state}' = $s$\(state)$s$::jsonb")
                #expect(isSame == "t", "\(body)")
            }
        }
    }

    private func event(_ request: SimulatedRequest) -> String? {
        let body = try? JSONSerialization.jsonObject(with: Data((request.body ?? "").utf8)) as? [String: Any]
        return (body?["aps"] as? [String: Any])?["event"] as? String
    }
}
