// The token that token authentication shows with each request: one for all lanes and connections of a process, made of the key and
// the database's clock, renewed in time (`MintPlan` says when). Whoever submits a request asks for it; so no timer is needed, and
// an idle process makes none.

package import HTTP2
import Reactor
import TLS
package import Telemetry

extension LogKey {
    /// Id of the signing key; not a secret.
    package static let keyID = LogKey("apns.key_id")
    /// Number of a provider token since the start of the process.
    package static let tokenGeneration = LogKey("apns.token.generation")
    /// Why a provider token was made: `due` or `expired`.
    package static let tokenCause = LogKey("apns.token.cause")
}

/// The clocks of a provider token; replaced in tests.
package struct ProviderTokenClock: Sendable {
    /// CLOCK_BOOTTIME in nanoseconds.
    package var boot: @Sendable () -> UInt64
    /// Unix seconds by this machine's clock.
    package var wall: @Sendable () -> Int64

    package init(boot: @escaping @Sendable () -> UInt64, wall: @escaping @Sendable () -> Int64) {
        self.boot = boot
        self.wall = wall
    }

    /// This machine's clocks.
    package static let system = ProviderTokenClock(
        boot: { SystemClock.bootNanoseconds }, wall: { WallTime.now().seconds })
}

/// A provider token that keeps itself fresh; shared by all threads.
package final class ProviderToken: HTTP2AuthorizationSource, Sendable {
    /// What became of a renewal after Apple called the token expired.
    package enum Renewal: Sendable, Equatable {
        /// A new one was made: connections that carried the old one are to be replaced.
        case renewed
        /// Somebody else has had it made already.
        case alreadyRenewed
        /// The last one was made for the same reason a short while ago, so a clock is wrong: not before the wait is over.
        case refused(wait: Duration)
        /// It could not be signed.
        case failed(APNsError)
    }

    /// How long a connection keeps a token before it carries another: Apple's 20 minutes, and one for clocks and queues on the way.
    package static let hold = Duration.seconds(21 * 60)

    private struct State: Sendable {
        var plan = MintPlan()
        var value: HTTP2SharedValue?
        /// Database minus this machine, seconds.
        var offset: Int64 = 0
        /// After a failure to sign: boot time of the next try.
        var nextTry: UInt64 = 0
    }

    private let key: APNsKey
    private let clock: ProviderTokenClock
    private let logger: Logger
    private let state = Lock(State())

    package init(key: APNsKey, clock: ProviderTokenClock = .system, logger: Logger = .silent) {
        self.key = key
        self.clock = clock
        self.logger = logger
    }

    /// Value of the `authorization` field, made or renewed now when it is time; nil only when none can be signed.
    package var authorization: HTTP2SharedValue? {
        let boot = clock.boot()
        let wall = clock.wall()
        let (value, problem) = state.withLock { state -> (HTTP2SharedValue?, APNsError?) in
            guard state.plan.isDue(boot: boot, wall: wall &+ state.offset), boot >= state.nextTry else {
                return (state.value, nil)
            }
            let problem = mint(&state, boot: boot, wall: wall, forced: false)
            return (state.value, problem)
        }
        if let problem {
            logger.error("no provider token could be signed", [.keyID: key.keyID, .error: problem.message])
        }
        return value
    }

    /// Signs the first token, to find out at start whether the key can.
    package func prepare() throws(APNsError) {
        guard authorization == nil else { return }
        throw APNsError(.signing, "key \(key.keyID)", "cannot sign a provider token")
    }

    /// Id of the key that signs it; not a secret.
    package var keyID: String { key.keyID }

    /// Number of the present token since the start of the process; 0 before the first.
    package var generation: UInt64 { state.withLock { $0.plan.generation } }

    /// How old the present token is; nil before the first.
    package var age: Duration? {
        let boot = clock.boot()
        let wall = clock.wall()
        return state.withLock { state -> Duration? in
            guard state.plan.generation > 0 else { return nil }
            return .nanoseconds(Int64(clamping: state.plan.age(boot: boot, wall: wall &+ state.offset)))
        }
    }

    /// Sets by how much the database's clock is ahead of this machine's; tokens are dated by it.
    package func setClockOffset(_ offset: Duration) {
        state.withLock { $0.offset = offset.components.seconds }
    }

    /// Apple has called a token expired (403 ExpiredProviderToken): makes exactly one new one, however many requests say so.
    ///
    /// `seen` is the generation that was in use when the refused request was sent, where that is known.
    package func renewAfterExpired(seen: UInt64? = nil) -> Renewal {
        let boot = clock.boot()
        let wall = clock.wall()
        return state.withLock { state -> Renewal in
            switch state.plan.afterExpired(seen: seen, boot: boot) {
            case .alreadyRenewed: return .alreadyRenewed
            case .refused(let nanoseconds): return .refused(wait: .nanoseconds(Int64(clamping: nanoseconds)))
            case .mint:
                if let problem = mint(&state, boot: boot, wall: wall, forced: true) { return .failed(problem) }
                return .renewed
            }
        }
    }

    /// Apple finds that tokens change too often (429 TooManyProviderTokenUpdates): the present one is kept.
    package func freeze() {
        let boot = clock.boot()
        state.withLock { $0.plan.freeze(boot: boot) }
    }

    /// Signs a token; on failure the present one stays and the next try is in half a minute.
    private func mint(_ state: inout State, boot: UInt64, wall: Int64, forced: Bool) -> APNsError? {
        let issuedAt = state.plan.nextIssuedAt(wall: wall &+ state.offset)
        do {
            let token = try ProviderTokenText.signed(by: key, issuedAt: issuedAt)
            state.value = HTTP2SharedValue("bearer " + token)
            state.plan.minted(issuedAt: issuedAt, boot: boot, forced: forced)
            logger.info(
                "provider token made",
                [
                    .keyID: key.keyID, .tokenGeneration: state.plan.generation,
                    .tokenCause: forced ? "expired" : "due",
                ])
            return nil
        } catch {
            state.nextTry = boot &+ MintPlan.minute / 2
            return error
        }
    }
}

/// The text of a provider token: a JSON Web Token signed with ES256 (RFC 7515, RFC 7518 §3.4).
package enum ProviderTokenText {
    /// Header, claims and signature in base64url without padding, joined by points.
    ///
    /// `issuedAt` is in Unix seconds.
    package static func signed(by key: APNsKey, issuedAt: Int64) throws(APNsError) -> String {
        // Both ids are letters and digits, so nothing has to be escaped.
        let header = Base64.encodeURLSafe(Array("{\"alg\":\"ES256\",\"kid\":\"\(key.keyID)\"}".utf8))
        let claims = Base64.encodeURLSafe(Array("{\"iss\":\"\(key.teamID)\",\"iat\":\(issuedAt)}".utf8))
        let signed = "\(header).\(claims)"
        do {
            return signed + "." + Base64.encodeURLSafe(try key.privateKey.signES256(Array(signed.utf8)))
        } catch {
            throw APNsError(.signing, "key \(key.keyID)", "cannot sign a provider token: \(error.message)")
        }
    }
}
