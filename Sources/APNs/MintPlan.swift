// When a provider token is made. Apple's rules: a token is good for an hour after its `iat`; on one connection it must not change
// more often than every 20 minutes. So one token serves the whole process, is renewed at 45 minutes, and
// - a renewal that is merely due never follows another within 20 minutes;
// - one that Apple's ExpiredProviderToken asks for may (the connections that carry the old token are given up with it), but only
//   one in 20 minutes: when the new one is refused too, a clock is wrong and more tokens would only make Apple slow us down;
// - after TooManyProviderTokenUpdates none is made for 20 minutes, except that a token about to end is replaced.
//
// A connection that is younger than that when the token changes is replaced (`ProviderToken.hold`), so its own token never changes.
//
// Ages are taken from the boot-time clock, which nobody can set, and from the wall clock that `iat` came from: whichever says more.

/// A renewal after an expiry, decided.
enum ForcedMint: Equatable {
    case mint
    /// There is a newer token than the one that was refused.
    case alreadyRenewed
    /// Not before that many nanoseconds have passed.
    case refused(nanoseconds: UInt64)
}

/// What is known about the tokens made so far; times are boot-time nanoseconds and Unix seconds.
struct MintPlan: Sendable, Equatable {
    static let minute: UInt64 = 60_000_000_000
    static let renewal = 45 * minute
    static let spacing = 20 * minute
    /// From this age on a frozen token is replaced all the same.
    static let lastMoment = 55 * minute

    /// Number of the present token; 0 when there is none.
    private(set) var generation: UInt64 = 0
    private(set) var issuedAt: Int64 = 0
    private(set) var mintedAt: UInt64 = 0
    private var forcedAt: UInt64?
    private var frozenUntil: UInt64 = 0

    /// Whether a token has to be made before the next request.
    func isDue(boot: UInt64, wall: Int64) -> Bool {
        guard generation > 0 else { return true }
        guard elapsed(since: mintedAt, boot) >= MintPlan.spacing else { return false }
        let age = age(boot: boot, wall: wall)
        if boot < frozenUntil && age < MintPlan.lastMoment { return false }
        // More than a minute in the future: the clock that `iat` came from has been put right since.
        return age >= MintPlan.renewal || issuedAt > wall &+ 60
    }

    /// Decides about a renewal because the token of that generation was refused as expired; nil when that is not known.
    ///
    /// Not known, and the present token is a recent renewal: the one before it is meant. The first token of a process has none
    /// before it, so it is renewed however young it is.
    func afterExpired(seen: UInt64?, boot: UInt64) -> ForcedMint {
        if let seen, seen < generation { return .alreadyRenewed }
        if seen == nil, generation > 1, elapsed(since: mintedAt, boot) < MintPlan.spacing { return .alreadyRenewed }
        if boot < frozenUntil { return .refused(nanoseconds: frozenUntil - boot) }
        guard let forcedAt, elapsed(since: forcedAt, boot) < MintPlan.spacing else { return .mint }
        return .refused(nanoseconds: MintPlan.spacing - elapsed(since: forcedAt, boot))
    }

    /// The `iat` of the next token: the wall clock, but later than the last one's, so that newer can be told from older.
    func nextIssuedAt(wall: Int64) -> Int64 {
        generation > 0 && wall <= issuedAt && issuedAt &- wall < 60 ? issuedAt + 1 : wall
    }

    /// A token was made.
    mutating func minted(issuedAt: Int64, boot: UInt64, forced: Bool) {
        generation += 1
        self.issuedAt = issuedAt
        mintedAt = boot
        if forced { forcedAt = boot }
    }

    /// Nothing is made for 20 minutes.
    mutating func freeze(boot: UInt64) { frozenUntil = max(frozenUntil, boot &+ MintPlan.spacing) }

    /// The greater of the two ages, nanoseconds.
    func age(boot: UInt64, wall: Int64) -> UInt64 {
        let seconds = UInt64(min(max(wall &- issuedAt, 0), 1_000_000_000))
        return max(elapsed(since: mintedAt, boot), seconds * 1_000_000_000)
    }

    private func elapsed(since earlier: UInt64, _ now: UInt64) -> UInt64 { now > earlier ? now - earlier : 0 }
}
