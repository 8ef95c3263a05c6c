// A gateway that fails is left alone for a while. Without that, each of a million devices would meet the fault by itself, be charged
// an attempt and wait a quarter of an hour; and Apple asks senders not to press a service that is down.
//
//     closed ── 20 failures in a row, or half of the last 100 ──► open ── time is over ──► half-open ── one push ──► closed
//                                                                  ▲                          │
//                                                                  └── failed: twice as long ─┘
//
// A failure is an answer 5xx, or none at all. Whatever else the gateway answers shows that it works. A gateway that says that it goes
// away (Shutdown, GOAWAY) has not failed. Pure: time and chance come in from outside.

/// Guards what one lane sends to one gateway for one app.
package struct Breaker: Sendable {
    /// The figures.
    package struct Rules: Sendable, Equatable {
        /// So many failures without anything else in between open it.
        package var failuresInRow = 20
        /// From so many results on, it opens when half of the last ones are failures.
        package var leastResults = 100
        /// How long it stays open the first time; each time in a row twice as long.
        package var firstPause: Duration = .seconds(15)
        /// How long at most.
        package var longestPause: Duration = .seconds(300)

        package init() {}
    }

    /// Whether anything may be sent.
    package enum State: Sendable, Hashable {
        /// Everything.
        case closed
        /// Nothing until then.
        case open(until: BootTime)
        /// One push, to find out.
        case halfOpen
    }

    /// What it has seen, for whoever writes it down.
    package struct Counts: Sendable, Equatable {
        /// Results since it last closed, at most 128, and how many of them were failures.
        package var results = 0
        package var failures = 0
        /// Pushes that were sent to find out.
        package var probes = 0

        package init(results: Int = 0, failures: Int = 0, probes: Int = 0) {
            self.results = results
            self.failures = failures
            self.probes = probes
        }
    }

    /// Closed, or open until then; whether that is over, `state(at:)` says.
    package private(set) var state = State.closed
    private let rules: Rules
    private var window = ResultWindow()
    private var inRow = 0
    /// How often it has opened in a row.
    private var level = 0
    private var probes = 0
    private var pause = Duration.zero
    private var openedAt = BootTime(nanoseconds: 0)
    private var closedAt: BootTime?

    package init(rules: Rules = Rules()) { self.rules = rules }

    package var counts: Counts { Counts(results: window.count, failures: window.failures, probes: probes) }

    /// When it first opened, of the times in a row.
    package var openSince: BootTime? { state == .closed ? nil : openedAt }

    /// The state at `now`: a pause that is over makes it half-open.
    package func state(at now: BootTime) -> State {
        if case .open(let until) = state, until <= now { return .halfOpen }
        return state
    }

    // MARK: Results

    /// A push was answered with something that shows a working gateway; only counts while it is closed.
    package mutating func succeeded() {
        guard case .closed = state else { return }
        inRow = 0
        window.add(isFailure: false)
    }

    /// A push failed; only counts while it is closed, since what was sent before it opened proves nothing new.
    ///
    /// - Parameters:
    ///   - now: The time.
    ///   - retryAfter: What the gateway asked for; can lengthen the pause, up to the longest.
    ///   - random: Spreads the ends of the pauses.
    /// - Returns: Whether it has opened.
    package mutating func failed(
        at now: BootTime, retryAfter: Duration? = nil, using random: inout some RandomNumberGenerator
    ) -> Bool {
        guard case .closed = state else { return false }
        inRow += 1
        window.add(isFailure: true)
        guard inRow >= rules.failuresInRow || window.count >= rules.leastResults && 2 * window.failures >= window.count
        else { return false }
        // A gateway that fails again soon after it has closed is where it was before.
        if let closedAt, now < closedAt.advanced(by: pause) { level += 1 } else { level = 0 }
        openedAt = now
        open(at: now, retryAfter, using: &random)
        return true
    }

    /// The one push of the half-open state has shown a working gateway.
    package mutating func probeSucceeded(at now: BootTime) {
        guard case .halfOpen = state(at: now) else { return }
        state = .closed
        closedAt = now
        inRow = 0
        window = ResultWindow()
        probes = 0
    }

    /// The one push of the half-open state has failed: it stays open, twice as long.
    package mutating func probeFailed(
        at now: BootTime, retryAfter: Duration? = nil, using random: inout some RandomNumberGenerator
    ) {
        guard case .halfOpen = state(at: now) else { return }
        level += 1
        probes += 1
        open(at: now, retryAfter, using: &random)
    }

    private mutating func open(
        at now: BootTime, _ retryAfter: Duration?, using random: inout some RandomNumberGenerator
    ) {
        let least = min(rules.firstPause * (1 << min(level, 16)), rules.longestPause)
        let jittered = Duration.random(in: least...(least * 5 / 4), using: &random)
        pause = min(max(jittered, retryAfter ?? .zero), max(rules.longestPause, jittered))
        state = .open(until: now.advanced(by: pause))
    }
}

/// The last 128 results, one bit each.
struct ResultWindow: Sendable {
    private var bits: (UInt64, UInt64) = (0, 0)
    private(set) var count = 0

    var failures: Int { bits.0.nonzeroBitCount + bits.1.nonzeroBitCount }

    mutating func add(isFailure: Bool) {
        bits.1 = bits.1 << 1 | bits.0 >> 63
        bits.0 = bits.0 << 1 | (isFailure ? 1 : 0)
        if count < 128 { count += 1 }
    }
}
