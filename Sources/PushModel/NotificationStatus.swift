// The life of a notification. The database enforces these transitions by trigger; here they are for whoever plans or checks.
//
//   pending ──▶ sending ──▶ sent | failed | skipped
//      │  ◀──────┘ │  │
//      │           │  └──▶ cancelling ──▶ cancelled
//      ├───────────┴─────▶ cancelled (no batch is out) | expired
//
// Only the worker gives a row back from sending to pending. A finished row is reopened by a retry, nothing else.

/// Status of a notification, spelled as in the database.
package enum NotificationStatus: String, Sendable, Hashable, CaseIterable {
    case pending, sending, cancelling, sent, failed, skipped, cancelled, expired

    /// Whether nothing changes any more, but for a retry.
    package var isFinal: Bool {
        switch self {
        case .pending, .sending, .cancelling: false
        case .sent, .failed, .skipped, .cancelled, .expired: true
        }
    }

    /// Whether pushes of it may be started.
    package var allowsSending: Bool { self == .sending }
}
