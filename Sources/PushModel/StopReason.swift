// Why nothing more of a unit of work is handed to the wire, although not all of it has been.

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
    /// Apple refuses its content or its channel: every other device would get the same answer.
    case hopeless
    /// The process is about to end.
    case stopping
}
