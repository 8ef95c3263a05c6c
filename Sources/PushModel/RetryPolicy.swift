// When a request is tried again, and when no more. Waits are random, so that what failed together does not come back together;
// the generator is given, so that tests can decide. Times are relative: what the clock says is the database's business.

/// What becomes of a request that is to be tried again.
package enum RetryDecision: Sendable, Hashable {
    case again(after: Duration)
    case giveUp(GiveUpReason)
}

/// Why something is not tried again.
package enum GiveUpReason: String, Sendable, Hashable {
    /// As often as allowed.
    case attempts
    /// The next try would come after its end (`expires_at` or the app's greatest lateness).
    case expiry
}

/// Rules for trying again.
package struct RetryPolicy: Sendable, Equatable {
    /// Charged attempts in all, the first included.
    package var maximumAttempts: Int
    /// What Apple may ask us to wait at most.
    package var longestRetryAfter: Duration

    package init(maximumAttempts: Int = 8, longestRetryAfter: Duration = .seconds(3600)) {
        self.maximumAttempts = maximumAttempts
        self.longestRetryAfter = longestRetryAfter
    }

    /// Decides about the next try.
    ///
    /// - Parameters:
    ///   - kind: Why.
    ///   - attempt: How many charged attempts have been made, the one that just ended included: 1, 2, …
    ///   - retryAfter: What the answer asked for; it can lengthen the wait, up to `longestRetryAfter`, not shorten it.
    ///   - remaining: How long the notification may still be sent; nil when it has no end.
    ///   - random: Where the jitter comes from.
    /// - Returns: The wait, or why there is none.
    package func decide(
        _ kind: RetryKind, attempt: Int, retryAfter: Duration? = nil, remaining: Duration? = nil,
        using random: inout some RandomNumberGenerator
    ) -> RetryDecision {
        guard attempt < maximumAttempts else { return .giveUp(.attempts) }
        let wait = wait(kind, attempt: max(attempt, 1), retryAfter: retryAfter, using: &random)
        if let remaining, wait >= remaining { return .giveUp(.expiry) }
        return .again(after: wait)
    }

    private func wait(
        _ kind: RetryKind, attempt: Int, retryAfter: Duration?, using random: inout some RandomNumberGenerator
    ) -> Duration {
        let range = RetryPolicy.range(kind, attempt: attempt)
        var wait = Duration.random(in: range, using: &random)
        if let retryAfter, retryAfter > .zero {
            // With some jitter after it: everybody was told the same.
            let asked = min(retryAfter, longestRetryAfter)
            let floor = asked + Duration.random(in: .zero...min(asked / 10, .seconds(30)), using: &random)
            wait = max(wait, floor)
        }
        return wait
    }

    /// Between which waits the next try lies.
    package static func range(_ kind: RetryKind, attempt: Int) -> ClosedRange<Duration> {
        switch kind {
        case .device:
            // 30 to 60 s, doubling, up to an hour.
            let least = doubled(.seconds(30), attempt - 1, cap: .seconds(1800))
            return least...(least * 2)
        case .server:
            // One early try on another connection, then what Apple asks for: at least 15 minutes.
            if attempt <= 1 { return .seconds(5)...(.seconds(30)) }
            let quarter = Duration.seconds(900)
            return quarter...(quarter + doubled(quarter, attempt - 2, cap: .seconds(3600)))
        case .throttled:
            return .seconds(1)...doubled(.seconds(20), attempt - 1, cap: .seconds(900))
        case .unanswered:
            return .milliseconds(500)...doubled(.seconds(5), attempt - 1, cap: .seconds(300))
        }
    }

    /// Which waits may share a batch, which waits for the longest of them: those of one lot.
    ///
    /// None in a lot is more than twice another; below four seconds the difference is not worth a batch.
    package static func lot(of wait: Duration) -> Int {
        let seconds = max(wait.components.seconds, 3)
        return Int64.bitWidth - seconds.leadingZeroBitCount
    }

    private static func doubled(_ base: Duration, _ times: Int, cap: Duration) -> Duration {
        min(base * (1 << min(max(times, 0), 20)), cap)
    }
}

extension Duration {
    /// A random wait of whole microseconds in the range.
    static func random(
        in range: ClosedRange<Duration>, using random: inout some RandomNumberGenerator
    ) -> Duration {
        let width = (range.upperBound - range.lowerBound).components
        let microseconds = width.seconds * 1_000_000 + width.attoseconds / 1_000_000_000_000
        return range.lowerBound + .microseconds(Int64.random(in: 0...max(microseconds, 0), using: &random))
    }
}
