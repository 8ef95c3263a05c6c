// What a connection remembers about credentials: the key that bound it, the token it carries and since when, and
// whether it is wedged. Pure: time comes in as an argument.
//
//     first good token ──► bound (team, key kind) ──► the same token again: fine
//                                   │                 another token after 20 minutes: fine
//                                   │                 another token earlier: 429, wedged
//                                   └──────────────── a token past its hour: 403, wedged

package import Reactor

/// When tokens were last changed, shared by all connections of an environment if the policy says so.
package struct TokenChangeClock: Sendable {
    private var known: Set<String> = []
    private var lastNew: MonotonicTime?

    /// Makes a clock that has seen no token.
    package init() {}

    /// Notes a token; false when it is new and comes too soon after the last new one.
    package mutating func accepts(_ token: String, at now: MonotonicTime, interval: Duration) -> Bool {
        if known.contains(token) { return true }
        if let lastNew, now.since(lastNew) < interval { return false }
        known.insert(token)
        lastNew = now
        return true
    }
}

/// The credentials of one connection.
package struct ConnectionTrust: Sendable {
    /// The first key that was accepted.
    package private(set) var boundKey: RegisteredKey?
    /// What the connection answers for the rest of its life, once wedged.
    package private(set) var wedge: Rejection?
    /// Takes the place of provider tokens, which are not looked at then.
    package var certificate: ClientCertificate?
    private var current: String?
    private var since = MonotonicTime(nanoseconds: 0)

    /// Makes the trust of a new connection.
    package init() {}

    /// Decides about the credentials of a request.
    ///
    /// `authorization` is the header's value, if any, and `wall` counts seconds since 1970; the result is the key that
    /// signed, or why the request is refused.
    package mutating func admit(
        _ authorization: String?, environment: SimulatedEnvironment, policy: TokenPolicy,
        registry: inout KeyRegistry, shared: inout TokenChangeClock, now: MonotonicTime, wall: Int64
    ) -> Result<RegisteredKey, Rejection> {
        guard let authorization, !authorization.isEmpty else { return .failure(.missingProviderToken) }
        guard let (token, key) = registry.authenticate(authorization) else { return .failure(.invalidProviderToken) }
        if let rejection = ConnectionTrust.checkAge(token, policy, wall) { return fail(rejection) }
        if let rejection = checkBinding(key, environment, policy) { return .failure(rejection) }
        if let rejection = checkChange(authorization, policy, &shared, now) { return fail(rejection) }
        boundKey = boundKey ?? key
        return .success(key)
    }

    /// An expired token or one changed too often makes the connection useless for good.
    private mutating func fail(_ rejection: Rejection) -> Result<RegisteredKey, Rejection> {
        if rejection == .expiredProviderToken || rejection == .tooManyProviderTokenUpdates { wedge = rejection }
        return .failure(rejection)
    }

    private static func checkAge(_ token: ProviderToken, _ policy: TokenPolicy, _ wall: Int64) -> Rejection? {
        if token.issuedAt <= policy.expiredUpTo { return .expiredProviderToken }
        // A time of issue that cannot even be subtracted lies far off.
        let (age, overflow) = wall.subtractingReportingOverflow(token.issuedAt)
        if overflow || age < -policy.maximumAge { return .invalidProviderToken }
        return age > policy.maximumAge ? .expiredProviderToken : nil
    }

    private func checkBinding(
        _ key: RegisteredKey, _ environment: SimulatedEnvironment, _ policy: TokenPolicy
    ) -> Rejection? {
        if let only = key.environment, only != environment {
            return policy.usesDocumentedEnvironmentReason ? .badEnvironmentKeyDocumented : .badEnvironmentKeyOnWire
        }
        guard policy.bindsKeys, let boundKey else { return nil }
        guard boundKey.teamID == key.teamID else { return .invalidProviderToken }
        return boundKey.mayShareConnection(with: key) ? nil : .unrelatedKey
    }

    private mutating func checkChange(
        _ authorization: String, _ policy: TokenPolicy, _ shared: inout TokenChangeClock, _ now: MonotonicTime
    ) -> Rejection? {
        let isInTime =
            policy.isChangeClockShared
            ? shared.accepts(authorization, at: now, interval: policy.changeInterval)
            : current == nil || current == authorization || now.since(since) >= policy.changeInterval
        guard isInTime else { return .tooManyProviderTokenUpdates }
        if current != authorization {
            current = authorization
            since = now
        }
        return nil
    }
}
