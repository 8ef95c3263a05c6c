// Settle and finalise: the second half of a lane.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

/// What is written back about a unit: all that is left to say at its end, or what is known in the middle.
struct UnitReport {
    let unit: UnitInWork
    /// Nil at the end.
    let checkpoint: Checkpoint?
    var settlement: UnitSettlement

    /// The last word about a unit.
    init(endOf unit: UnitInWork) {
        self.unit = unit
        checkpoint = nil
        settlement = unit.lastSettlement
    }

    /// A word in between.
    init(_ checkpoint: Checkpoint, of unit: UnitInWork) {
        self.unit = unit
        self.checkpoint = checkpoint
        settlement = checkpoint.settlement
    }
}

extension Lane {
    /// Writes back what has ended, and now and then what is known of the rest, until the lane has nothing left.
    func settleLoop() async {
        while isClaiming || outstanding > 0 {
            await waitForResults()
            await collect()
            repeat {
                await settle(ended.take(Self.settleLimit), stage.checkpoints())
            } while !ended.units.isEmpty
            await settleAside()
        }
        phase = .ended
        settles.close()
        mayKeep.raise()
    }

    /// Units in one settle.
    private static let settleLimit = 1000

    /// Waits until something has ended, or it may be time for a checkpoint.
    private func waitForResults() async {
        isSettlerIdle = stage.batchesInWork == 0 && aside.isEmpty
        _ = await ended.signal.wait(isSettlerIdle ? nil : settings.checkpointInterval / 4)
        isSettlerIdle = false
    }

    /// Waits a tick for company, unless there is plenty already or nothing else is on the wire.
    private func collect() async {
        let end = MonotonicTime.now().advanced(by: settings.settleTick)
        while !ended.units.isEmpty, ended.units.count < 100, ended.devices < 2 * settings.batchSize,
            stage.devicesInWork > 0, phase == .running
        {
            let left = end.since(.now())
            guard left > .zero, await ended.signal.wait(left) else { return }
        }
    }

    /// Writes one bundle back, however long the database is away: a result is never thrown away while the lane lives.
    private func settle(_ units: [UnitInWork], _ checkpoints: [(unit: UnitInWork, checkpoint: Checkpoint)]) async {
        guard !units.isEmpty || !checkpoints.isEmpty else { return }
        settling += units.reduce(0) { $0 + $1.count }
        defer { letGo(units) }
        // What is given up for everybody is not released: somebody would claim it again before that is written down.
        let isUntouched = { (unit: UnitInWork) in
            unit.mustGoBack && unit.isUntouched && unit.stopReason != .hopeless
        }
        let touched = units.filter { !isUntouched($0) }
        for unit in touched where unit.mustGoBack { unit.handBackRest() }
        let settled = await write(
            checkpoints.map { UnitReport($0.checkpoint, of: $0.unit) } + touched.map(UnitReport.init(endOf:)))
        // What could not be written stays held: it was sent, so it must not be given back.
        held.subtract(Set(touched.lazy.map(\.work.key)).intersection(settled.lazy.map(\.key)))
        await release(units.filter(isUntouched).map(\.work.key))
        await endPauses(touched)
        await giveUpRest(settled)
        await finalise(settled)
        mayClaim.raise()
    }

    /// Returns what the database said about the reports that it took.
    func write(_ reports: [UnitReport]) async -> [SettledUnit] {
        guard !reports.isEmpty else { return [] }
        let settlements = reports.map(\.settlement)
        let pauses = stage.newPauses
        var slowly = Duration.seconds(1)
        while true {
            let asked = BootTime(nanoseconds: SystemClock.bootNanoseconds)
            do throws(PostgresError) {
                let (settled, stored) = try await settles.settle(settlements, pauses: pauses)
                needsRepair = false
                stage.pausesStored(pauses)
                if let stored { stage.learnPauses(stored) }
                take(settled, reports, asked: asked)
                announceRetries(settlements)
                return settled
            } catch {
                // The lane has closed its own session: its time is over.
                if error.code == .closed { return abandon(reports) }
                // An ambiguous commit is resolved by asking again: a settle that was written says "already".
                switch error.reaction {
                case .retry where error.isOverdue && reports.count > 1:
                    // Perhaps it is too much for the database at present.
                    await pauseAfter(error, "settle took too long, will be repeated in parts")
                    return await writeHalves(reports)
                case .retry: await pauseAfter(error, "settle failed, will be repeated")
                // Who is to drain and return has waited a minute by then; the leases end by themselves.
                case .alarm where settings.once && slowly >= .seconds(60): return abandon(reports)
                case .alarm: await waitForRepair(error, &slowly)
                case .isolate, .report: return await writeApart(reports, error)
                }
                guard MonotonicTime.now() < abandonBy else { return abandon(reports) }
            }
        }
    }

    /// Nobody says a word when retries fall due, and the poll may have planned to sleep beyond that.
    private func announceRetries(_ settlements: [UnitSettlement]) {
        let retries = settlements.lazy.flatMap(\.requeues).filter { $0.state == .ready }
        guard let first = retries.map(\.delay).min() else { return }
        retryPlanned(MonotonicTime.now().advanced(by: first))
    }

    /// Learns what became of reports, in their order.
    private func take(_ settled: [SettledUnit], _ reports: [UnitReport], asked: BootTime) {
        var lost: Set<ObjectIdentifier> = []
        var withdrawn: Set<ObjectIdentifier> = []
        for (report, answer) in zip(reports, settled) {
            if answer.result == .fenced, report.checkpoint == nil { counters.counts.fenced += 1 }
            if answer.result == .applied { counters.counts.proposals += UInt64(report.settlement.proposals.count) }
            if answer.result != .fenced { counters.meters?.settled(report) }
            guard let checkpoint = report.checkpoint else { continue }
            let unit = report.unit
            switch answer.result {
            case .fenced:
                unit.lease.lost()
                lost.insert(ObjectIdentifier(unit))
            case .applied:
                unit.settled(checkpoint)
                // The database has prolonged the lease with it.
                unit.lease.renewed(asked: asked, using: &random)
                unit.progressAtRenewal = stage.progress(of: unit)
            case .already: unit.settled(checkpoint)
            }
            if !answer.status.allowsSending { withdrawn.insert(ObjectIdentifier(unit)) }
        }
        if !lost.isEmpty {
            counters.counts.leasesLost += UInt64(lost.count)
            logger.warning("leases were lost", [.units: lost.count])
            stage.stop(.leaseEnded) { lost.contains(ObjectIdentifier($0)) }
        }
        if !withdrawn.isEmpty { stage.stop(.withdrawn) { withdrawn.contains(ObjectIdentifier($0)) } }
    }

    /// One row that the database refuses must not hold up the others, nor its own counts.
    private func writeApart(_ reports: [UnitReport], _ error: PostgresError) async -> [SettledUnit] {
        if reports.count > 1 { return await writeHalves(reports) }
        guard var report = reports.first else { return [] }
        counters.failed(error)
        if let omitted = refusals.admit("\(error.sqlState) \(error.message)", at: loop.now.nanoseconds) {
            logger.error(
                "a result could not be written; it waits until somebody mends what refuses it: a trigger, or the row",
                [
                    .notification: report.unit.work.key.notification, .error: error.description,
                    .sqlState: error.sqlState, .omitted: omitted,
                ])
        }
        // Somebody's trigger can be mended; until then nothing of it is lost.
        if error.reaction == .report {
            if report.checkpoint != nil {
                report.unit.checkpointAt = .now().advanced(by: Self.asideInterval)
                return []
            }
            if setAside(report) { return [] }
        }
        // Without the ledger and the retirements: what was sent must be known as sent, or it will be sent again.
        guard !report.settlement.failures.isEmpty || !report.settlement.retirements.isEmpty else {
            _ = setAside(report)
            return []
        }
        report.settlement.failures = []
        report.settlement.retirements = []
        report.settlement.proposals = []
        report.settlement.evidence = nil
        return await write([report])
    }

    private func writeHalves(_ reports: [UnitReport]) async -> [SettledUnit] {
        let middle = reports.count / 2
        let settled = await write(Array(reports[..<middle]))
        return settled + (await write(Array(reports[middle...])))
    }

    /// The process must end; the leases of these units end by themselves, and what was sent of them is sent again.
    func abandon(_ reports: [UnitReport]) -> [SettledUnit] {
        logger.error("results could not be written before the end", [.units: reports.count])
        return []
    }

    /// A probe that was accepted counts towards the end of the pauses of its scope.
    private func endPauses(_ units: [UnitInWork]) async {
        for unit in units where unit.isProbe && unit.settlement.accepted > 0 {
            let covering = unit.segments.indices.flatMap { place in
                stage.pauses.filter { unit.isHeld(place, by: $0) }
            }
            for pause in covering {
                do throws(PostgresError) {
                    let isOver = try await settles.endPause(pause)
                    logger.notice(
                        isOver ? "sending is resumed" : "a probe was accepted, more are needed",
                        [.app: pause.app, .environment: pause.environment?.rawValue, .topic: pause.topic])
                } catch {
                    // The next probe ends it.
                    await pauseAfter(error, "ending a pause failed")
                }
            }
            schedule.wake()
        }
    }

    /// Writes down which notifications are refused for everybody, after the settle has given back what was left of them.
    private func giveUpRest(_ settled: [SettledUnit]) async {
        let concerned = Set(settled.lazy.map(\.key.notification)).intersection(stage.givenUp.keys)
        guard !concerned.isEmpty else { return }
        let open = Set(settled.lazy.filter { !$0.status.isFinal }.map(\.key.notification))
        for id in concerned.intersection(open).sorted() {
            let reason = stage.givenUp[id] ?? ""
            do throws(PostgresError) {
                if try await settles.giveUpRest(id, reason: reason) {
                    logger.error("a notification is given up", [.notification: id, .reason: reason])
                } else {
                    // Another worker knows better; whom Apple refuses it for, it is refused for one by one.
                    stage.keepUp(id)
                }
            } catch {
                // What was given back is claimed again in a while, and refused again.
                await pauseAfter(error, "giving up failed")
            }
        }
        stage.forgetGivenUp(concerned)
    }

    /// In a transaction of its own, after the settle: two settles at once do not see each other's batches.
    func finalise(_ settled: [SettledUnit]) async {
        let open = Set(settled.lazy.filter { !$0.status.isFinal }.map(\.key.notification)).sorted()
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
        defer { held.subtract(keys) }
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
