// Notices that a peer has fallen silent: a PING after a while without a byte while streams wait, and the end when that
// brings nothing either. Idle connections are asked once an hour. The rule is pure; the timer is the connection's.

import Reactor

/// What is known of a connection's silence.
struct Watchdog {
    enum Action: Equatable {
        case ping
        case giveUp
        /// Look again then.
        case wait(MonotonicTime)
    }

    private var lastReceived = MonotonicTime(nanoseconds: 0)
    private var waitingSince = MonotonicTime(nanoseconds: 0)
    private var pingedAt: MonotonicTime?
    private var pingedWhileWaiting = false

    /// A PING is out because streams wait in vain: no time to entrust it with more.
    var isSuspicious: Bool { pingedAt != nil && pingedWhileWaiting }

    /// Bytes have come.
    mutating func received(at now: MonotonicTime) {
        lastReceived = now
        pingedAt = nil
    }

    /// The first stream was opened on an idle connection.
    mutating func startedWaiting(at now: MonotonicTime) { waitingSince = now }

    /// Decides what is due at `now`.
    mutating func look(
        at now: MonotonicTime, isWaiting: Bool, pingAfter: Duration, idlePing: Duration, pingTimeout: Duration
    ) -> Action {
        if let pingedAt {
            let end = pingedAt.advanced(by: pingTimeout)
            return now >= end ? .giveUp : .wait(end)
        }
        let silentSince = isWaiting ? max(lastReceived, waitingSince) : lastReceived
        let due = silentSince.advanced(by: isWaiting ? pingAfter : idlePing)
        guard now >= due else { return .wait(due) }
        pingedAt = now
        pingedWhileWaiting = isWaiting
        return .ping
    }
}
