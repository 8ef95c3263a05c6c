// Results that the database refuses to write down. What was sent must not be sent again, so they are kept with their leases and
// written again every now and then, until somebody has mended what stands in the way: a trigger, a right, a function.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

extension Lane {
    /// How often a refused result is written again.
    static let asideInterval: Duration = .seconds(60)
    /// How often the leases of what waits to be written are prolonged.
    private static let waitingRenewal: Duration = .seconds(20)

    /// Whether results wait longer than a moment although the database can be reached.
    var isWriteHeldUp: Bool { needsRepair || !aside.isEmpty }

    /// Whether there are leases of units that are not on the wire.
    var mustRenewWaiting: Bool { isWriteHeldUp || !unreadable.isEmpty }

    /// Puts the end of one unit aside, which nothing but its own lease holds up.
    ///
    /// False with `once`, where nobody is there a minute later: the lease ends by itself.
    func setAside(_ report: UnitReport) -> Bool {
        guard !settings.once, report.checkpoint == nil, MonotonicTime.now() < abandonBy else { return false }
        if aside.isEmpty { asideDue = .now().advanced(by: Self.asideInterval) }
        aside.append(report)
        mayKeep.raise()
        return true
    }

    /// Writes what was put aside, if it is time; gives it up when the lane must end.
    func settleAside() async {
        guard !aside.isEmpty, MonotonicTime.now() >= min(asideDue, abandonBy) else { return }
        let reports = aside
        aside = []
        let settled = MonotonicTime.now() < abandonBy ? await write(reports) : abandon(reports)
        held.subtract(settled.lazy.map(\.key))
        letGo(reports.map(\.unit))
        await finalise(settled)
        mayClaim.raise()
    }

    /// Counts units as gone, but for those that were put aside.
    func letGo(_ units: [UnitInWork]) {
        let waiting = Set(aside.map { ObjectIdentifier($0.unit) })
        for unit in units where !waiting.contains(ObjectIdentifier(unit)) {
            settling -= unit.count
            loads.letGo(unit)
            heldUp.ended(unit.work.content.app, parked: unit.parked, of: unit.count)
        }
    }

    /// Waits twice as long each time, up to a minute.
    func waitForRepair(_ error: PostgresError, _ wait: inout Duration) async {
        counters.failed(error)
        logger.error(
            "results cannot be written until somebody mends what the database names: a trigger, a right, a function",
            [.error: error.description, .sqlState: error.sqlState])
        needsRepair = true
        mayKeep.raise()
        let end = MonotonicTime.now().advanced(by: wait)
        wait = min(wait * 2, .seconds(60))
        // In steps, since the lane may be told to end.
        while MonotonicTime.now() < min(end, abandonBy) { await pause(for: .seconds(1)) }
    }

    /// Keeps the leases of what was sent and waits to be written, else somebody would send it again; and of what cannot be read, else
    /// somebody would think that it was sent.
    func renewWaiting() async throws(PostgresError) {
        guard mustRenewWaiting, MonotonicTime.now() >= waitingRenewed.advanced(by: Self.waitingRenewal) else { return }
        waitingRenewed = .now()
        let waiting = held.subtracting(stage.unitsInWork.map(\.work.key))
        guard !waiting.isEmpty else { return }
        // One that is lost all the same is refused when it is written.
        _ = try await settles.renew(Array(waiting), leases: settings.leases)
    }
}
