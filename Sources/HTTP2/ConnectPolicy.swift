// When a connection may be opened. Apple treats frequent opening and closing as an attack, so failures are spaced by a
// back-off with full jitter, and even connections that work are opened at a bounded rate. Pure: time and chance come in
// from outside.
//
// What Apple sees is the process, not a pool: pools of several loops that go the same way share one budget.

import Reactor
import Telemetry

/// The attempts to connect of all pools that share it, on whatever loops they are.
package final class ConnectBudget: Sendable {
    private let policy: Lock<ConnectPolicy>

    /// A budget with the bounds of a pool's configuration.
    package init(_ configuration: HTTP2PoolConfiguration) {
        policy = Lock(
            ConnectPolicy(
                first: configuration.backoffFirst, last: configuration.backoffLast, burst: configuration.connectBurst,
                perSecond: configuration.connectsPerSecond, now: .now()))
    }

    /// No attempt before this.
    var notBefore: MonotonicTime { policy.withLock { $0.notBefore } }

    func attempted() { policy.withLock { $0.attempted(now: .now()) } }
    func failed() { policy.withLock { $0.failed(now: .now(), chance: .random(in: 0..<1)) } }
    func endedEarly() { policy.withLock { $0.endedEarly(now: .now(), chance: .random(in: 0..<1)) } }
    func succeeded() { policy.withLock { $0.succeeded() } }
}

/// Spaces the attempts on one way to a peer.
struct ConnectPolicy {
    private let first: Duration
    private let last: Duration
    private let burst: Double
    private let perSecond: Double

    private var failures = 0
    private var tokens: Double
    private var refilledAt: MonotonicTime
    /// No attempt before this.
    var notBefore: MonotonicTime { max(delayedUntil, takenUntil) }
    private var delayedUntil: MonotonicTime
    /// Until then somebody is finding out whether the peer is back.
    private var takenUntil: MonotonicTime

    init(first: Duration, last: Duration, burst: Int, perSecond: Double, now: MonotonicTime) {
        self.first = first
        self.last = last
        self.burst = Double(max(1, burst))
        self.perSecond = max(0.001, perSecond)
        tokens = self.burst
        refilledAt = now
        delayedUntil = now
        takenUntil = now
    }

    /// An attempt that takes longer is not waited for.
    private static let longestTry: Duration = .seconds(10)

    /// How long the next delay may be at most, after so many failures in a row.
    var bound: Duration {
        var bound = first
        for _ in 1..<max(1, failures) where bound < last { bound = bound * 2 }
        return min(bound, last)
    }

    /// Takes note of an attempt; the next one waits for its turn in the rate.
    mutating func attempted(now: MonotonicTime) {
        let elapsed = Double(now.since(refilledAt).wholeNanoseconds) / 1e9
        tokens = min(burst, tokens + elapsed * perSecond) - 1
        refilledAt = now
        // After a failure one tries for all.
        if failures > 0 { takenUntil = now.advanced(by: Self.longestTry) }
        guard tokens < 1 else { return }
        delay(until: now.advanced(by: .seconds((1 - tokens) / perSecond)))
    }

    /// The attempt failed, or its connection ended before it had carried one answer.
    ///
    /// `chance` is uniform in 0..<1.
    mutating func failed(now: MonotonicTime, chance: Double) {
        failures = min(failures + 1, 30)
        takenUntil = now
        delay(until: now.advanced(by: bound * chance))
    }

    /// A connection that had carried answers ended soon: the next one waits a little, without growing.
    mutating func endedEarly(now: MonotonicTime, chance: Double) { delay(until: now.advanced(by: first * chance)) }

    /// An answer has come.
    mutating func succeeded() {
        failures = 0
        takenUntil = refilledAt
    }

    private mutating func delay(until time: MonotonicTime) { delayedUntil = max(delayedUntil, time) }
}

/// Whether a pool needs another connection.
struct GrowthPlan {
    let maximum: Int
    let patience: Duration
    private var busySince: MonotonicTime?

    init(maximum: Int, patience: Duration) {
        self.maximum = min(16, max(1, maximum))
        self.patience = patience
    }

    /// What the pool looks like.
    struct State {
        var queued: Int
        var connecting: Int
        var usable: Int
        /// Draining, or silent: no use, but still there.
        var leaving: Int
        /// Streams that the usable connections could take now.
        var free: Int
    }

    enum Decision: Equatable {
        case enough
        case open
        /// Look again then.
        case wait(MonotonicTime)
    }

    /// Decides; one connection is opened at a time, the first at once, others when all streams have been busy for a while.
    mutating func decide(_ state: State, now: MonotonicTime) -> Decision {
        guard state.queued > 0, state.connecting == 0, state.usable < maximum,
            // A peer that makes every connection useless must not make us pile them up.
            state.usable + state.leaving < 2 * maximum + 2
        else {
            busySince = nil
            return .enough
        }
        if state.usable == 0 { return .open }
        guard state.free <= 0 else {
            busySince = nil
            return .enough
        }
        let since = busySince ?? now
        busySince = since
        let due = since.advanced(by: patience)
        guard now >= due else { return .wait(due) }
        busySince = nil
        return .open
    }
}
