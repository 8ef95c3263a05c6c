// Where Apple's services are, and other places that may be put in their stead: a proxy of one's own, a simulator.

package import PushModel

/// A host and a port that speaks HTTP/2 over TLS.
package struct APNsEndpoint: Sendable, Hashable, CustomStringConvertible {
    /// A name or an address; IPv6 without brackets.
    package let host: String
    package let port: UInt16

    package init(host: String, port: UInt16 = 443) {
        self.host = host
        self.port = port
    }

    package var description: String { host.contains(":") ? "https://[\(host)]:\(port)" : "https://\(host):\(port)" }

    /// Reads `https://host:port`; the port may be absent (443), one slash at the end is allowed.
    ///
    /// - Parameters:
    ///   - text: The setting.
    ///   - name: What the setting is called.
    /// - Throws: `malformed`, naming the setting and what it should look like.
    package init(_ text: String, named name: String) throws(APNsError) {
        let url = SettingText.trimmed(text)
        func refuse(_ why: String) -> APNsError {
            APNsError(.malformed, name, "\(why): write it as https://host:port")
        }
        guard let scheme = APNsEndpoint.scheme(of: url) else {
            throw refuse("is \(APNsEndpoint.shown(url)), which does not say https://")
        }
        guard scheme == "https" else { throw refuse("begins with \(scheme)://, but only TLS is spoken") }
        var rest = url.dropFirst(scheme.count + 3)
        if rest.last == "/" { rest.removeLast() }
        guard !rest.contains("@") else { throw refuse("has a user name or password in it") }
        guard !rest.contains(where: { "/?#".contains($0) }) else { throw refuse("has a path in it") }
        let (host, portText) = try APNsEndpoint.split(rest, refuse)
        guard let port = portText.isEmpty ? 443 : APNsEndpoint.port(portText) else {
            throw refuse("has the port \(SettingText.shown(String(portText))), which is not between 1 and 65535")
        }
        self.init(host: host.lowercased(), port: port)
    }

    private static func scheme(of url: String) -> String? {
        guard let colon = url.firstIndex(of: ":"), url[colon...].hasPrefix("://") else { return nil }
        let scheme = url[..<colon].lowercased()
        return !scheme.isEmpty && scheme.utf8.allSatisfy(SettingText.isLetterOrDigit) ? scheme : nil
    }

    /// Host and the text of the port, empty when there is none.
    private static func split(
        _ text: Substring, _ refuse: (String) -> APNsError
    ) throws(APNsError) -> (host: String, port: Substring) {
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { throw refuse("has no ] after the address") }
            let address = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard address.contains(":"), address.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }),
                rest.isEmpty || rest.first == ":"
            else { throw refuse("has a malformed address in brackets") }
            return (String(address), rest.dropFirst())
        }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let host = parts[0]
        guard !host.isEmpty, host.utf8.count <= 253,
            host.utf8.allSatisfy({ SettingText.isLetterOrDigit($0) || $0 == 0x2d || $0 == 0x2e })
        else { throw refuse("has no host name, or one with characters that none can have") }
        guard parts.count == 1 || !parts[1].isEmpty else { throw refuse("has no port after the colon") }
        return (String(host), parts.count == 1 ? "" : parts[1])
    }

    private static func port(_ text: Substring) -> UInt16? {
        guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let port = UInt16(text), port > 0 else { return nil }
        return port
    }

    private static func shown(_ url: String) -> String { SettingText.shown(url) }
}

/// The endpoints in use.
package struct APNsHosts: Sendable, Hashable {
    package var production = APNsEndpoint(host: "api.push.apple.com")
    package var sandbox = APNsEndpoint(host: "api.sandbox.push.apple.com")
    /// Management of broadcast channels.
    package var productionManagement = APNsEndpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
    package var sandboxManagement = APNsEndpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    /// Where pushes to channels go, if not where those to devices go: Apple's pages name both.
    package var productionBroadcast, sandboxBroadcast: APNsEndpoint?

    /// Apple's own.
    package init() {}

    /// Name of the setting for pushes to channels, which a file alone can have.
    package static let broadcastURL = "APNS_BROADCAST_URL"

    /// Apple's own, but for what `APNS_PRODUCTION_URL`, `APNS_SANDBOX_URL`, `APNS_MANAGE_URL` and `broadcastURL` say.
    ///
    /// `names` is what messages call a variable instead of its own name.
    ///
    /// - Throws: `malformed`, naming the variable.
    package init(_ environment: [String: String], names: [String: String] = [:]) throws(APNsError) {
        if let endpoint = try APNsHosts.override("APNS_PRODUCTION_URL", environment, names) { production = endpoint }
        if let endpoint = try APNsHosts.override("APNS_SANDBOX_URL", environment, names) { sandbox = endpoint }
        if let endpoint = try APNsHosts.override("APNS_MANAGE_URL", environment, names) {
            productionManagement = endpoint
            sandboxManagement = endpoint
        }
        if let endpoint = try APNsHosts.override(APNsHosts.broadcastURL, environment, names) {
            productionBroadcast = endpoint
            sandboxBroadcast = endpoint
        }
    }

    /// Where pushes of the environment go to devices.
    package subscript(environment: PushEnvironment) -> APNsEndpoint {
        switch environment {
        case .production: production
        case .sandbox: sandbox
        }
    }

    /// Where pushes of the environment go to channels.
    package func broadcast(_ environment: PushEnvironment) -> APNsEndpoint {
        switch environment {
        case .production: productionBroadcast ?? production
        case .sandbox: sandboxBroadcast ?? sandbox
        }
    }

    /// Where channels of the environment are managed.
    package func management(_ environment: PushEnvironment) -> APNsEndpoint {
        switch environment {
        case .production: productionManagement
        case .sandbox: sandboxManagement
        }
    }

    private static func override(
        _ name: String, _ environment: [String: String], _ names: [String: String]
    ) throws(APNsError) -> APNsEndpoint? {
        guard let text = environment[name], !SettingText.trimmed(text).isEmpty else { return nil }
        return try APNsEndpoint(text, named: names[name] ?? name)
    }
}
