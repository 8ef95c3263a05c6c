// When a lane asks for which kind of work of which app again: at once while claims come back with something, not before a second
// has passed after an empty one, and not at all once everything is empty, until the poll or a signal says that
// something is due. An app that was not asked for, because it has no room or cannot be sent for, stays worth asking.

import Reactor

/// Remembers for each kind of work and each app whether and when it is worth asking; pure.
struct ClaimSchedule {
    /// After an empty claim never less than this.
    static let pause: Duration = .seconds(1)

    private struct Place: Hashable {
        let kind: ClaimKind
        let app: String
    }

    private var asleep: [Place: MonotonicTime] = [:]
    /// What was empty in this round of claims.
    private var fresh: Set<Place> = []
    /// How often something was said to be due: what was asked before the last time proves nothing any more.
    private(set) var wakes = 0

    /// Whether this kind of work of an app should be claimed at `now`.
    func isAwake(_ kind: ClaimKind, _ app: String, at now: MonotonicTime) -> Bool {
        asleep[Place(kind: kind, app: app)].map { $0 <= now } ?? true
    }

    /// Whether everything of these apps was empty when last asked.
    func isIdle(_ apps: [String], at now: MonotonicTime) -> Bool {
        apps.allSatisfy { app in ClaimKind.allCases.allSatisfy { !isAwake($0, app, at: now) } }
    }

    /// A claim brought nothing of these apps.
    mutating func foundNothing(_ kind: ClaimKind, _ apps: [String], at now: MonotonicTime) {
        for app in apps {
            asleep[Place(kind: kind, app: app)] = now.advanced(by: Self.pause)
            fresh.insert(Place(kind: kind, app: app))
        }
    }

    /// A claim brought something of these apps: there may be more.
    mutating func foundWork(_ kind: ClaimKind, _ apps: [String]) {
        for app in apps {
            asleep[Place(kind: kind, app: app)] = nil
            fresh.remove(Place(kind: kind, app: app))
        }
    }

    /// There may be some of this kind, whosever it is.
    mutating func foundWork(_ kind: ClaimKind) {
        asleep = asleep.filter { $0.key.kind != kind }
        fresh = fresh.filter { $0.kind != kind }
    }

    /// Each kind has been asked for: the pauses begin now, since in a round that took longer than a pause the first kind would be
    /// awake again before the last is asleep, and never everything idle.
    mutating func roundEnded(at now: MonotonicTime) {
        for place in fresh { asleep[place] = now.advanced(by: Self.pause) }
        fresh.removeAll()
    }

    /// Something is due: everything is worth asking again.
    mutating func wake() {
        wakes += 1
        asleep.removeAll()
        fresh.removeAll()
    }
}
