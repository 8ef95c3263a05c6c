// Where the walk over due notifications begins.
//
// Each claim walks the index of pending rows from its head, and earlier claims leave dead entries there until a
// vacuum comes by: while a million rows are drained, claims get slower and slower (36 k rows/s fall to 12 k). So a
// full claim remembers the earliest row that it still saw, and the next one begins there. A claim that was not full has
// seen everything, and the next one begins at the head again: rows that were inserted late, or given back, are found
// then. Where claims stay full for long they begin at the head every half a minute, for the sake of those rows.

import PushModel
import PushStore
import Reactor

/// For each app, the row before which nothing pending was left; pure.
struct DueWalk {
    /// For how long rows before a mark are passed over.
    static let limit: Duration = .seconds(30)

    /// No entry: from the head.
    private(set) var since: [String: DueMark] = [:]
    private var headSeen: MonotonicTime?

    /// Learns from a claim with a limit for each app.
    mutating func claimed(_ units: [WorkUnit], _ asked: [ClaimShare], at now: MonotonicTime) {
        var earliest: [String: (mark: DueMark, count: Int)] = [:]
        for unit in units {
            let mark = DueMark(time: unit.dueTime, notification: unit.key.notification)
            let known = earliest[unit.content.app] ?? (mark, 0)
            earliest[unit.content.app] = (min(mark, known.mark), known.count + 1)
        }
        for share in asked {
            let found = earliest[share.app.name]
            since[share.app.name] = found.flatMap { $0.count >= share.limit ? $0.mark : nil }
        }
        if let headSeen, now.since(headSeen) < Self.limit { return }
        since = headSeen == nil ? since : [:]
        headSeen = now
    }
}
