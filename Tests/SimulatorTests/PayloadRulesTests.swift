// What is refused in a body, and what is only odd.

import APNsSimulator
import Testing

@Suite("Rules for the body of a push")
struct PayloadRulesTests {
    private static func body(ofSize size: Int) -> [UInt8] {
        let frame = "{\"aps\":{\"alert\":\"\"}}"
        return Array("{\"aps\":{\"alert\":\"\(String(repeating: "x", count: size - frame.utf8.count))\"}}".utf8)
    }

    @Test(
        "the size to the byte",
        arguments: [
            (PushKind.alert, 4096, false), (.alert, 4097, true), (.voip, 5120, false), (.voip, 5121, true),
            (.liveactivity, 4096, false), (.liveactivity, 4097, true),
        ])
    func size(kind: PushKind, size: Int, isTooLarge: Bool) {
        let finding = PayloadRules.check(Self.body(ofSize: size), kind: kind)
        #expect(finding.rejection == (isTooLarge ? .payloadTooLarge : nil))
    }

    @Test(
        "what is no JSON object is as good as empty",
        arguments: [
            "", "[]", "7", "null", "\"aps\"", "{", "{\"aps\":}", "{\"aps\":{}}x", "{'aps':{}}", "{\"a\":01}",
            "{\"a\":1,}",
            "{\"a\":\"\u{1}\"}", "{\"a\":\"\\x\"}", "{\"a\":tru}", "{\"a\":-}", "{\"a\":1.}",
        ])
    func noObject(text: String) {
        #expect(PayloadRules.check(Array(text.utf8), kind: .alert).rejection == .payloadEmpty)
    }

    @Test("bytes that are not UTF-8 are as good as empty")
    func noText() {
        #expect(
            PayloadRules.check([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D], kind: .alert).rejection == .payloadEmpty)
    }

    @Test(
        "good bodies have no warnings",
        arguments: [
            (
                PushKind.alert,
                "{\"aps\":{\"alert\":{\"title\":\"T\",\"loc-args\":[\"a\"]},\"badge\":0,\"sound\":\"default\"},\"k\":[1,2.5e3]}"
            ),
            (.alert, "{\"aps\":{\"badge\":0}}"), (.alert, "{}"),
            (
                .alert,
                "{\"aps\":{\"alert\":\"x\",\"mutable-content\":1,\"interruption-level\":\"critical\",\"relevance-score\":0.5}}"
            ),
            (.background, "{\"aps\":{\"content-available\":1},\"k\":1}"), (.voip, "{\"call\":1}"),
            (.mdm, "{\"mdm\":\"magic\"}"),
            (.liveactivity, "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{}}}"),
            (.liveactivity, "{\"aps\":{\"timestamp\":1,\"event\":\"end\",\"dismissal-date\":5}}"),
            (
                .liveactivity,
                "{\"aps\":{\"timestamp\":1,\"event\":\"start\",\"content-state\":{},\"attributes-type\":\"A\",\"attributes\":{},\"alert\":{\"title\":\"x\"}}}"
            ),
            (.widgets, "{\"aps\":{\"content-changed\":true}}"), (.controls, "{\"aps\":{\"content-changed\":true}}"),
            (
                .accessory,
                "{\"aps\":{\"encryptedData\":\"\",\"sessionIdentifier\":\"\",\"keyID\":\"\",\"messageIndex\":1}}"
            ),
        ])
    func noWarnings(kind: PushKind, text: String) {
        #expect(PayloadRules.check(Array(text.utf8), kind: kind) == PayloadFinding())
    }

    @Test(
        "what Apple may not deliver is told",
        arguments: [
            (PushKind.alert, "{\"aps\":{}}", "nothing to show, play or count"), (.alert, "{\"k\":1}", "aps is missing"),
            (.alert, "{\"aps\":[]}", "aps is not an object"),
            (.alert, "{\"aps\":{\"alert\":\"x\"},\"aps\":{\"badge\":1}}", "aps stands twice in the payload"),
            (.alert, "{\"aps\":{\"alert\":\"x\",\"alert\":\"y\"}}", "alert stands twice in aps"),
            (.alert, "{\"aps\":{\"alert\":\"x\",\"badge\":\"1\"}}", "aps.badge is not a whole number"),
            (.alert, "{\"aps\":{\"alert\":5}}", "aps.alert is neither text nor object"),
            (.alert, "{\"aps\":{\"badge\":1,\"mutable-content\":1}}", "aps.mutable-content without an alert"),
            (
                .alert, "{\"aps\":{\"alert\":\"x\",\"interruption-level\":\"loud\"}}",
                "aps.interruption-level is unknown"
            ),
            (.alert, "{\"aps\":{\"alert\":\"x\",\"relevance-score\":2}}", "aps.relevance-score is not between 0 and 1"),
            (.alert, "{\"aps\":{\"alert\":\"x\",\"custom\":1}}", "aps.custom is unknown"),
            (.alert, "{\"aps\":{\"alert\":\"x\",\"category\":null}}", "aps.category is not a text"),
            (.background, "{\"aps\":{\"content-available\":1,\"sound\":\"x\"}}", "a background push carries aps.sound"),
            (.background, "{\"aps\":{}}", "content-available is not 1"),
            (.mdm, "{}", "an mdm push needs a text in mdm"),
            (.mdm, "{\"mdm\":\"m\",\"aps\":{}}", "an mdm push has no aps"),
            (.liveactivity, "{\"aps\":{\"event\":\"update\",\"content-state\":{}}}", "timestamp is not a whole number"),
            (
                .liveactivity, "{\"aps\":{\"timestamp\":1,\"event\":\"jump\",\"content-state\":{}}}",
                "event is not start, update or end"
            ),
            (.liveactivity, "{\"aps\":{\"timestamp\":1,\"event\":\"update\"}}", "content-state is not an object"),
            (.widgets, "{\"aps\":{\"content-changed\":1}}", "content-changed is not true"),
            (.accessory, "{\"aps\":{}}", "aps.keyID is missing"),
        ])
    func warnings(kind: PushKind, text: String, warning: String) {
        let finding = PayloadRules.check(Array(text.utf8), kind: kind)
        #expect(finding.rejection == nil)
        #expect(finding.warnings.contains(warning))
    }

    @Test("strict mode refuses what is odd, and headers that Apple does not know")
    func strict() throws {
        let odd = Array("{\"aps\":{}}".utf8)
        let signer = try Signer.fresh()
        let lenient = try Bench(signer)
        let strict = try Bench(signer, strict: true)
        #expect(lenient.refusal(body: odd) == nil)
        #expect(strict.refusal(body: odd) == .badRequestPayload)
        #expect(lenient.refusal(["apns-colour": "red"]) == nil)
        #expect(strict.refusal(["apns-colour": "red"]) == .badRequestPayload)
        #expect(strict.refusal() == nil)
    }
}

@Suite("JSON as it comes from outside")
struct JSONTextTests {
    @Test(
        "texts with escapes",
        arguments: [
            ("\"a\\n\\u0041\\u00e9\\ud83d\\ude00\\/\"", "a\nAé😀/"), ("\"\\ud83d\"", "\u{FFFD}"), ("\"\\u0000\"", "\0"),
            ("\"\\ud83d\\u0041\"", "\u{FFFD}A"),
        ])
    func texts(json: String, text: String) { #expect(JSONText(Array(json.utf8)) == .string(text)) }

    @Test(
        "numbers",
        arguments: [
            ("0", JSONText.integer(0)), ("-12", .integer(-12)), ("1e2", .real(100)),
            ("100000000000000000000", .real(1e20)),
        ])
    func numbers(json: String, value: JSONText) { #expect(JSONText(Array(json.utf8)) == value) }

    @Test("depth is bounded, 200 levels are fine")
    func depth() {
        func nested(_ levels: Int) -> [UInt8] {
            Array((String(repeating: "[", count: levels) + String(repeating: "]", count: levels)).utf8)
        }
        #expect(JSONText(nested(200)) != nil)
        #expect(JSONText(nested(513)) == nil)
        #expect(JSONText([UInt8](repeating: UInt8(ascii: "["), count: 100_000)) == nil)
    }
}
