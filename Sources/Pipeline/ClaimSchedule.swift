// When a lane asks for which kind of work again: at once while claims come back with something, not before a second
// has passed after an empty one, and not at all once everything is empty, until the poll or a signal says that
// something is due.

import Reactor

/// Remembers for each kind of work whether and when it is worth asking; pure.
struct ClaimSchedule {
    /// After an empty claim never less than this.
    static let pause: Duration = .seconds(1)

    private var asleep: [ClaimKind: MonotonicTime] = [:]
    /// The kinds that were empty in this round of claims.
    private var fresh: Set<ClaimKind> = []
    /// How often something was said to be due: what was asked before the last time proves nothing any more.
    private(set) var wakes = 0

    /// Whether this kind should be claimed at `now`.
    func isAwake(_ kind: ClaimKind, at now: MonotonicTime) -> Bool { asleep[kind].map { $0 <= now } ?? true }

    /// Whether everything was empty when last asked.
    func isIdle(at now: MonotonicTime) -> Bool { ClaimKind.allCases.allSatisfy { !isAwake($0, at: now) } }

    /// A claim brought nothing.
    mutating func foundNothing(_ kind: ClaimKind, at now: MonotonicTime) {
        asleep[kind] = now.advanced(by: Self.pause)
        fresh.insert(kind)
    }

    /// A claim brought something: there may be more.
    mutating func foundWork(_ kind: ClaimKind) {
        asleep[kind] = nil
        fresh.remove(kind)
    }

    /// Each kind has been asked for: the pauses begin now, since in a round that took longer than a pause the first kind would be
    /// awake again before the last is asleep, and never everything idle.
    mutating func roundEnded(at now: MonotonicTime) {
        for kind in fresh { asleep[kind] = now.advanced(by: Self.pause) }
        fresh.removeAll()
    }

    /// Something is due: everything is worth asking again.
    mutating func wake() {
        wakes += 1
        asleep.removeAll()
        fresh.removeAll()
    }
}
