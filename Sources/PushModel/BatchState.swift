// The life of a batch: a slice of an audience, or devices that are to be tried again.
//
//   (born) ──▶ ready ◀──▶ leased ──▶ done
//     │ │        │ ▲        │
//     │ └▶ leased│ │        ├──▶ abandoned
//     ▼          ▼ │
//   parked ──────▶(ready) ; ready | parked ──▶ abandoned

/// State of a batch, spelled as in the database.
package enum BatchState: String, Sendable, Hashable, CaseIterable {
    /// May be claimed once its time has come.
    case ready
    /// Owned by a worker until its lease ends.
    case leased
    /// Waits for a paused scope; cannot be claimed.
    case parked
    case done
    /// Given up because the notification was cancelled or has expired.
    case abandoned

    package var isFinal: Bool { self == .done || self == .abandoned }

    /// Whether the state may change to `next`; a lease taken over by a rescuer stays `leased` under a new epoch.
    package func mayBecome(_ next: BatchState) -> Bool {
        switch self {
        case .ready: [.leased, .abandoned].contains(next)
        case .leased: [.leased, .ready, .done, .abandoned].contains(next)
        case .parked: [.ready, .abandoned].contains(next)
        case .done, .abandoned: false
        }
    }
}
