// Whether the next request of a unit may be started: asked before each handful, so that a cancel, an expiry, a lost lease, a
// paused scope or the end of the process stops a unit between two requests.

/// Why no further request of a unit is started.
package enum StopReason: String, Sendable, Hashable {
    /// The lease has ended or belongs to somebody else. Nothing is known about the rest, somebody else does it.
    case leaseEnded
    /// The notification is no longer being sent: cancelled, expired or finished by others.
    case withdrawn
    /// Its time is over.
    case expired
    /// Nothing of its scope is sent at present.
    case paused
    /// The process is about to end.
    case stopping
}

/// What is known when a request is about to start.
package struct SendGate: Sendable {
    package var lease: LeaseClock
    /// Status of the notification when last looked at.
    package var status: NotificationStatus
    /// Boot time after which it is too late; nil when there is no end.
    package var end: BootTime?
    package var paused: Bool
    package var stopping: Bool

    package init(
        lease: LeaseClock, status: NotificationStatus = .sending, end: BootTime? = nil, paused: Bool = false,
        stopping: Bool = false
    ) {
        self.lease = lease
        self.status = status
        self.end = end
        self.paused = paused
        self.stopping = stopping
    }

    /// Why not, nil when it may; what forbids most comes first.
    package func stopReason(at now: BootTime) -> StopReason? {
        if !lease.maySend(at: now) { return .leaseEnded }
        if !status.allowsSending { return .withdrawn }
        if let end, now >= end { return .expired }
        if paused { return .paused }
        return stopping ? .stopping : nil
    }
}
