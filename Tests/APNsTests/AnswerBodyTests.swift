// Bodies of answers: as documented, as seen in the field, and anything else.

import APNs
import PushModel
import TestSupport
import Testing

private func body(_ text: String) -> AnswerBody { AnswerBody(Array(text.utf8)) }

@Suite struct AnswerBodyTests {
    private static let formsCases: [(String, String, Int64?)] = [
        (#"{"reason":"BadDeviceToken"}"#, "BadDeviceToken", nil),
        (#"{"reason":"Unregistered","timestamp":1767225600123}"#, "Unregistered", 1_767_225_600_123),
        (#"{"timestamp":1767225600123,"reason":"Unregistered"}"#, "Unregistered", 1_767_225_600_123),
        (" \r\n\t{ \"reason\" : \"A\" , \"timestamp\" : 1767225600123 } ", "A", 1_767_225_600_123),
        ("\u{feff}{\"reason\":\"A\"}", "A", nil),
        (#"{"x":{"reason":"no","y":[1,{"a":"}"}]},"reason":"yes"}"#, "yes", nil),
        (#"{"x":"\"}{","y":null,"z":-1.5e9,"w":[],"reason":"yes"}"#, "yes", nil),
        (#"{"reason":"A","reason":"B"}"#, "B", nil),
        (#"{"REASON":"A"}"#, "", nil),
        (#"{"reasons":"A","a_very_long_key_that_is_cut":"x","reason":"B"}"#, "B", nil),
        (#"{"rea\u0073on":"A"}"#, "A", nil),
        (#"{"reason":5}"#, "", nil),
        (#"{"reason":null}"#, "", nil),
        (#"{"reason":["A"]}"#, "", nil),
        (#"{"reason":{"reason":"A"}}"#, "", nil),
        (#"{"reason":""}"#, "", nil),
        ("{}", "", nil),
        ("", "", nil),
        ("[]", "", nil),
        ("null", "", nil),
        (#""reason""#, "", nil),
        (#"[{"reason":"A"}]"#, "", nil),
        ("<html><body>502 {\"reason\":\"x\"}</body></html>", "", nil),
        ("BadDeviceToken", "", nil),
        // Cut off: what was complete counts, what was not does not.
        (#"{"reason":"BadDev"#, "", nil),
        (#"{"reason":"A""#, "A", nil),
        (#"{"reason":"A","timest"#, "A", nil),
        (#"{"reason""#, "", nil),
        ("{", "", nil),
        (#"{"reason":"A"} trailing"#, "A", nil),
    ]

    @Test(arguments: formsCases)
    func forms(_ text: String, _ reason: String, _ timestamp: Int64?) {
        #expect(body(text).reason == reason)
        #expect(body(text).timestamp == timestamp)
    }

    private static let F14_timestampsCases: [(String, Int64?)] = [
        // Milliseconds between 2008 and 2100.
        ("1767225600123", 1_767_225_600_123), ("1199145600000", 1_199_145_600_000),
        ("4102444800999", 4_102_444_800_999),
        // The same in seconds: January 1970 cannot be meant.
        ("1767225600", 1_767_225_600_000), ("1199145600", 1_199_145_600_000),
        // Counts as absent.
        ("0", nil), ("-1", nil), ("-1767225600123", nil), ("1", nil), ("1199145599999", nil), ("1199145599", nil),
        ("4102444801000", nil), ("1767225600123000", nil), ("100000000000000000000", nil),
        ("99999999999999999999999999999999999999", nil), ("1e20", nil), ("1.767225600123e12", nil),
        ("1767225600123.0", nil), ("\"1767225600123\"", nil), ("null", nil), ("true", nil), ("[1767225600123]", nil),
        ("{\"a\":1767225600123}", nil), ("1767225600123x", nil), ("0x19b8", nil), ("+1767225600123", nil),
        ("9223372036854775807", nil), ("9223372036854775808", nil), ("", nil),
    ]

    @Test(arguments: F14_timestampsCases)
    func F14_timestamps(_ number: String, _ expected: Int64?) {
        #expect(body("{\"reason\":\"Unregistered\",\"timestamp\":\(number)}").timestamp == expected)
        #expect(body("{\"timestamp\":\(number),\"reason\":\"Unregistered\"}").timestamp == expected)
        // Whatever stands there, the reason beside it is read.
        #expect(body("{\"reason\":\"Unregistered\",\"timestamp\":\(number)}").reason == "Unregistered")
        if !number.isEmpty {
            #expect(body("{\"timestamp\":\(number) , \"reason\":\"Unregistered\"}").reason == "Unregistered")
        }
    }

    @Test(arguments: [
        (#"a\u0000b"#, "a b"), (#"\u0000"#, ""), (#"a\ud83dz"#, "a\u{fffd}z"), (#"a\ude00"#, "a\u{fffd}"),
        (#"\ud83d\ude00"#, "😀"), (#"\ud83d\u0041"#, "\u{fffd}A"), (#"\ud83d\ud83d\ude00"#, "\u{fffd}😀"),
        (#"a\nb\tc\r\n"#, "a b c"), (#"\"\\\/"#, "\"\\/"), (#"\u00e9"#, "é"), (#"\uZZZZ"#, "\u{fffd}ZZZZ"),
        (#"\q"#, "q"), ("a\u{0}\u{1}b", "a b"), ("\u{202e}abc", "abc"), ("  a   b  ", "a b"), ("\u{9b}x", "x"),
    ])
    func F28_reasonsAreCleaned(_ raw: String, _ cleaned: String) {
        #expect(body("{\"reason\":\"\(raw)\"}").reason == cleaned)
    }

    @Test func brokenUTF8IsRepaired() {
        let bytes = Array("{\"reason\":\"a".utf8) + [0xff, 0xfe, 0xc3] + Array("b\"}".utf8)
        let reason = AnswerBody(bytes).reason
        #expect(reason == "a\u{fffd}\u{fffd}\u{fffd}b")
        // A sequence cut in two by the bound of what is kept.
        let long = Array("{\"reason\":\"".utf8) + Array(String(repeating: "é", count: 5000).utf8) + Array("\"}".utf8)
        #expect(AnswerBody(long).reason.isEmpty)
    }

    @Test func reasonsHaveAtMost200Characters() {
        for piece in ["x", "é", "😀", "e\u{301}\u{302}\u{303}"] {
            let reason = body("{\"reason\":\"\(String(repeating: piece, count: 400))\"}").reason
            #expect(reason.unicodeScalars.count <= 200)
            #expect(reason.unicodeScalars.count >= 199)
        }
    }

    @Test func deepAndLongBodiesEnd() {
        let deep = String(repeating: "[", count: 1_000_000)
        #expect(body("{\"x\":\(deep)").reason.isEmpty)
        #expect(body("{\"x\":\(String(repeating: "{\"a\":", count: 500))1").reason.isEmpty)
        let nested = String(repeating: "[", count: 1000) + String(repeating: "]", count: 1000)
        #expect(body("{\"x\":\(nested),\"reason\":\"A\"}").reason == "A")
        #expect(body("{\"x\":\"\(String(repeating: "y", count: 8000))\",\"reason\":\"A\"}").reason.isEmpty)
    }

    /// Mutations of good bodies: whatever comes, the scanner ends, and what it gives out is clean and bounded.
    @Test func seededNoise() {
        let seeds = [
            #"{"reason":"Unregistered","timestamp":1767225600123}"#,
            #"{"a":[{"b":"\u00e9\ud83d\ude00"}],"reason":"x"}"#,
            "<html>\u{0}</html>", #"{"timestamp":-1e5,"reason":"\\\""}"#,
        ].map { Array($0.utf8) }
        let pieces = ["\"", "\\", "{", "}", "[", "]", ":", ",", "\\u", "\\ud83d", "reason", "timestamp", "9", "\u{0}"]
            .map { Array($0.utf8) }
        var random = SeededGenerator(seed: 20_261_130)
        for round in 0..<20_000 {
            var bytes = seeds[round % seeds.count]
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let position = Int.random(in: 0...bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes.insert(UInt8.random(in: 0...255, using: &random), at: position)
                case 1: bytes.insert(contentsOf: pieces.randomElement(using: &random) ?? [], at: position)
                case 2: bytes.removeSubrange(position...)
                default: if position < bytes.count { bytes[position] = UInt8.random(in: 0...255, using: &random) }
                }
            }
            let answer = AnswerBody(bytes)
            #expect(answer.reason.unicodeScalars.count <= 200)
            #expect(!answer.reason.unicodeScalars.contains { $0.value < 0x20 || (0x7f..<0xa0).contains($0.value) })
            if let timestamp = answer.timestamp {
                #expect((1_199_145_600_000...4_102_444_800_999).contains(timestamp))
            }
            // And nothing that it says makes anything trap.
            _ = AnswerRules.verdict(PushAnswer(status: 410, reason: answer.reason, timestamp: answer.timestamp))
        }
    }

    @Test func farewells() {
        let farewell = Farewell(debugText: #"{"reason":"BadCertificateEnvironment"}"#)
        #expect(farewell.reason == "BadCertificateEnvironment")
        #expect(farewell.verdict()?.request == .hold(.environment))
        let plain = Farewell(debugText: "Maximum active streams violated for this endpoint.\u{0}")
        #expect(plain.reason == "Maximum active streams violated for this endpoint.")
        #expect(plain.verdict() == nil)
        #expect(Farewell(debugData: []).reason.isEmpty)
        #expect(Farewell(debugData: [0xff, 0x00]).reason == "\u{fffd}")
        #expect(Farewell(debugText: #"{"reason":"Shutdown"}"#).verdict(repeats: 3) == nil)
    }

    private static let retryAfterCases: [(String, Int64?)] = [
        ("120", 120), (" 5 ", 5), ("0", 0), ("99999999999999999999999", 1_000_000_000), ("-5", nil), ("5s", nil),
        ("", nil), ("soon", nil), ("Sun, 06 Nov 1994 08:49:37 GMT", 37), ("Sun, 06 Nov 1994 08:48:00 GMT", nil),
        ("Thu, 29 Feb 1996 00:00:00 GMT", 41_440_260), ("Sun, 06 Nov 1994 08:49:37 CET", nil),
        ("Sun, 06 Foo 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 25:49:37 GMT", nil), ("Sun, 06 Nov 1994", nil),
    ]

    @Test(arguments: retryAfterCases)
    func retryAfter(_ value: String, _ seconds: Int64?) {
        #expect(RetryAfter.duration(value, now: 784_111_740) == seconds.map { .seconds($0) })
    }
}
