// The keys that the simulated Apple knows, in the three kinds that Apple gives out: team keys of old (all topics,
// both environments), team-scoped keys (all topics, one environment) and topic-specific keys (some topics, one
// environment, perhaps related to one other key).

/// A signing key that is registered with the simulator.
package struct RegisteredKey: Sendable {
    /// The key id, ten characters.
    package let id: String
    /// The team that owns it, ten characters.
    package let teamID: String
    /// The only environment it is good for; nil for a team key of old.
    package var environment: SimulatedEnvironment?
    /// The bundle ids it is good for; nil when it is good for all.
    package var topics: Set<String>?
    /// Keys that may share a connection with this topic-specific key.
    package var related: Set<String> = []
    /// Whether the key still counts.
    package var isRevoked = false
    /// Checks a 64-byte signature over bytes: (signature, message).
    package let verify: @Sendable ([UInt8], [UInt8]) -> Bool

    /// Makes a team key of old; narrow it by setting its other properties.
    package init(id: String, teamID: String, verify: @escaping @Sendable ([UInt8], [UInt8]) -> Bool) {
        self.id = id
        self.teamID = teamID
        self.verify = verify
    }

    /// Whether a connection that one of the two keys has bound may carry the other.
    package func mayShareConnection(with other: RegisteredKey) -> Bool {
        if id == other.id { return true }
        guard teamID == other.teamID, environment == other.environment else { return false }
        return switch (topics, other.topics) {
        case (nil, nil): true
        case (.some, .some): related.contains(other.id) || other.related.contains(id)
        default: false
        }
    }
}

/// How the simulator answers where Apple's behaviour is a matter of time or of two spellings.
package struct TokenPolicy: Sendable {
    /// How far `iat` may lie from now, both ways, in seconds.
    package var maximumAge: Int64 = 3600
    /// Tokens issued up to this time count as expired, whatever their age (seconds since 1970).
    package var expiredUpTo: Int64 = .min
    /// How long a connection must keep a token before it may show another; 0 allows any change.
    package var changeInterval: Duration = .seconds(1200)
    /// Whether the clock of token changes runs for a whole environment instead of for each connection.
    package var isChangeClockShared = false
    /// Whether the keys of one connection must belong together.
    package var bindsKeys = true
    /// Whether a key of the other environment is answered as Apple documents it, or as it was seen on the wire.
    package var usesDocumentedEnvironmentReason = false

    /// The defaults: Apple's rules.
    package init() {}
}

/// The known keys, and a memory of tokens whose signatures have been checked.
package struct KeyRegistry: Sendable {
    /// The keys by id.
    package private(set) var keys: [String: RegisteredKey]
    private var checked: [String: ProviderToken?] = [:]
    /// The newest time of issue that has been seen, for expiring all tokens that are about.
    package private(set) var newestIssue: Int64 = .min

    /// Makes a registry.
    package init(keys: [RegisteredKey]) {
        self.keys = Dictionary(keys.map { ($0.id, $0) }, uniquingKeysWith: { _, last in last })
    }

    /// Revokes a key or takes the revocation back; returns false when the key is unknown.
    package mutating func setRevoked(_ isRevoked: Bool, key: String) -> Bool {
        guard keys[key] != nil else { return false }
        keys[key]?.isRevoked = isRevoked
        return true
    }

    /// The token and its key when the signature is right and the team is the key's own; else nil.
    package mutating func authenticate(_ authorization: String) -> (ProviderToken, RegisteredKey)? {
        guard let token = readChecked(authorization), let key = keys[token.keyID], !key.isRevoked else { return nil }
        newestIssue = max(newestIssue, token.issuedAt)
        return (token, key)
    }

    /// Checking a signature costs some 50 µs and all requests of a sender carry the same one.
    private mutating func readChecked(_ authorization: String) -> ProviderToken? {
        if let known = checked[authorization] { return known }
        if checked.count >= 4096 { checked.removeAll() }
        let token = read(authorization)
        checked.updateValue(token, forKey: authorization)
        return token
    }

    private func read(_ authorization: String) -> ProviderToken? {
        guard let token = ProviderToken(authorization: authorization), let key = keys[token.keyID],
            key.teamID == token.teamID, key.verify(token.signature, token.signedBytes)
        else { return nil }
        return token
    }
}
