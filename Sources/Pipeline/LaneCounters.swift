// What a lane has done so far, counted without locks on its own loop and summed when somebody asks.

import Postgres
import PushModel

/// Counts of one lane since its start; loop-confined.
package struct LaneCounts: Sendable, Equatable {
    /// Pushes that Apple accepted.
    package var accepted: UInt64 = 0
    /// Pushes that were answered with something else than 200.
    package var notAccepted: UInt64 = 0
    /// Pushes that were written and not answered.
    package var unanswered: UInt64 = 0
    /// Pushes that were certainly not processed and went again.
    package var resent: UInt64 = 0
    /// Units that somebody else had taken over when they were written back.
    package var fenced: UInt64 = 0
    /// Tokens that looked dead and were proposed as such.
    package var proposals: UInt64 = 0
    /// Calls to the database that failed.
    package var databaseErrors: UInt64 = 0
    /// Units that were claimed.
    package var units: UInt64 = 0
    /// Leases that were lost while their units were being sent.
    package var leasesLost: UInt64 = 0

    /// The sum of two lanes.
    package static func + (a: Self, b: Self) -> Self {
        LaneCounts(
            accepted: a.accepted + b.accepted, notAccepted: a.notAccepted + b.notAccepted,
            unanswered: a.unanswered + b.unanswered, resent: a.resent + b.resent, fenced: a.fenced + b.fenced,
            proposals: a.proposals + b.proposals, databaseErrors: a.databaseErrors + b.databaseErrors,
            units: a.units + b.units, leasesLost: a.leasesLost + b.leasesLost)
    }
}

/// The counts of a lane, shared by its stages; loop-confined.
final class LaneCounters {
    var counts = LaneCounts()
    /// What is counted under labels, if anybody wants to know.
    let meters: LaneMeters?

    init(meters: LaneMeters? = nil) { self.meters = meters }

    /// A call to the database has failed.
    func failed(_ error: PostgresError) {
        counts.databaseErrors += 1
        meters?.failed(error)
    }
}
