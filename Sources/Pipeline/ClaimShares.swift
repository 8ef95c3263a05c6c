// How one claim is shared out among apps: each gets a part of its own, so that one with a million due rows does not keep another
// waiting, and those that have shown that they have more than that get more. One statement asks for all.

import PushStore

/// An app and how many units a claim may bring of it.
struct ClaimShare: Equatable {
    let app: ServedApp
    let limit: Int
}

/// Remembers which apps have more than they were given, and who was served last; pure.
struct ClaimShares {
    /// The apps whose last claim came back full.
    private var hungry: [ClaimKind: Set<String>] = [:]
    /// Of broadcasts, a claim serves one app: when each was served.
    private var turns: [String: UInt64] = [:]
    private var turn: UInt64 = 0

    /// Shares out a claim of about `total` units among apps with so much room each; apps without room are left out.
    func shares(_ kind: ClaimKind, _ rooms: [ClaimShare], total: Int) -> [ClaimShare] {
        let asked = rooms.filter { $0.limit > 0 }
        let full = hungry[kind] ?? []
        let basic = max(1, total / 25, total / max(1, asked.count))
        let large = max(basic, total / max(1, asked.count { full.contains($0.app.name) }))
        return asked.map { share in
            ClaimShare(app: share.app, limit: min(share.limit, full.contains(share.app.name) ? large : basic))
        }
    }

    /// The order in which broadcasts of apps are looked for: who was served longest ago comes first.
    func inTurn(_ rooms: [ClaimShare]) -> [ClaimShare] {
        rooms.filter { $0.limit > 0 }.enumerated()
            .sorted { (turns[$0.element.app.name] ?? 0, $0.offset) < (turns[$1.element.app.name] ?? 0, $1.offset) }
            .map(\.element)
    }

    /// Learns how many units of each app a claim has brought.
    mutating func learn(_ kind: ClaimKind, _ asked: [ClaimShare], found: [String: Int]) {
        turn += 1
        for share in asked {
            let count = found[share.app.name] ?? 0
            if count > 0 { turns[share.app.name] = turn }
            if count >= share.limit {
                hungry[kind, default: []].insert(share.app.name)
            } else {
                hungry[kind]?.remove(share.app.name)
            }
        }
    }
}
