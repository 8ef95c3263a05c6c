// F19 to F21: what people write, as it arrives. SQLTests show under the same numbers what is rendered and refused; here the judge is
// the simulator, which got the bytes.

import Foundation
import TestSupport
import Testing

@Suite("Payload") struct Payloads {
    /// Stores notifications, each for a user of its own, sends them and returns the bodies that arrived, in that order.
    private func send(_ rows: [(columns: String, values: String)], _ rig: Rig) async throws -> [SimulatedRequest] {
        try rig.addDevices(1...rows.count)
        var ids: [Int] = []
        for (number, row) in rows.enumerated() {
            ids.append(try rig.insert("user_id, \(row.columns)", "'user-\(number + 1)', \(row.values)"))
        }
        try await rig.drain()
        let journal = try rig.simulator.journal()
        return try ids.enumerated().map { number, id in
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1), "\(rows[number])")
            let requests = journal.requests(for: DeviceTokens.plain(number + 1))
            let request = try #require(requests.first)
            let stored = try rig.value("payload", of: id)
            #expect(requests.count == 1 && request.body == stored)
            return request
        }
    }

    private func object(_ text: String?) throws -> NSDictionary {
        let json = try JSONSerialization.jsonObject(with: Data(try #require(text).utf8))
        return try #require(json as? NSDictionary, "\(text ?? "")")
    }

    @Test(
        "F19: every script arrives as raw UTF-8, and the limit is one of bytes: 4096 pass, 4097 do not and hinder nobody"
    )
    func scripts() async throws {
        let texts = [
            String(repeating: "漢", count: 1000),
            String(repeating: "👨‍👩‍👧‍👦🏳️‍🌈🇺🇦", count: 40),
            "\u{202B}שלום\u{202C} \u{2067}مرحبا بالعالم\u{2069} \u{200F}1,234\u{200E} e\u{301} ﷽",
            #""quoted" \ back\\slash / slash \u0041 "# + (1..<32).map { String(UnicodeScalar(UInt8($0))) }.joined()
                + "\u{7F}\u{2028}",
        ]
        // What stands around a body in the payload.
        let frame = #"{"aps":{"alert":{"body":""},"sound":"default"}}"#.utf8.count
        try await Rig.run { rig in
            let failure = #expect(throws: SQLFailure.self) {
                try rig.insert("user_id, body", "'user-1', repeat('x', \(4097 - frame))")
            }
            #expect(failure?.sqlState == "PN003" && failure?.message.contains("4097") == true, "\(failure as Any)")
            let command = try rig.pgpush(
                "enqueue", "--user", "user-1", "--body", String(repeating: "x", count: 4097 - frame))
            #expect(command.status == 1 && command.errors.contains("4097"), "\(command)")

            let written = texts.map { ("body", "convert_from('\\x\(hex($0))', 'UTF8')") }
            let filled = [4095, 4096].map { ("body", "repeat('x', \($0 - frame))") }
            let requests = try await send(written + filled, rig)
            for (text, request) in zip(texts, requests) {
                let alert = try #require((try object(request.body)["aps"] as? NSDictionary)?["alert"] as? NSDictionary)
                #expect(alert["body"] as? String == text)
            }
            for (text, request) in zip(texts.prefix(3), requests) {
                #expect(request.body?.contains(text) == true)
                #expect(request.bodyLength == frame + text.utf8.count)
            }
            #expect(requests.suffix(2).map(\.bodyLength) == [4095, 4096])
        }
    }

    private func hex(_ text: String) -> String {
        text.utf8.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    @Test("F20: a badge of 0 arrives as the number 0; what is null or empty does not arrive at all")
    func zeroAndEmpty() async throws {
        let title = #"{"aps":{"alert":{"title":"T"},"sound":"default"}}"#
        let body = #"{"aps":{"alert":{"body":"B"},"sound":"default"}}"#
        let forms = [
            ("badge", "0", #"{"aps":{"badge":0}}"#), ("title, badge", "'T', NULL", title),
            ("title, body", "'', 'B'", body), ("title", "'T'", title), ("title, body", "'T', ''", title),
            ("title, category", "'T', NULL", title), ("title, category", "'T', ''", title),
            ("title, subtitle, thread_id, target_content_id, interruption_level", "'T', '', '', '', NULL", title),
        ]
        try await Rig.run { rig in
            for nothing in ["NULL, NULL", "'', ''", "NULL, ''"] {
                let failure = #expect(throws: SQLFailure.self) {
                    try rig.insert("user_id, title, body", "'user-1', \(nothing)")
                }
                #expect(failure?.sqlState == "PN013" && failure?.hint?.isEmpty == false, "\(nothing)")
            }
            let refused = try rig.pgpush("enqueue", "--user", "user-1", "--title", "", "--body", "")
            #expect(refused.status != 0 && !refused.errors.isEmpty, "\(refused)")
            let command = try rig.pgpush("enqueue", "--user", "user-\(forms.count)", "--badge", "0")
            #expect(command.status == 0, "\(command)")
            let id = try #require(Int(command.output.trimmingCharacters(in: .newlines)))

            try rig.psql("UPDATE scheduled_notifications SET scheduled_at = now() + interval '1 hour' WHERE id = \(id)")
            let requests = try await send(forms.map { ($0.0, $0.1) }, rig)
            for (form, request) in zip(forms, requests) {
                #expect(try object(request.body) == object(form.2), "\(form)")
                #expect(request.body?.contains("null") == false)
            }
            try rig.psql("SELECT reschedule_notification(\(id), now())")
            try await rig.drain()
            #expect(try rig.simulator.journal().requests.last?.body == #"{"aps":{"badge":0}}"#)
        }
    }

    @Test(
        "F21: there is one aps, of the columns and the column aps; an aps in data, and data that is no object, are refused"
    )
    func oneAPS() async throws {
        let deep = String(repeating: #"{"a":"#, count: 200) + "1" + String(repeating: "}", count: 200)
        let forms = [
            ("title, data", #"'T', '{"k":1}'"#, #"{"k":1,"aps":{"alert":{"title":"T"},"sound":"default"}}"#),
            (
                "title, badge, aps, data", #"'T', 1, '{"alert":{"loc-key":"K"},"badge":9}', '{"k":{"aps":1}}'"#,
                #"{"k":{"aps":1},"aps":{"alert":{"title":"T","loc-key":"K"},"badge":9,"sound":"default"}}"#
            ),
            (
                "title, data", "'T', '\(deep)'",
                String(deep.dropLast()) + #","aps":{"alert":{"title":"T"},"sound":"default"}}"#
            ),
        ]
        try await Rig.run { rig in
            for (data, state) in [
                (#"{"aps":{"alert":"x","badge":9},"k":1}"#, "PN010"), (#"{"aps":null}"#, "PN010"), ("[1]", "PN008"),
                (#""text""#, "PN008"), ("7", "PN008"), ("null", "PN008"),
            ] {
                let failure = #expect(throws: SQLFailure.self, "\(data)") {
                    try rig.insert("user_id, title, data", "'user-1', 'T', '\(data)'")
                }
                #expect(failure?.sqlState == state && failure?.column == "data", "\(data)")
                let command = try rig.pgpush("enqueue", "--user", "user-1", "--title", "T", "--data", data)
                #expect(command.status == 1 && command.errors.contains("data"), "\(command)")
            }
            let requests = try await send(forms.map { ($0.0, $0.1) }, rig)
            for (form, request) in zip(forms, requests) {
                #expect(try object(request.body) == object(form.2), "\(form.0)")
                // Foundation would take the last of two.
                let top = request.body?.replacing(#""k":{"aps":1}"#, with: "") ?? ""
                #expect(top.components(separatedBy: #""aps":"#).count == 2)
            }
        }
    }
}
