// Settle and finalise: the second half of a lane.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

extension Lane {
    /// Writes back what has ended, in bundles, until the lane has nothing left.
    func settleLoop() async {
        while isClaiming || outstanding > 0 {
            _ = await ended.signal.wait()
            await collect()
            while !ended.units.isEmpty { await settle(ended.take(Self.settleLimit)) }
        }
        phase = .ended
        mayKeep.raise()
    }

    /// Units in one settle.
    private static let settleLimit = 1000

    /// Waits a tick for company, unless there is plenty already or nothing else is on the wire.
    private func collect() async {
        let end = MonotonicTime.now().advanced(by: settings.settleTick)
        while ended.units.count < 100, ended.devices < 2 * settings.batchSize, stage.devicesInWork > 0,
            phase == .running
        {
            let left = end.since(.now())
            guard left > .zero, await ended.signal.wait(left) else { return }
        }
    }

    /// Writes one bundle back, however long the database is away: a result is never thrown away.
    private func settle(_ units: [UnitInWork]) async {
        settling += units.reduce(0) { $0 + $1.count }
        defer { settling -= units.reduce(0) { $0 + $1.count } }
        let untouched = units.filter { $0.mustGoBack && $0.isUntouched }
        let touched = units.filter { !($0.mustGoBack && $0.isUntouched) }
        for unit in touched where unit.mustGoBack { unit.handBackRest() }
        await write(touched)
        await release(untouched)
        mayClaim.raise()
    }

    private func write(_ units: [UnitInWork]) async {
        guard !units.isEmpty else { return }
        let settlements = units.map(\.settlement)
        let pauses = stage.newPauses
        while true {
            do throws(PostgresError) {
                let settled = try await settles.settle(settlements, pauses: pauses)
                stage.pausesStored(pauses)
                await endPauses(units)
                return await finalise(settled)
            } catch {
                // An ambiguous commit is resolved by asking again: a settle that was written says "already".
                if error.reaction == .isolate, units.count > 1 { return await writeHalves(units) }
                if error.reaction == .isolate { return dropUnwritable(units, error) }
                await pauseAfter(error, "settle failed, will be repeated")
            }
        }
    }

    /// A probe that was accepted ends the pauses of its scope.
    private func endPauses(_ units: [UnitInWork]) async {
        for unit in units where unit.isProbe && unit.settlement.accepted > 0 {
            let ended = unit.segments.indices.flatMap { place in
                stage.pauses.filter { unit.isHeld(place, by: $0) }
            }
            for pause in ended {
                do throws(PostgresError) {
                    try await settles.endPause(pause)
                    logger.notice(
                        "sending is resumed",
                        [.app: pause.app, .environment: pause.environment?.rawValue, .topic: pause.topic])
                } catch {
                    // The next probe ends it.
                    await pauseAfter(error, "ending a pause failed")
                }
            }
            schedule.wake()
        }
    }

    /// One row that the database refuses must not hold up the others.
    private func writeHalves(_ units: [UnitInWork]) async {
        let middle = units.count / 2
        await write(Array(units[..<middle]))
        await write(Array(units[middle...]))
    }

    private func dropUnwritable(_ units: [UnitInWork], _ error: PostgresError) {
        counters.counts.databaseErrors += 1
        logger.error(
            "a result could not be written; its lease will end and it will be tried again",
            [
                .notification: units.first?.work.key.notification, .error: error.description,
                .sqlState: error.sqlState,
            ])
    }

    /// In a transaction of its own, after the settle: two settles at once do not see each other's batches.
    private func finalise(_ settled: [SettledUnit]) async {
        let open = Set(settled.lazy.filter { !$0.status.isFinal }.map(\.key.notification)).sorted()
        counters.counts.fenced += UInt64(settled.count { $0.result == .fenced })
        guard !open.isEmpty else { return }
        do throws(PostgresError) {
            try await settles.finalise(open)
        } catch {
            // The sweep finishes what is left open here.
            await pauseAfter(error, "finalise failed")
        }
    }

    /// Gives units back of which nothing was sent.
    private func release(_ units: [UnitInWork]) async {
        guard !units.isEmpty else { return }
        for attempt in 1...5 {
            do throws(PostgresError) {
                return try await settles.release(units.map(\.work.key))
            } catch {
                await pauseAfter(error, "release failed")
                if attempt == 5 { logger.warning("leases are left to end by themselves", [.units: units.count]) }
            }
        }
    }

    /// Waits on the loop.
    func pause(for duration: Duration) async {
        await withCheckedContinuation { continuation in
            loop.schedule(after: duration) { continuation.resume() }
        }
    }
}
