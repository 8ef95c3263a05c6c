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
        settles.close()
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

    /// Writes one bundle back, however long the database is away: a result is never thrown away while the lane lives.
    private func settle(_ units: [UnitInWork]) async {
        let devices = units.reduce(0) { $0 + $1.count }
        settling += devices
        defer {
            settling -= devices
            for unit in units { loads.letGo(unit) }
        }
        let untouched = units.filter { $0.mustGoBack && $0.isUntouched }
        let touched = units.filter { !($0.mustGoBack && $0.isUntouched) }
        for unit in touched where unit.mustGoBack { unit.handBackRest() }
        await write(touched)
        await release(untouched.map(\.work.key))
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
                // The lane has closed its own session: its time is over.
                if error.code == .closed { return abandon(units) }
                // An ambiguous commit is resolved by asking again: a settle that was written says "already".
                switch error.reaction {
                case .retry, .alarm: await pauseAfter(error, "settle failed, will be repeated")
                case .isolate, .report: return await writeApart(units, error)
                }
                guard MonotonicTime.now() < abandonBy else { return abandon(units) }
            }
        }
    }

    /// One row that the database refuses must not hold up the others, nor its own counts.
    private func writeApart(_ units: [UnitInWork], _ error: PostgresError) async {
        if units.count > 1 {
            let middle = units.count / 2
            await write(Array(units[..<middle]))
            return await write(Array(units[middle...]))
        }
        guard let unit = units.first else { return }
        counters.counts.databaseErrors += 1
        logger.error(
            "a result could not be written",
            [.notification: unit.work.key.notification, .error: error.description, .sqlState: error.sqlState])
        // Without the ledger and the retirements: what was sent must be known as sent, or it will be sent again.
        guard !unit.settlement.failures.isEmpty || !unit.settlement.retirements.isEmpty else { return }
        unit.settlement.failures = []
        unit.settlement.retirements = []
        await write([unit])
    }

    /// The process must end; the leases of these units end by themselves, and what was sent of them is sent again.
    private func abandon(_ units: [UnitInWork]) {
        logger.error("results could not be written before the end", [.units: units.count])
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

    /// In a transaction of its own, after the settle: two settles at once do not see each other's batches.
    private func finalise(_ settled: [SettledUnit]) async {
        if let due = stage.firstRetry { retryPlanned(due) }
        stage.firstRetry = nil
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
    func release(_ keys: [UnitKey]) async {
        guard !keys.isEmpty else { return }
        for attempt in 1...5 {
            do throws(PostgresError) {
                return try await settles.release(keys)
            } catch {
                await pauseAfter(error, "release failed")
            }
            if attempt == 5 || MonotonicTime.now() >= abandonBy {
                return logger.warning("leases are left to end by themselves", [.units: keys.count])
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
