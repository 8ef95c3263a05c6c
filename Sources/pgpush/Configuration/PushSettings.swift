// What the environment says about Apple's push service. Only readings that need no other module are done here: the key is
// parsed where keys are known.

/// A key as the environment gives it; never printed.
enum KeySource: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    case file(String)
    case text(String)

    /// The variable it came from.
    var variable: String {
        switch self {
        case .file: "APNS_KEY_PATH"
        case .text: "APNS_KEY"
        }
    }

    var description: String { variable }
    var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Which default `devices.environment` should have.
enum EnvironmentChoice: String, Sendable {
    case production
    case sandbox

    /// Reads APNS_ENVIRONMENT; nil when it is not set.
    static func read(_ settings: Settings) throws(ConfigurationError) -> EnvironmentChoice? {
        switch settings["APNS_ENVIRONMENT"]?.lowercased() {
        case nil: return nil
        case "production": return .production
        case "sandbox", "development": return .sandbox
        case .some:
            throw ConfigurationError(
                variable: "APNS_ENVIRONMENT", problem: "is neither 'production' nor 'sandbox' ('development')",
                remedy: "set it to 'production' or 'sandbox', or leave it out")
        }
    }
}

/// Host and port of a service.
struct Endpoint: Sendable, Equatable, CustomStringConvertible {
    let host: String
    let port: UInt16

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Reads `https://host:port`, `https://host`, `host:port` or `host`; nil if it is something else.
    init?(url: String, defaultPort: UInt16 = 443) {
        var rest = url[...]
        if url.lowercased().hasPrefix("https://") { rest = rest.dropFirst(8) }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        guard !rest.contains(where: { "/?#@ ".contains($0) }) else { return nil }
        var name = rest
        var port = defaultPort
        if rest.hasPrefix("["), let end = rest.firstIndex(of: "]") {
            name = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
            guard rest.isEmpty || rest.hasPrefix(":") else { return nil }
        } else if let colon = rest.firstIndex(of: ":") {
            name = rest[..<colon]
            rest = rest[colon...]
        } else {
            rest = ""
        }
        if rest.hasPrefix(":") {
            guard let number = UInt16(rest.dropFirst()), number > 0 else { return nil }
            port = number
        }
        guard !name.isEmpty else { return nil }
        host = String(name)
        self.port = port
    }

    init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }
}

/// Credentials and addresses for the app named `default`.
struct PushSettings: Sendable {
    let key: KeySource
    let keyID: String
    let teamID: String
    /// The topic of the app.
    let bundleID: String
    let addresses: PushAddresses

    private static let keyRemedy =
        "point APNS_KEY_PATH at the AuthKey_….p8 file from developer.apple.com (Certificates, Identifiers & Profiles, Keys)"

    /// Reads the APNS_* variables.
    init(_ settings: Settings) throws(ConfigurationError) {
        try Self.refuseUnsupported(settings)
        switch (settings["APNS_KEY_PATH"], settings["APNS_KEY"]) {
        case (.some(let path), nil): key = .file(path)
        case (nil, .some(let text)): key = .text(text)
        case (nil, nil):
            throw ConfigurationError(
                variable: "APNS_KEY_PATH", problem: "is not set, and neither is APNS_KEY", remedy: Self.keyRemedy)
        case (.some, .some):
            throw ConfigurationError(
                variable: "APNS_KEY_PATH", problem: "and APNS_KEY are both set", remedy: "keep one of the two")
        }
        keyID = try settings.required("APNS_KEY_ID", "set it to the key's 10 characters, as in AuthKey_XXXXXXXXXX.p8")
        teamID = try settings.required(
            "APNS_TEAM_ID", "set it to the team's 10 characters (developer.apple.com, Membership)")
        bundleID = try settings.required("APNS_BUNDLE_ID", "set it to the app's bundle id, such as com.example.app")
        addresses = try PushAddresses(settings)
    }

    /// A variable that this version cannot honour must not be passed over in silence.
    private static func refuseUnsupported(_ settings: Settings) throws(ConfigurationError) {
        let unsupported = [
            ("APNS_CERT_PATH", "names a certificate, which this version does not use", Self.keyRemedy),
            (
                "APNS_PROXY_URL", "names a proxy, which this version does not use",
                "unset it and allow port 443 outwards"
            ),
            (
                "PGPUSH_CONFIG", "names a file, which this version does not read",
                "configure the app by APNS_* variables"
            ),
        ]
        for (variable, problem, remedy) in unsupported where settings[variable] != nil {
            throw ConfigurationError(variable: variable, problem: problem, remedy: remedy)
        }
    }
}

/// Where Apple's service is, and whom to trust there.
struct PushAddresses: Sendable, Equatable {
    let production: Endpoint
    let sandbox: Endpoint
    /// A bundle of authorities; nil means the system's.
    let trustBundlePath: String?

    /// Reads APNS_PRODUCTION_URL, APNS_SANDBOX_URL and APNS_CA_PATH.
    init(_ settings: Settings) throws(ConfigurationError) {
        production = try Self.endpoint(settings, "APNS_PRODUCTION_URL", "api.push.apple.com")
        sandbox = try Self.endpoint(settings, "APNS_SANDBOX_URL", "api.sandbox.push.apple.com")
        trustBundlePath = settings["APNS_CA_PATH"]
    }

    private static func endpoint(
        _ settings: Settings, _ variable: String, _ usual: String
    ) throws(ConfigurationError) -> Endpoint {
        guard let url = settings[variable] else { return Endpoint(host: usual, port: 443) }
        guard let endpoint = Endpoint(url: url) else {
            throw ConfigurationError(
                variable: variable, problem: "is not a usable address",
                remedy: "write https://host:port, without a path")
        }
        return endpoint
    }
}
