// A claim whose COMMIT was sent and not answered may have leased units that nobody knows of. They are given back before anybody waits
// for the end of their lease: at once, and again for as long as the server may still be at that claim, for what commits only then.

import Reactor

/// Whether units may be leased to a lane that it does not know of; pure.
struct ClaimDoubt {
    /// The server ends a claim within this time: four statements of 15 s at most.
    static let longest: Duration = .seconds(60)
    /// Between two looks.
    static let pause: Duration = .seconds(10)

    private var end: MonotonicTime?
    private var next = MonotonicTime(nanoseconds: 0)

    /// A claim ended and nobody knows how.
    mutating func arose(at now: MonotonicTime) {
        end = now.advanced(by: Self.longest)
        next = now
    }

    /// Whether a look is due.
    func isDue(at now: MonotonicTime) -> Bool { end != nil && next <= now }

    /// How long until the next look is due; nil when there is no doubt.
    func wait(from now: MonotonicTime) -> Duration? { end.map { _ in max(.zero, next.since(now)) } }

    /// The database has been asked, the question being sent at `asked`; no doubt is left once the server cannot be at it any more.
    mutating func cleared(asked: MonotonicTime) {
        guard let end else { return }
        if asked >= end { self.end = nil }
        next = asked.advanced(by: Self.pause)
    }

    /// Whether there is any doubt.
    var isOpen: Bool { end != nil }
}
