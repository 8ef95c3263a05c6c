// Every rule about method, path and headers, each with its own reason.

import APNsSimulator
import Testing

@Suite("Rules for the headers of a push")
struct PushRulesTests {
    private let signer: Signer
    private let bench: Bench

    init() throws {
        signer = try Signer.fresh()
        bench = try Bench(signer)
    }

    @Test("a good push is accepted")
    func accepted() { #expect(bench.refusal() == nil) }

    @Test(
        "method and path come first, even without a provider token",
        arguments: [
            ("GET", "/3/device/00", Rejection.methodNotAllowed), ("PUT", "/nowhere", .methodNotAllowed),
            ("POST", "/", .badPath), ("POST", "/2/device/00", .badPath), ("POST", "/3/device/ab/cd", .badPath),
            ("POST", "/3/devices/00", .badPath), ("POST", "", .badPath), ("POST", "/3/device/", .missingDeviceToken),
        ])
    func shape(method: String, path: String, reason: Rejection) {
        #expect(bench.refusal(["authorization": nil], method: method, path: path) == reason)
    }

    @Test(
        "a header that comes twice",
        arguments: [
            "apns-topic", "apns-id", "apns-push-type", "apns-priority", "apns-expiration", "authorization",
        ])
    func duplicates(name: String) {
        #expect(bench.refusal(extra: [(name: name, value: "x")]) == .duplicateHeaders)
    }

    @Test(
        "apns-id",
        arguments: [
            ("01234567-89ab-cdef-0123-456789abcdef", nil), ("01234567-89AB-CDEF-0123-456789ABCDEF", nil), (nil, nil),
            ("", Rejection.badMessageID), ("0123456789abcdef0123456789abcdef", .badMessageID),
            ("01234567-89ab-cdef-0123-456789abcdeg", .badMessageID),
            ("01234567-89ab-cdef-0123-456789abcdef0", .badMessageID),
        ] as [(String?, Rejection?)])
    func identifier(value: String?, reason: Rejection?) {
        #expect(bench.refusal(["apns-id": value]) == reason)
    }

    @Test(
        "apns-expiration",
        arguments: [
            (nil, nil), ("0", nil), ("1893456000", nil), ("-1", Rejection.badExpirationDate), ("", .badExpirationDate),
            ("1893456000.5", .badExpirationDate), ("tomorrow", .badExpirationDate),
            ("1893456000000", .badExpirationDate), ("99999999999999999999", .badExpirationDate),
        ] as [(String?, Rejection?)])
    func expiration(value: String?, reason: Rejection?) {
        #expect(bench.refusal(["apns-expiration": value]) == reason)
    }

    @Test(
        "apns-priority",
        arguments: [
            (nil, nil), ("10", nil), ("5", nil), ("1", nil), ("0", Rejection.badPriority), ("7", .badPriority),
            ("high", .badPriority), ("", .badPriority), ("010", .badPriority),
        ] as [(String?, Rejection?)])
    func priority(value: String?, reason: Rejection?) {
        #expect(bench.refusal(["apns-priority": value]) == reason)
    }

    @Test("a background push is not of priority 10, neither said nor by default")
    func background() {
        let body = Array("{\"aps\":{\"content-available\":1}}".utf8)
        let changes: [String: String?] = ["apns-push-type": "background"]
        #expect(bench.refusal(changes, body: body) == .badPriority)
        #expect(bench.refusal(changes.merging(["apns-priority": nil]) { $1 }, body: body) == .badPriority)
        #expect(bench.refusal(changes.merging(["apns-priority": "5"]) { $1 }, body: body) == nil)
    }

    @Test("apns-push-type that nobody knows", arguments: ["", "Alert", "loud"])
    func pushType(value: String) {
        #expect(bench.refusal(["apns-push-type": value]) == .invalidPushType)
    }

    @Test("each push type has a topic of its own", arguments: PushKind.allCases)
    func suffixes(kind: PushKind) {
        let topic = kind == .mdm ? "com.apple.mgmt.External.0123" : appTopic + kind.topicSuffix
        let changes = ["apns-push-type": kind.rawValue, "apns-priority": "5", "apns-topic": topic]
        #expect(bench.refusal(changes, body: Array("{}".utf8)) == nil)
        if !kind.topicSuffix.isEmpty {
            let bare = changes.merging(["apns-topic": appTopic]) { $1 }
            #expect(bench.refusal(bare, body: Array("{}".utf8)) == .deviceTokenNotForTopic)
        }
    }

    @Test(
        "apns-topic",
        arguments: [
            (nil, Rejection.missingTopic), ("", .missingTopic), ("com.example/pgpush", .badTopic),
            ("com example", .badTopic),
            ("com.example.other", .topicDisallowed),
            ("com.example.pgpush.push-type.liveactivity", .deviceTokenNotForTopic),
            ("com.example.pgpush.nonsense", .topicDisallowed),
        ] as [(String?, Rejection)])
    func topic(value: String?, reason: Rejection) {
        #expect(bench.refusal(["apns-topic": value]) == reason)
    }

    @Test("apns-collapse-id has 64 bytes, not characters")
    func collapse() {
        #expect(bench.refusal(["apns-collapse-id": String(repeating: "x", count: 64)]) == nil)
        #expect(bench.refusal(["apns-collapse-id": String(repeating: "x", count: 65)]) == .badCollapseID)
        #expect(bench.refusal(["apns-collapse-id": String(repeating: "é", count: 33)]) == .badCollapseID)
    }

    @Test(
        "device tokens",
        arguments: [
            (String(repeating: "a", count: 64), nil), (String(repeating: "A", count: 64), nil),
            (String(repeating: "b", count: 160), nil), (String(repeating: "a", count: 63), Rejection.badDeviceToken),
            (String(repeating: "a", count: 62), .badDeviceToken), (String(repeating: "g", count: 64), .badDeviceToken),
            (String(repeating: "a", count: 65), .badDeviceToken), (String(repeating: "a", count: 514), .badDeviceToken),
            ("null", .badDeviceToken),
        ] as [(String, Rejection?)])
    func tokens(token: String, reason: Rejection?) {
        #expect(bench.refusal(token: token) == reason)
    }

    @Test("the order: token before headers, headers before body")
    func order() {
        let wrongEverywhere: [String: String?] = ["apns-id": "x", "apns-topic": nil, "authorization": nil]
        #expect(bench.refusal(wrongEverywhere, token: "zz", body: []) == .missingProviderToken)
        #expect(bench.refusal(["apns-id": "x", "apns-topic": nil], token: "zz", body: []) == .badMessageID)
        #expect(bench.refusal(["apns-topic": nil], token: "zz", body: []) == .missingTopic)
        #expect(bench.refusal(token: "zz", body: []) == .badDeviceToken)
        #expect(bench.refusal(body: []) == .payloadEmpty)
    }
}
