// Keeping what is held: renews the leases of what is on the wire and stops what must not be sent any more.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

extension Lane {
    /// Looks at the statuses every two seconds while something is being sent, and renews when it is time.
    func keepLoop() async {
        while phase != .ended {
            if stage.devicesInWork == 0, !mustRenewWaiting {
                isKeeperIdle = true
                _ = await mayKeep.wait()
                isKeeperIdle = false
                continue
            }
            _ = await mayKeep.wait(settings.lookInterval)
            stage.lookAtGateways()
            stage.giveUpUnreachable(for: settings.unreachableLimit)
            do throws(PostgresError) {
                try await renewDue()
                try await renewWaiting()
                try await lookAround()
            } catch {
                guard phase != .ended else { return }
                await pauseAfter(error, "keeping the leases failed")
            }
        }
    }

    /// Renews the leases whose time has come, of what makes progress.
    ///
    /// A wedged sender loses its leases by itself; a unit that is no longer ours is not sent any more.
    private func renewDue() async throws(PostgresError) {
        let asked = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        let due = stage.unitsInWork.filter { $0.lease.renewAt <= asked && stage.makesProgress($0) }
        guard !due.isEmpty else { return }
        let states = try await settles.renew(due.map(\.work.key), leases: settings.leases)
        for (unit, state) in zip(due, states) {
            if state.isHeld {
                unit.lease.renewed(asked: asked, using: &random)
                unit.progressAtRenewal = stage.progress(of: unit)
            } else {
                unit.lease.lost()
            }
        }
        // What was settled while the answer was under way is not held any more, and was not lost.
        let working = Set(stage.unitsInWork.map(ObjectIdentifier.init))
        let lost = Set(zip(due, states).filter { !$0.1.isHeld }.map { ObjectIdentifier($0.0) }).intersection(working)
        guard !lost.isEmpty else { return }
        counters.counts.leasesLost += UInt64(lost.count)
        logger.warning("leases were lost", [.units: lost.count])
        stage.stop(.leaseEnded) { lost.contains(ObjectIdentifier($0)) }
    }

    /// Stops what was cancelled or has expired since it was claimed.
    private func lookAround() async throws(PostgresError) {
        stage.stop(.expired) { $0.isPastEnd }
        let ids = Set(stage.unitsInWork.map(\.work.key.notification)).sorted()
        guard !ids.isEmpty else { return }
        let statuses = try await settles.look(ids)
        let stopped = Set(zip(ids, statuses).filter { $0.1?.allowsSending != true }.map(\.0))
        guard !stopped.isEmpty else { return }
        stage.stop(.withdrawn) { stopped.contains($0.work.key.notification) }
    }
}
