// How many streams Apple lets a connection have. The whole of it was observed from outside:
//
//     opened ──► first (1) ──first valid token──► full (1000) ──a rejection──► narrowed (1)
//                                                     ▲                            │
//                                                     └────────next success────────┘
//
// A 410 does not count as a rejection; nor does a fault of the server (5xx).

/// The stream limit of one connection.
package struct StreamLimit: Equatable, Sendable {
    /// The limits in each state.
    package struct Levels: Equatable, Sendable {
        /// Until the first valid token.
        package var first = 1
        /// In good times.
        package var full = 1000
        /// From a rejection to the next success; nil leaves the limit alone.
        package var narrowed: Int? = 1

        /// Apple's levels.
        package init() {}
    }

    private enum State: Sendable { case first, full, narrowed }

    private var state = State.first
    /// What the peer was last told; nil before it was told anything.
    package private(set) var announced: Int?

    /// Makes the limit of a new connection.
    ///
    /// Certificate connections know their peer from the start.
    package init(startsTrusted: Bool = false) { state = startsTrusted ? .full : .first }

    /// The limit that holds now.
    package func value(_ levels: Levels) -> Int {
        switch state {
        case .first: levels.first
        case .full: levels.full
        case .narrowed: levels.narrowed ?? levels.full
        }
    }

    /// A token was good (whatever became of the push).
    package mutating func tokenAccepted() { if state == .first { state = .full } }

    /// A request was answered with this status and reason (nil: accepted).
    package mutating func answered(_ rejection: Rejection?) {
        if let rejection {
            if rejection.narrowsConnection, state == .full { state = .narrowed }
        } else if state == .narrowed {
            state = .full
        }
    }

    /// The limit to announce now, when it differs from what the peer knows; counts as announced.
    package mutating func takeAnnouncement(_ levels: Levels) -> Int? {
        let value = value(levels)
        guard value != announced else { return nil }
        announced = value
        return value
    }
}
