// Apps whose work ends in waiting for a pause to end. An app that is paused as a whole is not claimed for, but a pause of one
// environment or topic shows only when the devices are read: claiming all that is due, to put it aside, cost the other apps of
// the worker more than half of their rate. So it yields: while others fill the lane, it is claimed for once a second, a
// little at a time, for the sake of what its pauses do not cover; in an idle lane as fast as ever.

import PushStore
import Reactor

/// Remembers of which apps most devices were parked, and when they were claimed for last; pure.
struct HeldUpApps {
    /// How often an app that yields is claimed for.
    static let interval: Duration = .seconds(1)
    /// Of so many devices the older half counts for half.
    private static let memory = 200
    /// Fewer devices say nothing.
    private static let least = 16

    private struct Place: Hashable {
        let kind: ClaimKind
        let app: String
    }

    private var ended: [String: (parked: Int, all: Int)] = [:]
    private var claimed: [Place: MonotonicTime] = [:]
    private var busyUntil: MonotonicTime?

    /// Whether most of what was claimed of an app lately was parked.
    func contains(_ app: String) -> Bool {
        ended[app].map { $0.all >= Self.least && 2 * $0.parked > $0.all } ?? false
    }

    /// A unit came to its end: so many of its devices now wait for a pause to end.
    mutating func ended(_ app: String, parked: Int, of count: Int) {
        guard parked > 0 || ended[app] != nil else { return }
        var (known, all) = ended[app] ?? (0, 0)
        while all + count > Self.memory, all > 0 { (known, all) = (known / 2, all / 2) }
        ended[app] = (known + parked, all + count)
    }

    /// Forgets those that no pause concerns any more.
    mutating func keep(_ paused: Set<String>) {
        guard !ended.isEmpty else { return }
        ended = ended.filter { paused.contains($0.key) }
        claimed = claimed.filter { paused.contains($0.key.app) }
    }

    /// Lets those that are held up yield for a second after the lane held much of others (`isBusy`).
    ///
    /// - Returns: Those that are claimed for as ever, and those that get a little now.
    mutating func yielding(_ kind: ClaimKind, _ rooms: [ClaimShare], isBusy: Bool, at now: MonotonicTime)
        -> (others: [ClaimShare], yielding: [ClaimShare])
    {
        if isBusy { busyUntil = now.advanced(by: Self.interval) }
        guard !ended.isEmpty, let busyUntil, now < busyUntil else { return (rooms, []) }
        var little: [ClaimShare] = []
        for share in rooms where contains(share.app.name) {
            let place = Place(kind: kind, app: share.app.name)
            guard share.limit > 0, claimed[place].map({ now >= $0.advanced(by: Self.interval) }) ?? true else {
                continue
            }
            claimed[place] = now
            // One slice of a broadcast, or so many single users as cost about the same.
            little.append(ClaimShare(app: share.app, limit: min(share.limit, kind == .notifications ? 20 : 1)))
        }
        return (rooms.filter { !contains($0.app.name) }, little)
    }
}
