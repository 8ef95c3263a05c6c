// Rows of a newer schema, while versions are exchanged one by one: this version leases them with the others and cannot read them. Nothing
// of them is sent; they are kept under their lease for a while, so that they are not claimed in a circle, and given back for a newer
// version to find. Left to the end of their lease they would be taken for lost, and what is to be sent at most once for sent.

import PushStore
import Reactor

/// What a lane holds and cannot read, and when it gives it back; pure.
struct UnreadableUnits {
    /// How long one is kept.
    static let keeping: Duration = .seconds(30)
    /// For how long the lane claims nothing of an app after it has given some of it back: others, who may know it, come first.
    static let deference: Duration = .seconds(2)
    /// As many of an app are kept at most; then nothing more of it is claimed.
    static let limit = 10_000

    private struct Kept {
        let key: UnitKey
        let app: String
        let due: MonotonicTime
    }

    private let isLasting: Bool
    /// In the order in which they came.
    private var kept: [Kept] = []
    private var counts: [String: Int] = [:]
    private var givenBack: [String: MonotonicTime] = [:]

    /// A lane that is to drain and end (not lasting) keeps them until its end: it would meet them again and again.
    init(isLasting: Bool) { self.isLasting = isLasting }

    var isEmpty: Bool { kept.isEmpty }

    /// A claim has brought some.
    mutating func keep(_ units: [UnreadableUnit], at now: MonotonicTime) {
        for unit in units {
            kept.append(Kept(key: unit.key, app: unit.app, due: now.advanced(by: Self.keeping)))
            counts[unit.app, default: 0] += 1
        }
    }

    /// Whether the lane may claim of an app.
    func mayClaim(_ app: String, at now: MonotonicTime) -> Bool {
        guard isLasting else { return true }
        if let last = givenBack[app], now.since(last) < Self.deference { return false }
        return (counts[app] ?? 0) < Self.limit
    }

    /// Takes out what has been kept long enough.
    mutating func takeDue(at now: MonotonicTime) -> [UnitKey] {
        guard isLasting, let first = kept.first, first.due <= now else { return [] }
        let taken = Array(kept.prefix { $0.due <= now })
        kept.removeFirst(taken.count)
        for unit in taken {
            counts[unit.app, default: 0] -= 1
            givenBack[unit.app] = now
        }
        return taken.map(\.key)
    }

    /// Takes out everything.
    mutating func takeAll() -> [UnitKey] {
        defer {
            kept = []
            counts = [:]
        }
        return kept.map(\.key)
    }
}
