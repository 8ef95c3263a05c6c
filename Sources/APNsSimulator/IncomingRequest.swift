// A request as Apple would look at it: the pseudo-headers and the headers that mean something, each found once.

/// What a path asks for.
package enum RequestRoute: Equatable, Sendable {
    /// `/3/device/<token>`
    case device(token: String)
    /// `/4/broadcasts/apps/<bundle id>`
    case broadcast(bundleID: String)
    /// `/1/apps/<bundle id>/channels`
    case channels(bundleID: String)
    /// `/1/apps/<bundle id>/all-channels`
    case allChannels(bundleID: String)
    /// anything else
    case unknown

    /// Reads a path.
    package init(path: String) {
        let prefix = "/3/device/"
        if path.hasPrefix(prefix) {
            let token = path.utf8.dropFirst(prefix.utf8.count)
            self = token.contains(UInt8(ascii: "/")) ? .unknown : .device(token: String(Substring(token)))
            return
        }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        switch parts.count {
        case 4 where parts[0] == "4" && parts[1] == "broadcasts" && parts[2] == "apps":
            self = .broadcast(bundleID: parts[3])
        case 4 where parts[0] == "1" && parts[1] == "apps" && parts[3] == "channels":
            self = .channels(bundleID: parts[2])
        case 4 where parts[0] == "1" && parts[1] == "apps" && parts[3] == "all-channels":
            self = .allChannels(bundleID: parts[2])
        default: self = .unknown
        }
    }
}

/// One request, taken apart.
package struct IncomingRequest: Sendable {
    package private(set) var method = ""
    package private(set) var path = ""
    package private(set) var authority = ""
    package private(set) var authorization: String?
    package private(set) var apnsID: String?
    package private(set) var pushType: String?
    package private(set) var topic: String?
    package private(set) var priority: String?
    package private(set) var expiration: String?
    package private(set) var collapseID: String?
    package private(set) var channelID: String?
    package private(set) var requestID: String?
    /// Names that came twice.
    package private(set) var duplicates: [String] = []
    /// Headers named `apns-…` that Apple does not know.
    package private(set) var strangers: [String] = []
    /// The headers named `apns-…`, in the order they came, repetitions included.
    package private(set) var apnsFields: [(name: String, value: String)] = []
    package let body: [UInt8]
    package let route: RequestRoute
    /// The device token, lower-case, when the path has one.
    package let deviceToken: String?

    /// Takes a request apart; `fields` holds the pseudo-headers too, in the order they came.
    package init(fields: [(name: String, value: String)], body: [UInt8]) {
        self.body = body
        route = RequestRoute(path: fields.first { $0.name == ":path" }?.value ?? "")
        deviceToken = if case .device(let token) = route { token.lowercased() } else { nil }
        for (name, value) in fields {
            if name.hasPrefix("apns-") { apnsFields.append((name, value)) }
            take(name, value)
        }
    }

    private mutating func take(_ name: String, _ value: String) {
        switch name {
        case ":method": method = value
        case ":path": path = value
        case ":authority": authority = value
        case "authorization": authorization = first(authorization, name, value)
        case "apns-id": apnsID = first(apnsID, name, value)
        case "apns-push-type": pushType = first(pushType, name, value)
        case "apns-topic": topic = first(topic, name, value)
        case "apns-priority": priority = first(priority, name, value)
        case "apns-expiration": expiration = first(expiration, name, value)
        case "apns-collapse-id": collapseID = first(collapseID, name, value)
        case "apns-channel-id": channelID = first(channelID, name, value)
        case "apns-request-id": requestID = first(requestID, name, value)
        default: if name.hasPrefix("apns-") { strangers.append(name) }
        }
    }

    /// The value that counts; a second one is noted as a duplicate.
    private mutating func first(_ known: String?, _ name: String, _ value: String) -> String {
        if known != nil { duplicates.append(name) }
        return known ?? value
    }
}
