// The requests of channel management, and what is made of the answers.

import APNs
import PushModel
import Testing

@testable import HTTP2

private func reply(_ status: UInt16, _ body: String = "", channel: String? = nil) -> APNsReply {
    APNsReply(
        HTTP2Response(
            status: status, body: Array(body.utf8), fields: channel.map { [("apns-channel-id", $0)] } ?? [],
            connection: 1), elapsed: .milliseconds(7))
}

@Suite("Channel management") struct ChannelTests {
    private let id = "dHN0LXNyY2gtY2hubA=="

    @Test("method, path and body are Apple's") func requests() throws {
        func path(_ request: ChannelRequest) -> String? { request.path(bundleID: "com.example.app") }
        let create = ChannelRequest.create(.latest)
        #expect(create.method == "POST" && path(create) == "/1/apps/com.example.app/channels")
        #expect(
            String(decoding: create.body, as: UTF8.self)
                == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
        #expect(
            String(decoding: ChannelRequest.create(.none).body, as: UTF8.self)
                == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        let others: [(ChannelRequest, String)] = [(.read(id: id), "GET"), (.delete(id: id), "DELETE"), (.list, "GET")]
        for (request, method) in others {
            #expect(request.method == method && request.body.isEmpty)
            #expect(try request.head().bodyCount == 0)
        }
        #expect(path(.read(id: id)) == "/1/apps/com.example.app/channels")
        #expect(path(.delete(id: id)) == "/1/apps/com.example.app/channels")
        #expect(path(.list) == "/1/apps/com.example.app/all-channels")
        #expect(ChannelRequest.list.path(bundleID: "com.example/x") == nil)
    }

    @Test(
        "an id that is none is not sent",
        arguments: ["", "a b", "a\r\nb: c", "ä", "x\u{0}", String(repeating: "A", count: 513), "a'b", "a;b"])
    func ids(text: String) {
        #expect(throws: APNsError.self) { try ChannelRequest.read(id: text).head() }
        #expect(throws: APNsError.self) { try ChannelRequest.delete(id: text).head() }
    }

    @Test("each good answer is understood") func answers() {
        #expect(ChannelAnswer(reply(201, channel: id), to: .create(.none)) == .created(id: id))
        #expect(ChannelAnswer(reply(204), to: .delete(id: id)) == .deleted)
        let body =
            #" {"push-type": "LiveActivity", "x": [{"message-storage-policy": 0}], "message-storage-policy": 1} "#
        #expect(
            ChannelAnswer(reply(200, body), to: .read(id: id))
                == .described(ChannelDescription(storage: .latest, pushType: "LiveActivity")))
        #expect(
            ChannelAnswer(reply(200, #"{"message-storage-policy":7}"#), to: .read(id: id))
                == .described(ChannelDescription(storage: nil, pushType: "")))
        #expect(ChannelAnswer(reply(200, #"{"channels":[]}"#), to: .list) == .listed([]))
        #expect(
            ChannelAnswer(reply(200, #"{ "channels" : ["YQ==", "YWI="] , "x": 1}"#), to: .list)
                == .listed(["YQ==", "YWI="]))
    }

    @Test("a list of ten thousand is read whole, one that was cut short is not") func longLists() {
        let ids = (0..<10_000).map { "AAAAAAAAAAAAAAAAA" + String(10_000 + $0) + "==" }
        let body = "{\"channels\":[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]}"
        #expect(ChannelAnswer(reply(200, body), to: .list) == .listed(ids))
        for cut in [1, 2, 3, 40, body.utf8.count - 5] {
            #expect(ChannelAnswer(reply(200, String(body.dropLast(cut))), to: .list) == nil, "\(cut)")
        }
    }

    @Test(
        "what is no good answer is not taken for one",
        arguments: [
            "", "{}", "[]", "<html>", #"{"channels":{}}"#, #"{"channels":[1]}"#, #"{"channels":["a b"]}"#,
            #"{"channels":["\u001b[31m"]}"#, #"{"channels":["YQ=="]} x"#, #"{"channels":["YQ==",]}"#,
            #"{"channels":"YQ=="}"#,
            #"{"channels":["YQ=="}"#, #"{"message-storage-policy":"1"}"#, #"{"message-storage-policy":1"#,
        ])
    func oddBodies(body: String) {
        #expect(ChannelAnswer(reply(200, body), to: .list) == nil)
        #expect(ChannelAnswer(reply(200, body), to: .read(id: id)) == nil)
    }

    @Test("another status is none either") func oddStatus() {
        #expect(ChannelAnswer(reply(200, channel: id), to: .create(.none)) == nil)
        #expect(ChannelAnswer(reply(201), to: .create(.none)) == nil)
        #expect(ChannelAnswer(reply(201, channel: "a b"), to: .create(.none)) == nil)
        #expect(ChannelAnswer(reply(200), to: .delete(id: id)) == nil)
        #expect(ChannelAnswer(reply(400, #"{"channels":[]}"#), to: .list) == nil)
    }

    @Test("reason and timestamp are read of refusals alone") func replies() {
        #expect(reply(400, #"{"reason":"BadChannelId"}"#).reason == "BadChannelId")
        #expect(reply(200, #"{"reason":"x"}"#).reason.isEmpty)
        let gone = #"{"reason":"Unregistered","timestamp":1767225600123}"#
        #expect(reply(410, gone).timestamp == 1_767_225_600_123)
        #expect(reply(400, gone).timestamp == nil)
    }

    @Test("ids of requests are UUIDs, none twice") func requestIDs() throws {
        let ids = (0..<1000).map { _ in RandomID.make() }
        #expect(Set(ids).count == 1000)
        let form = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/
        for id in ids { #expect(id.wholeMatch(of: form) != nil, "\(id)") }
    }
}

@Suite("What to do about an answer") struct AdviceTests {
    /// As Apple documents them, those of channels included, and as they were seen.
    private static let reasons = [
        "BadCollapseId", "BadDeviceToken", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
        "DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType", "MissingDeviceToken",
        "MissingTopic", "PayloadEmpty", "TopicDisallowed", "BadCertificate", "BadCertificateEnvironment",
        "ExpiredProviderToken", "Forbidden", "InvalidProviderToken", "MissingProviderToken", "UnrelatedKeyIdInToken",
        "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken", "BadPath", "MethodNotAllowed", "ExpiredToken",
        "Unregistered", "PayloadTooLarge", "TooManyProviderTokenUpdates", "TooManyRequests", "InternalServerError",
        "ServiceUnavailable", "Shutdown", "FeatureNotEnabled", "MissingChannelId", "BadChannelId",
        "ChannelNotRegistered", "BadRequestParams", "BadRequestPayload", "MissingPushType",
        "CannotCreateChannelConfig", "TopicMismatch",
    ]

    @Test("each reason has words of its own, and the worker knows it too", arguments: reasons)
    func known(reason: String) {
        #expect(AnswerAdvice.isKnown(reason))
        #expect(AnswerRules.isKnown(reason))
        let advice = AnswerAdvice.of(status: 400, reason: reason)
        #expect(!advice.meaning.isEmpty && advice.remedy?.isEmpty == false)
        #expect(!advice.meaning.hasSuffix(".") && !advice.meaning.contains("\n"))
    }

    @Test("an unknown reason follows its status", arguments: [302, 400, 401, 403, 404, 410, 413, 429, 500, 503])
    func unknown(status: Int) {
        #expect(!AnswerAdvice.isKnown("SomethingNew"))
        let advice = AnswerAdvice.of(status: status, reason: "SomethingNew")
        #expect(advice == AnswerAdvice.of(status: status, reason: ""))
        #expect(advice.remedy?.isEmpty == false)
    }
}
