// Channels: making, reading, deleting and listing them, and sending to them.

import APNsSimulator
import Foundation
import Reactor
import Testing

@Suite("Channels")
struct ChannelTests {
    private let bench: Bench
    private let path = "/1/apps/\(appTopic)/channels"
    private let unknown = "dHN0LXNyY2gtY2hubA=="

    init() throws { bench = try Bench(try Signer.fresh()) }

    private func send(
        _ method: String, _ path: String, _ headers: [String: String] = [:], _ body: String = ""
    ) -> Answer? {
        let fields =
            [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
            + headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        let ruling = bench.send { bearer in
            IncomingRequest(
                fields: fields.map { (name: $0.0, value: $0.1) } + [(name: "authorization", value: bearer)],
                body: Array(body.utf8))
        }
        if case .answer(let answer) = ruling.decision { return answer }
        return nil
    }

    private func body(_ policy: Int) -> String {
        "{\"message-storage-policy\":\(policy),\"push-type\":\"LiveActivity\"}"
    }

    private func create(_ policy: Int = 1) throws -> String {
        let answer = try #require(send("POST", path, [:], body(policy)))
        guard case .created(let id)? = answer.channel else { throw SimulatorError.usage("\(answer)") }
        #expect(answer.status == 201)
        return id
    }

    private func all() -> ChannelOutcome? { send("GET", "/1/apps/\(appTopic)/all-channels")?.channel }

    private func push(
        _ changes: [String: String?], path: String = "/4/broadcasts/apps/\(appTopic)", event: String = "update",
        padding: Int = 0
    ) -> Rejection? {
        var headers: [String: String?] = [
            "apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0",
            "apns-id": "01234567-89ab-cdef-0123-456789abcdef",
        ]
        for (name, value) in changes { headers.updateValue(value, forKey: name) }
        let text = String(repeating: "x", count: padding)
        let body =
            "{\"aps\":{\"timestamp\":1,\"event\":\"\(event)\",\"content-state\":{\"x\":\"\(text)\"}}}"
        return send("POST", path, headers.compactMapValues(\.self), body)?.rejection
    }

    @Test("are made, read, listed and deleted") func life() throws {
        #expect(all() == .listed([]))
        let first = try create(0)
        let second = try create(1)
        #expect(first != second && first.count == 24 && Data(base64Encoded: first)?.count == 16)
        #expect(all() == .listed([first, second]))
        #expect(send("GET", path, ["apns-channel-id": first])?.channel == .described(policy: 0))
        #expect(send("GET", path, ["apns-channel-id": second])?.channel == .described(policy: 1))
        let deleted = send("DELETE", path, ["apns-channel-id": first])
        #expect(deleted?.channel == .deleted && deleted?.status == 204)
        #expect(send("DELETE", path, ["apns-channel-id": first])?.rejection == .channelNotRegistered)
        #expect(send("GET", path, ["apns-channel-id": first])?.rejection == .channelNotRegistered)
        #expect(all() == .listed([second]))
    }

    @Test("have the same ids for the same seed, others for another") func seeds() throws {
        func ids(_ seed: UInt64) throws -> [String] {
            bench.judge = Judge(rules: bench.judge.rules, registry: bench.judge.registry, seed: seed)
            return try (0..<3).map { _ in try create() }
        }
        #expect(try ids(1) == ids(1))
        #expect(try Set(ids(1)).isDisjoint(with: ids(2)))
    }

    @Test("belong to one environment") func environments() throws {
        let id = try create()
        bench.environment = .sandbox
        #expect(all() == .listed([]))
        #expect(send("GET", path, ["apns-channel-id": id])?.rejection == .channelNotRegistered)
        #expect(push(["apns-channel-id": id]) == .channelNotRegistered)
    }

    @Test("are as many as the limit says, and cannot be changed") func limits() throws {
        bench.judge.weather.channelLimit = 2
        let id = try create(0)
        _ = try create()
        #expect(send("POST", path, [:], body(1))?.rejection == .cannotCreateChannel)
        for method in ["PUT", "PATCH"] { #expect(send(method, path, [:], body(1))?.rejection == .methodNotAllowed) }
        #expect(send("DELETE", "/1/apps/\(appTopic)/all-channels")?.rejection == .methodNotAllowed)
        #expect(send("DELETE", path, ["apns-channel-id": id])?.status == 204)
        _ = try create()
    }

    @Test(
        "are not made by a request that is not right",
        arguments: [
            ("", Rejection.badRequestPayload), ("[]", .badRequestPayload), ("{}", .missingPushType),
            (#"{"push-type":"liveactivity","message-storage-policy":1}"#, .invalidPushType),
            (#"{"push-type":"LiveActivity"}"#, .badRequestPayload),
            (#"{"push-type":"LiveActivity","message-storage-policy":2}"#, .badRequestPayload),
            (#"{"push-type":"LiveActivity","message-storage-policy":"1"}"#, .badRequestPayload),
        ])
    func bodies(body: String, reason: Rejection) {
        #expect(send("POST", path, [:], body)?.rejection == reason)
        #expect(all() == .listed([]))
    }

    @Test("need a provider token, the right app, and ids that are some") func refusals() {
        #expect(send("GET", path)?.rejection == .missingChannelID)
        for id in ["x", "a b=", "====", String(repeating: "A", count: 516)] {
            #expect(send("GET", path, ["apns-channel-id": id])?.rejection == .badChannelID, "\(id)")
        }
        #expect(send("GET", path, ["apns-channel-id": unknown])?.rejection == .channelNotRegistered)
        #expect(
            send("GET", path, ["apns-channel-id": unknown, "apns-request-id": "1"])?.rejection == .badRequestParams)
        #expect(send("GET", "/1/apps/com.example.other/all-channels")?.rejection == .topicMismatch)
        #expect(
            send("GET", "/1/apps/\(appTopic).push-type.liveactivity/all-channels")?.rejection == .topicDisallowed)
        let unsigned = bench.judge.decide(
            IncomingRequest(fields: [(name: ":method", value: "GET"), (name: ":path", value: path)], body: []),
            trust: &bench.trust, environment: .production, at: RulingTime(monotonic: .now(), wallSeconds: 1))
        #expect(unsigned.rejection == .missingProviderToken)
    }

    @Test("take pushes") func pushes() throws {
        let (latest, none) = (try create(1), try create(0))
        #expect(push(["apns-channel-id": latest]) == nil)
        #expect(push(["apns-channel-id": latest, "apns-expiration": "1893456000"]) == nil)
        #expect(push(["apns-channel-id": none]) == nil)
        #expect(push(["apns-channel-id": none, "apns-expiration": "1893456000"]) == .badExpirationDate)
        #expect(push(["apns-channel-id": none, "apns-expiration": nil]) == .badExpirationDate)
        #expect(push([:]) == .missingChannelID)
        #expect(push(["apns-channel-id": "?"]) == .badChannelID)
        #expect(push(["apns-channel-id": unknown]) == .channelNotRegistered)
        #expect(push(["apns-channel-id": latest, "apns-push-type": "alert"]) == .invalidPushType)
        #expect(push(["apns-channel-id": latest, "apns-push-type": nil]) == .missingPushType)
        #expect(push(["apns-channel-id": latest, "apns-priority": "7"]) == .badPriority)
        #expect(push(["apns-channel-id": latest, "apns-id": "7"]) == .badMessageID)
        let suffixed = "/4/broadcasts/apps/\(appTopic).push-type.liveactivity"
        #expect(push(["apns-channel-id": latest], path: suffixed) == .topicDisallowed)
        #expect(push(["apns-channel-id": latest], path: "/4/broadcasts/apps/com.example.other") == .topicMismatch)
    }

    @Test("take 5120 bytes") func sizes() throws {
        let id = try create()
        let rest = 5120 - "{\"aps\":{\"timestamp\":1,\"event\":\"update\",\"content-state\":{\"x\":\"\"}}}".utf8.count
        #expect(push(["apns-channel-id": id], padding: rest) == nil)
        #expect(push(["apns-channel-id": id], padding: rest + 1) == .payloadTooLarge)
    }

    @Test("cannot start an activity") func starts() throws {
        let id = try create()
        #expect(push(["apns-channel-id": id], event: "start") == .badRequestPayload)
        #expect(bench.judge.tally.warned == 1)
    }

    @Test("are not sent what is no JSON") func broken() throws {
        let id = try create()
        for (body, reason) in [("", Rejection.payloadEmpty), ("[]", .badRequestPayload), ("{", .badRequestPayload)] {
            let headers = ["apns-channel-id": id, "apns-push-type": "liveactivity", "apns-expiration": "0"]
            #expect(send("POST", "/4/broadcasts/apps/\(appTopic)", headers, body)?.rejection == reason, "\(body)")
        }
    }

    @Test("are no matter where the feature is not enabled") func feature() throws {
        let id = try create()
        bench.judge.weather.hasBroadcasts = false
        #expect(send("POST", path, [:], body(1))?.rejection == .featureNotEnabled)
        #expect(send("GET", "/1/apps/\(appTopic)/all-channels")?.rejection == .featureNotEnabled)
        #expect(push(["apns-channel-id": id]) == .featureNotEnabled)
        bench.judge.weather.hasBroadcasts = true
        #expect(push(["apns-channel-id": id]) == nil)
    }

    @Test("meet passing faults, which leave nothing behind") func chance() throws {
        bench.judge.weather.throttledShare = 1
        #expect(send("POST", path, [:], body(1))?.rejection == .tooManyRequests)
        bench.judge.weather.throttledShare = 0
        #expect(all() == .listed([]))
    }

    @Test("are managed where the port says") func doors() throws {
        func status(_ method: String, _ path: String, _ door: Door) -> Int? {
            let fields = [":method": method, ":path": path, "authorization": bench.bearer]
            let ruling = bench.judge.decide(
                IncomingRequest(fields: fields.map { (name: $0.key, value: $0.value) }, body: []), by: door,
                trust: &bench.trust, environment: .production,
                at: RulingTime(
                    monotonic: MonotonicTime(nanoseconds: 1), wallSeconds: Int64(Date().timeIntervalSince1970)))
            if case .answer(let answer) = ruling.decision { return answer.status }
            return nil
        }
        let list = "/1/apps/\(appTopic)/all-channels"
        #expect(status("GET", list, .everything) == 200 && status("GET", list, .management) == 200)
        #expect(status("GET", list, .pushes) == 404)
        #expect(status("POST", "/3/device/\(deviceToken())", .management) == 404)
        #expect(status("POST", "/4/broadcasts/apps/\(appTopic)", .management) == 404)
        #expect(status("POST", "/4/broadcasts/apps/\(appTopic)", .pushes) == 400)
    }
}
