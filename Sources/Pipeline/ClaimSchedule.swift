// When a lane asks for which kind of work of which app again: at once while claims come back with something, not before a second
// has passed after an empty one, and not at all once everything is empty, until the poll or a signal says that
// something is due. An app that was not asked for, because it has no room or cannot be sent for, stays worth asking.

import Reactor

/// Remembers for each kind of work and each app whether and when it is worth asking; pure.
struct ClaimSchedule {
    /// After an empty claim never less than this.
    static let pause: Duration = .seconds(1)
    /// The same for single users while others are being sent to: somebody whose time comes in the middle of a broadcast does not wait
    /// a second on top, and what the broadcast asks for anyway hides the cost.
    static let pauseWhileBusy: Duration = .milliseconds(250)

    private struct Place: Hashable {
        let kind: ClaimKind
        let app: String
    }

    private var asleep: [Place: MonotonicTime] = [:]
    /// What was empty in this round of claims, and for how long it is left alone.
    private var fresh: [Place: Duration] = [:]
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

    /// A claim brought nothing of these apps, in a lane that is busy with other work or is not.
    mutating func foundNothing(_ kind: ClaimKind, _ apps: [String], isBusy: Bool = false, at now: MonotonicTime) {
        let pause = isBusy && kind == .notifications ? Self.pauseWhileBusy : Self.pause
        for app in apps {
            asleep[Place(kind: kind, app: app)] = now.advanced(by: pause)
            fresh[Place(kind: kind, app: app)] = pause
        }
    }

    /// A claim brought something of these apps: there may be more.
    mutating func foundWork(_ kind: ClaimKind, _ apps: [String]) {
        for app in apps {
            asleep[Place(kind: kind, app: app)] = nil
            fresh[Place(kind: kind, app: app)] = nil
        }
    }

    /// There may be some of this kind, whosever it is.
    mutating func foundWork(_ kind: ClaimKind) {
        asleep = asleep.filter { $0.key.kind != kind }
        fresh = fresh.filter { $0.key.kind != kind }
    }

    /// Each kind has been asked for: the pauses begin now, since in a round that took longer than a pause the first kind would be
    /// awake again before the last is asleep, and never everything idle.
    mutating func roundEnded(at now: MonotonicTime) {
        for (place, pause) in fresh { asleep[place] = now.advanced(by: pause) }
        fresh.removeAll()
    }

    /// Something is due: everything is worth asking again.
    mutating func wake() {
        wakes += 1
        asleep.removeAll()
        fresh.removeAll()
    }
}
