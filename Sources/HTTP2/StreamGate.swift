// How many streams a connection may have open. The peer moves its limit at will: Apple starts token connections with one
// stream, drops to one after a rejection and refuses what is above. Pure.

import Reactor

/// The stream limit of one connection as it moves.
struct StreamGate {
    private let ceiling: Int
    private var peerLimit: UInt32?
    private var isProven: Bool
    private var refusals = 0
    /// After repeated refusals nothing is sent before this.
    private(set) var heldUntil: MonotonicTime?

    /// With `provesFirst`, one stream is allowed until the first success or until the peer raises its limit.
    init(ceiling: Int, provesFirst: Bool) {
        self.ceiling = max(1, ceiling)
        isProven = !provesFirst
    }

    /// The streams that may be open at once: one until the peer's SETTINGS; may be 0.
    var limit: Int {
        guard let peerLimit else { return 1 }
        return min(Int(peerLimit), isProven ? ceiling : 1)
    }

    /// How many more may be opened now.
    func room(open: Int, now: MonotonicTime) -> Int {
        if let heldUntil, now < heldUntil { return 0 }
        return max(0, limit - open)
    }

    /// SETTINGS have come.
    mutating func settings(maxConcurrentStreams value: UInt32) {
        if let before = peerLimit, value > before { isProven = true }
        peerLimit = value
    }

    /// A stream was answered.
    mutating func answered(status: UInt16) {
        if (200..<300).contains(status) { isProven = true }
        refusals = 0
        heldUntil = nil
    }

    /// One or more streams were refused.
    ///
    /// The first time the limit alone tells; again without an answer in between, and the
    /// connection rests for a while that doubles from 20 ms to 1 s, so that nobody refuses and re-sends in a circle.
    mutating func refused(now: MonotonicTime) {
        refusals = min(refusals + 1, 9)
        guard refusals > 1 else { return }
        heldUntil = now.advanced(by: min(.seconds(1), .milliseconds(5 << refusals)))
    }
}
