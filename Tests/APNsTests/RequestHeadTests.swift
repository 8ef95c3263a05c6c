// Headers: the golden set of each push type, expirations, and what cannot be sent.

import APNs
import HTTP2
import PushModel
import Testing

private let now: Int64 = 1_800_000_000

private func content(
    _ type: PushType = .alert, priority: Int = 10, topic: String? = nil, collapseID: String? = nil,
    expiresAt: Int64? = now + 60, storeIfOffline: Bool = true, channelID: String? = nil,
    payload: [UInt8] = [0x7b, 0x7d]
) -> PushContent {
    PushContent(
        notificationID: 7, app: "default", pushType: type, priority: priority, topic: topic, collapseID: collapseID,
        expiresAt: expiresAt, storeIfOffline: storeIfOffline, channelID: channelID, payload: payload)
}

private func lines(_ content: PushContent) throws -> [String] {
    try APNsRequestHeads.fields(content, bundleID: "com.example.app", now: now).map { "\($0.name): \($0.value)" }
}

@Suite struct RequestHeadTests {
    private static let goldenCases: [(PushType, Int, String)] = [
        (PushType.alert, 10, "com.example.app"),
        (.background, 5, "com.example.app"),
        (.voip, 10, "com.example.app.voip"),
        (.complication, 10, "com.example.app.complication"),
        (.fileprovider, 10, "com.example.app.pushkit.fileprovider"),
        (.location, 10, "com.example.app.location-query"),
        (.liveactivity, 10, "com.example.app.push-type.liveactivity"),
        (.pushtotalk, 10, "com.example.app.voip-ptt"),
        (.widgets, 5, "com.example.app.push-type.widgets"),
        (.controls, 1, "com.example.app.push-type.controls"),
        (.accessory, 10, "com.example.app.push-type.accessory"),
    ]

    @Test(arguments: goldenCases)
    func golden(_ type: PushType, _ priority: Int, _ topic: String) throws {
        #expect(
            try lines(content(type, priority: priority, collapseID: "c-1")) == [
                "apns-push-type: \(type.rawValue)", "apns-topic: \(topic)", "apns-priority: \(priority)",
                "apns-expiration: 1800000060", "apns-collapse-id: c-1",
            ])
        // A topic of its own replaces bundle id and suffix.
        #expect(try lines(content(type, priority: priority, topic: "x.y")).contains("apns-topic: x.y"))
    }

    @Test func goldenForDeviceManagement() throws {
        #expect(
            try lines(content(.mdm, topic: "com.apple.mgmt.External.1")) == [
                "apns-push-type: mdm", "apns-topic: com.apple.mgmt.External.1", "apns-priority: 10",
                "apns-expiration: 1800000060",
            ])
        #expect(fault(content(.mdm))?.subject == "apns-topic")
    }

    @Test func goldenForChannels() throws {
        let channel = content(.liveactivity, storeIfOffline: false, channelID: "dHN0LXNyY2gtY2hubA==")
        #expect(
            try lines(channel) == [
                "apns-push-type: liveactivity", "apns-channel-id: dHN0LXNyY2gtY2hubA==", "apns-priority: 10",
                "apns-expiration: 0",
            ])
        #expect(channel.effectiveTopic(bundleID: "a.b") == "a.b.push-type.liveactivity")
    }

    @Test func everyTypeHasARow() { #expect(PushType.allCases.count == 12) }

    @Test func fieldsThatChangeAreNotIndexed() throws {
        let fields = try APNsRequestHeads.fields(content(collapseID: "c"), bundleID: "a.b", now: now)
        for field in fields {
            let changes = ["apns-expiration", "apns-collapse-id"].contains(field.name)
            #expect((field.indexing == .none) == changes, "\(field.name)")
        }
    }

    @Test func expirations() throws {
        func expiration(_ expiresAt: Int64?, store: Bool = true) throws -> String? {
            try lines(content(expiresAt: expiresAt, storeIfOffline: store)).first { $0.hasPrefix("apns-expiration") }
        }
        #expect(try expiration(nil) == "apns-expiration: 1802592000")
        #expect(try expiration(now + 5) == "apns-expiration: 1800000005")
        #expect(try expiration(nil, store: false) == "apns-expiration: 0")
        #expect(try expiration(now + 5, store: false) == "apns-expiration: 0")
        // Long over is not the same as "try once".
        #expect(try expiration(0) == "apns-expiration: 1")
        #expect(try expiration(-5) == "apns-expiration: 1")
        #expect(try expiration(.max) == "apns-expiration: 253402300799")
    }

    private func fault(_ content: PushContent) -> APNsError? {
        do {
            _ = try APNsRequestHeads.fields(content, bundleID: "com.example.app", now: now)
            return nil
        } catch {
            #expect(error.code == .content)
            #expect(!error.description.contains("\n"))
            return error
        }
    }

    @Test func prioritiesAreChecked() {
        for type in PushType.allCases {
            for priority in [-1, 0, 1, 2, 5, 9, 10, 11] {
                let allowed = priority == 1 || priority == 5 || (priority == 10 && type != .background)
                let found = fault(content(type, priority: priority, topic: "t"))
                #expect((found == nil) == allowed, "\(type) \(priority)")
                if !allowed { #expect(found?.subject == "apns-priority") }
            }
        }
    }

    @Test func payloadsAreMeasured() {
        func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x20, count: count) }
        for type in PushType.allCases {
            let priority = type == .background ? 5 : 10
            let limit = type == .voip ? 5120 : 4096
            #expect(fault(content(type, priority: priority, topic: "t", payload: bytes(limit))) == nil)
            #expect(
                fault(content(type, priority: priority, topic: "t", payload: bytes(limit + 1)))?.subject == "payload")
        }
        #expect(fault(content(.liveactivity, channelID: "c", payload: bytes(5120))) == nil)
        #expect(fault(content(.liveactivity, channelID: "c", payload: bytes(5121)))?.subject == "payload")
        #expect(fault(content(payload: []))?.subject == "payload")
    }

    @Test(arguments: ["", " x", "x ", "a\r\nb: c", "a\nb", "a\u{0}", "a\tb", "a\u{7f}"])
    func valuesThatCannotStandInAHeader(_ text: String) {
        #expect(!HeaderValue.isSound(text))
        #expect(fault(content(collapseID: text))?.subject == "apns-collapse-id")
        #expect(fault(content(topic: text))?.subject == "apns-topic")
        #expect(fault(content(.liveactivity, channelID: text))?.subject == "apns-channel-id")
    }

    @Test(arguments: ["ä", "größe", "😀"])
    func onlyACollapseIdNeedNotBeASCII(_ text: String) throws {
        #expect(try lines(content(collapseID: text)).last == "apns-collapse-id: \(text)")
        #expect(fault(content(topic: text))?.subject == "apns-topic")
        #expect(fault(content(.liveactivity, channelID: text))?.subject == "apns-channel-id")
    }

    @Test func collapseIdsAreMeasured() {
        #expect(fault(content(collapseID: String(repeating: "c", count: 64))) == nil)
        #expect(fault(content(collapseID: String(repeating: "c", count: 65)))?.subject == "apns-collapse-id")
        #expect(fault(content(collapseID: String(repeating: "é", count: 33)))?.subject == "apns-collapse-id")
        #expect(HeaderValue.isSound("a b~!"))
    }

    @Test func headsAreSharedWhileNothingChanges() throws {
        let heads = APNsRequestHeads(bundleID: "com.example.app", capacity: 2)
        let first = try heads.head(for: content(), now: now)
        #expect(try heads.head(for: content(), now: now + 100_000) === first)
        #expect(first.bodyCount == 2)
        var edited = content()
        edited.payload = Array("{\"a\":1}".utf8)
        #expect(try heads.head(for: edited, now: now) !== first)
        // What counts from now is not used for ever.
        let lasting = content(expiresAt: nil)
        let counted = try heads.head(for: lasting, now: now)
        #expect(try heads.head(for: lasting, now: now + 3599) === counted)
        #expect(try heads.head(for: lasting, now: now + 3600) !== counted)
        #expect(try heads.head(for: lasting, now: now - 1) !== counted)
    }

    @Test func theOldestHeadIsDropped() throws {
        let heads = APNsRequestHeads(bundleID: "com.example.app", capacity: 2)
        func head(_ id: Int64) throws -> HTTP2RequestHead {
            var one = content()
            one.notificationID = id
            return try heads.head(for: one, now: now)
        }
        let one = try head(1)
        let two = try head(2)
        #expect(try head(1) === one)
        _ = try head(3)
        #expect(try head(2) === two)
        #expect(try head(1) !== one)
    }
}
