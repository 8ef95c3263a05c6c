// How a worker stops itself. A lease is the database's: only its clock says when it ends. A worker that was frozen, or whose
// database is away, cannot ask; so it keeps a deadline of its own on the boot-time clock (which goes on while the machine
// sleeps), counted from *before* it asked for the lease and shortened by a margin, and starts no request after it. Thus its
// deadline lies before the database's whatever the wait for the answer was.

/// A reading of CLOCK_BOOTTIME.
package struct BootTime: Sendable, Hashable, Comparable {
    package var nanoseconds: UInt64

    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    package static func < (left: BootTime, right: BootTime) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The time from `earlier` to this reading; negative when that is later.
    package func since(_ earlier: BootTime) -> Duration {
        self < earlier
            ? .zero - .nanoseconds(Int64(clamping: earlier.nanoseconds - nanoseconds))
            : .nanoseconds(Int64(clamping: nanoseconds - earlier.nanoseconds))
    }

    /// That much later (or earlier); stays within what can be expressed.
    package func advanced(by duration: Duration) -> BootTime {
        let (seconds, attoseconds) = duration.components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (delta, overflowed) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        if overflow || overflowed { return BootTime(nanoseconds: seconds < 0 ? 0 : .max) }
        let (sum, out) =
            delta < 0
            ? nanoseconds.subtractingReportingOverflow(delta.magnitude)
            : nanoseconds.addingReportingOverflow(delta.magnitude)
        return BootTime(nanoseconds: out ? (delta < 0 ? 0 : .max) : sum)
    }
}

/// The figures of a lease.
package struct LeaseRules: Sendable, Equatable {
    /// How long a lease lasts by the database's clock.
    package var lease: Duration
    /// What the worker keeps away from the end: the way of a request from its start to the wire, and clocks that differ in rate.
    package var margin: Duration
    /// When a lease is renewed, after it was last asked for.
    package var renewal: ClosedRange<Duration>
    /// What a rescuer waits beyond the end of a lease.
    package var grace: Duration
    /// Within which time a living owner is back after an outage, and has written or renewed what it holds.
    package var comeback: Duration
    /// How long the database must have answered a rescuer without a break (`DatabaseContact`), longer than `comeback`: after an outage
    /// every lease looks expired.
    package var rescuerContact: Duration

    package init(
        lease: Duration = .seconds(75), margin: Duration = .seconds(10),
        renewal: ClosedRange<Duration> = .seconds(20)...(.seconds(25)), grace: Duration = .seconds(15),
        comeback: Duration = .seconds(20), rescuerContact: Duration = .seconds(30)
    ) {
        self.lease = lease
        self.margin = margin
        self.renewal = renewal
        self.grace = grace
        self.comeback = comeback
        self.rescuerContact = rescuerContact
    }

    /// How long a rescuer may have asked nothing.
    ///
    /// An outage as short as this that nobody noticed did no harm: a living owner had renewed its lease before, and had the time to
    /// come back before the grace was over.
    package var longestSilence: Duration { max(.zero, lease - renewal.upperBound + grace - comeback) }

    /// Whether a worker may take over the leases of others.
    ///
    /// - Parameter contact: How long the database has answered without a break; nil when it does not.
    /// - Returns: False until that is long enough.
    package func mayRescue(contact: Duration?) -> Bool {
        guard let contact else { return false }
        return contact >= rescuerContact
    }
}

/// The worker's side of one lease.
package struct LeaseClock: Sendable, Equatable {
    private let rules: LeaseRules
    /// From here on no request is started.
    package private(set) var deadline: BootTime
    /// From here on the lease should be renewed.
    package private(set) var renewAt: BootTime

    /// A lease that was granted.
    ///
    /// - Parameters:
    ///   - asked: Boot time read before the claim was sent, not when its answer came.
    ///   - rules: The figures that the claim was made with.
    ///   - random: Spreads the renewals.
    package init(asked: BootTime, rules: LeaseRules, using random: inout some RandomNumberGenerator) {
        self.rules = rules
        deadline = LeaseClock.deadline(asked, rules)
        renewAt = asked.advanced(by: Duration.random(in: rules.renewal, using: &random))
    }

    /// A renewal was granted; an answer that comes late and out of order moves nothing back.
    package mutating func renewed(asked: BootTime, using random: inout some RandomNumberGenerator) {
        guard deadline > BootTime(nanoseconds: 0) else { return }
        deadline = max(deadline, LeaseClock.deadline(asked, rules))
        renewAt = max(renewAt, asked.advanced(by: Duration.random(in: rules.renewal, using: &random)))
    }

    /// The database says that somebody else has it: nothing is sent any more, whatever comes later.
    package mutating func lost() { deadline = BootTime(nanoseconds: 0) }

    /// Whether a request may be started now.
    package func maySend(at now: BootTime) -> Bool { now < deadline }

    private static func deadline(_ asked: BootTime, _ rules: LeaseRules) -> BootTime {
        rules.lease > rules.margin ? asked.advanced(by: rules.lease - rules.margin) : BootTime(nanoseconds: 0)
    }
}
