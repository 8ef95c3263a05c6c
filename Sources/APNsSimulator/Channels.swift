// Broadcast channels: where they are kept, and the rules for managing them and for sending to them. Apple has hosts and ports of its
// own for managing; here they are answered on the ports of the service, so that one address is enough, unless there are ports for them.
//
//     POST   /1/apps/<bundle id>/channels      201, apns-channel-id     DELETE /1/apps/<bundle id>/channels      204
//     GET    /1/apps/<bundle id>/channels      200, JSON                GET    /1/apps/<bundle id>/all-channels  200, JSON
//     POST   /4/broadcasts/apps/<bundle id>    200
//
// There is no way to change a channel: its storage policy is settled when it is made.

/// What channel management has done.
package enum ChannelOutcome: Equatable, Sendable {
    case created(id: String)
    case described(policy: Int)
    case deleted
    case listed([String])

    /// The HTTP status.
    var status: Int {
        switch self {
        case .created: 201
        case .deleted: 204
        case .described, .listed: 200
        }
    }

    /// The body, empty for none.
    var body: [UInt8] {
        switch self {
        case .created, .deleted: []
        case .described(let policy): Array("{\"message-storage-policy\":\(policy),\"push-type\":\"LiveActivity\"}".utf8)
        case .listed(let ids):
            // Ids are base64: nothing to escape.
            Array("{\"channels\":[\(ids.map { "\"\($0)\"" }.joined(separator: ","))]}".utf8)
        }
    }
}

/// All channels.
struct ChannelBook: Sendable {
    private struct Place: Hashable {
        let environment: SimulatedEnvironment
        let bundleID: String
    }

    private var policies: [Place: [String: Int]] = [:]
    /// In the order in which they were made.
    private var ids: [Place: [String]] = [:]
    private var chance: SeededGenerator

    init(seed: UInt64) { chance = SeededGenerator(seed: seed &+ 0xc4a7) }

    /// Makes a channel; nil when the app has as many as it may.
    mutating func create(
        policy: Int, limit: Int, _ environment: SimulatedEnvironment, _ bundleID: String
    ) -> String? {
        let place = Place(environment: environment, bundleID: bundleID)
        guard ids[place, default: []].count < limit else { return nil }
        let id = makeID()
        policies[place, default: [:]][id] = policy
        ids[place, default: []].append(id)
        return id
    }

    /// The storage policy of a channel; nil when there is no such channel.
    func policy(_ id: String, _ environment: SimulatedEnvironment, _ bundleID: String) -> Int? {
        policies[Place(environment: environment, bundleID: bundleID)]?[id]
    }

    /// Deletes a channel; false when there is none.
    mutating func delete(_ id: String, _ environment: SimulatedEnvironment, _ bundleID: String) -> Bool {
        let place = Place(environment: environment, bundleID: bundleID)
        guard policies[place]?.removeValue(forKey: id) != nil else { return false }
        ids[place]?.removeAll { $0 == id }
        return true
    }

    /// The ids of an app's channels, the oldest first.
    func all(_ environment: SimulatedEnvironment, _ bundleID: String) -> [String] {
        ids[Place(environment: environment, bundleID: bundleID)] ?? []
    }

    /// 16 random bytes in base64.
    private mutating func makeID() -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".unicodeScalars)
        var text = String.UnicodeScalarView()
        for _ in 0..<21 { text.append(digits[Int(chance.next() >> 58)]) }
        // The last digit of a group of two carries two bits.
        text.append(digits[Int(chance.next() >> 62) << 4])
        return String(text) + "=="
    }
}

/// The rules that need no knowledge of what channels there are.
enum ChannelRules {
    /// The longest push to a channel, in bytes.
    static let payloadLimit = 5120

    /// The methods of a path that has to do with channels; nil for others.
    static func methods(of route: RequestRoute) -> [String]? {
        switch route {
        case .broadcast: ["POST"]
        case .channels: ["POST", "GET", "DELETE"]
        case .allChannels: ["GET"]
        case .device, .unknown: nil
        }
    }

    /// The channel that a request names.
    static func channel(of request: IncomingRequest) -> Result<String, Rejection> {
        guard let id = request.channelID, !id.isEmpty else { return .failure(.missingChannelID) }
        return isChannelID(id) ? .success(id) : .failure(.badChannelID)
    }

    /// Base64 in whole groups of four; Apple names neither length nor contents.
    private static func isChannelID(_ id: String) -> Bool {
        let bytes = Array(id.utf8)
        let padding = bytes.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        return bytes.count.isMultiple(of: 4) && bytes.count <= 512 && padding <= 2
            && bytes.dropLast(padding).allSatisfy {
                isDigit($0) || (0x61...0x7a).contains($0 | 0x20) || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/")
            }
    }

    /// The storage policy that the body of a creation asks for.
    static func policy(of body: [UInt8]) -> Result<Int, Rejection> {
        guard let text = JSONText(body), text.isObject else { return .failure(.badRequestPayload) }
        guard let type = text["push-type"] else { return .failure(.missingPushType) }
        guard type.text == "LiveActivity" else { return .failure(.invalidPushType) }
        guard let policy = text["message-storage-policy"]?.whole, policy == 0 || policy == 1 else {
            return .failure(.badRequestPayload)
        }
        return .success(Int(policy))
    }
}

extension RequestRoute {
    /// Whether channels are managed there.
    var isManagement: Bool {
        switch self {
        case .channels, .allChannels: true
        case .device, .broadcast, .unknown: false
        }
    }

    /// Whether it has to do with channels.
    var concernsChannels: Bool {
        if case .broadcast = self { true } else { isManagement }
    }
}

/// What is answered at a port.
package enum Door: Sendable {
    case pushes, management, everything

    /// Why a request is at the wrong port; nil when it is at the right one.
    func check(_ route: RequestRoute) -> Rejection? {
        switch self {
        case .everything: nil
        case .pushes: route.isManagement ? .badPath : nil
        case .management: route.isManagement ? nil : .badPath
        }
    }
}

extension PushRules {
    /// Checks the app in a path of channels, which `allows` says whether the sender may speak for.
    fileprivate func checkApp(_ bundleID: String, _ allows: (String) -> Bool) -> Rejection? {
        if bundleIDs.contains(bundleID) { return allows(bundleID) ? nil : .topicMismatch }
        // The path takes the bundle id alone.
        let hasSuffix = PushKind.allCases.contains { kind in
            !kind.topicSuffix.isEmpty && bundleID.hasSuffix(kind.topicSuffix)
                && bundleIDs.contains(String(bundleID.dropLast(kind.topicSuffix.count)))
        }
        return hasSuffix ? .topicDisallowed : .topicMismatch
    }

    /// Checks the headers of a push to a channel.
    fileprivate func checkBroadcast(_ request: IncomingRequest) -> Rejection? {
        if let id = request.apnsID, !PushRules.isUUID(id) { return .badMessageID }
        if let id = request.requestID, !PushRules.isUUID(id) { return .badRequestParams }
        if let value = request.expiration, !PushRules.isExpiration(value) { return .badExpirationDate }
        guard let type = request.pushType else { return .missingPushType }
        guard type == PushKind.liveactivity.rawValue else { return .invalidPushType }
        guard PushRules.priority(of: request) != nil else { return .badPriority }
        return isStrict && !request.strangers.isEmpty ? .badRequestPayload : nil
    }
}

extension Judge {
    /// Decides about a request that has to do with channels, from a sender who may speak for the apps that `allows` names.
    mutating func judgeChannel(
        _ request: IncomingRequest, _ attempt: Int, _ environment: SimulatedEnvironment, _ allows: (String) -> Bool
    ) -> Ruling {
        switch request.route {
        case .broadcast(let bundleID):
            let refusal = rules.checkApp(bundleID, allows) ?? featureRefusal ?? rules.checkBroadcast(request)
            if let refusal { return refuse(refusal) }
            return broadcast(request, attempt, environment, bundleID)
        case .channels(let bundleID), .allChannels(let bundleID):
            if let refusal = rules.checkApp(bundleID, allows) ?? featureRefusal { return refuse(refusal) }
            if let id = request.requestID, !PushRules.isUUID(id) { return refuse(.badRequestParams) }
            // A passing fault comes before anything is done.
            let chance = byPassingChance(stableHash(request.method + request.path), attempt)
            guard case .answer(var answer) = chance, answer.rejection == nil else { return Ruling(decision: chance) }
            switch manage(request, environment, bundleID) {
            case .failure(let rejection): return refuse(rejection)
            case .success(let outcome):
                answer.channel = outcome
                return Ruling(decision: .answer(answer))
            }
        case .device, .unknown: return refuse(.badPath)
        }
    }

    private var featureRefusal: Rejection? { weather.hasBroadcasts ? nil : .featureNotEnabled }

    private mutating func broadcast(
        _ request: IncomingRequest, _ attempt: Int, _ environment: SimulatedEnvironment, _ bundleID: String
    ) -> Ruling {
        let id: String
        switch ChannelRules.channel(of: request) {
        case .failure(let rejection): return refuse(rejection)
        case .success(let named): id = named
        }
        guard let policy = channels.policy(id, environment, bundleID) else { return refuse(.channelNotRegistered) }
        if policy == 0, request.expiration != "0" { return refuse(.badExpirationDate) }
        let finding = check(request.body, .liveactivity, limit: ChannelRules.payloadLimit)
        if let rejection = finding.rejection {
            // What is no JSON has a reason of its own here.
            return refuse(rejection == .payloadEmpty && !request.body.isEmpty ? .badRequestPayload : rejection)
        }
        let isStart = JSONText(request.body)?["aps"]?["event"]?.text == "start"
        var ruling =
            isStart || rules.isStrict && !finding.warnings.isEmpty
            ? refuse(.badRequestPayload) : Ruling(decision: byPassingChance(stableHash(id), attempt))
        ruling.warnings = finding.warnings + (isStart ? ["a channel cannot start an activity"] : [])
        return ruling
    }

    private mutating func manage(
        _ request: IncomingRequest, _ environment: SimulatedEnvironment, _ bundleID: String
    ) -> Result<ChannelOutcome, Rejection> {
        if case .allChannels = request.route { return .success(.listed(channels.all(environment, bundleID))) }
        if request.method == "POST" {
            return ChannelRules.policy(of: request.body).flatMap { policy in
                channels.create(policy: policy, limit: weather.channelLimit, environment, bundleID).map {
                    .success(.created(id: $0))
                }
                    ?? .failure(.cannotCreateChannel)
            }
        }
        return ChannelRules.channel(of: request).flatMap { id in
            guard let policy = channels.policy(id, environment, bundleID) else {
                return .failure(.channelNotRegistered)
            }
            guard request.method == "DELETE" else { return .success(.described(policy: policy)) }
            _ = channels.delete(id, environment, bundleID)
            return .success(.deleted)
        }
    }
}
