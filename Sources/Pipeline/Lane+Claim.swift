// Claim and expand: the first half of a lane.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

extension Lane {
    /// Devices that the lane answers for: on the wire, waiting for it, or waiting to be written back.
    var outstanding: Int { stage.devicesInWork + ended.devices + settling }

    /// Claims as long as there is work and room, then waits for either.
    func claimLoop() async {
        while phase == .running {
            let found = await claimRound()
            guard phase == .running else { break }
            if found { continue }
            if outstanding == 0 && (isDrained || isCutOff) { break }
            _ = await mayClaim.wait(untilNextRound)
        }
        isClaiming = false
        stop()
        ended.signal.raise()
    }

    /// With `once`: everything was empty when last asked, so nothing more will be claimed.
    private var isDrained: Bool { settings.once && schedule.isIdle(at: .now()) }

    /// With `once`: no gateway has been in reach for long; what is due stays where it is.
    private var isCutOff: Bool {
        guard settings.once,
            settings.apps.allSatisfy({ !stage.isReachable($0.name, for: settings.unreachableLimit) })
        else { return false }
        wasCutOff = true
        return true
    }

    /// While work is under way, new work may come at any time; an idle lane sleeps until it is woken.
    private var untilNextRound: Duration? {
        outstanding > 0 || !schedule.isIdle(at: .now()) ? ClaimSchedule.pause : nil
    }

    /// Asks once for each kind of work that is worth asking for; true when something was found.
    private func claimRound() async -> Bool {
        var found = false
        for kind in ClaimKind.allCases where phase == .running && schedule.isAwake(kind, at: .now()) {
            if kind == .probe && stage.pauses.isEmpty {
                schedule.foundNothing(kind, at: .now())
                continue
            }
            let room = room(for: kind)
            guard room > 0, !reachableApps.isEmpty else { continue }
            let wakes = schedule.wakes
            do throws(PostgresError) {
                if try await claim(kind, room) {
                    schedule.foundWork(kind)
                    found = true
                } else if schedule.wakes == wakes {
                    schedule.foundNothing(kind, at: .now())
                }
            } catch {
                await pauseAfter(error, "claim failed")
            }
        }
        schedule.roundEnded(at: .now())
        return found
    }

    /// The apps whose gateways can be reached, as far as anybody knows; the others are tried with a bare connection.
    private var reachableApps: [ServedApp] { settings.apps.filter { stage.isReachable($0.name) } }

    private func room(for kind: ClaimKind) -> Int {
        let capacity = plan.capacity(streams: stage.streams)
        switch kind {
        case .probe: return 1
        case .batches: return plan.batches(outstanding: outstanding, capacity: capacity)
        case .notifications: return plan.notifications(outstanding: outstanding, capacity: capacity)
        case .broadcasts: return plan.batches(outstanding: outstanding, capacity: capacity)
        }
    }

    private func claim(_ kind: ClaimKind, _ room: Int) async throws(PostgresError) -> Bool {
        let asked = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        let claimed = MonotonicTime.now()
        let request = ClaimRequest(
            apps: reachableApps, limit: room, batchSize: settings.batchSize, leases: settings.leases,
            mayRescue: settings.leases.mayRescue(connected: claims.session.connectedSince.map { claimed.since($0) }),
            since: walk.since)
        let claim: Claim
        switch kind {
        case .probe: claim = try await claims.claimProbe(request)
        case .batches: claim = try await claims.claimBatches(request)
        case .notifications: claim = try await claims.claimNotifications(request)
        case .broadcasts: claim = try await claims.claimBroadcasts(request)
        }
        if kind == .notifications { walk.claimed(claim.units, limit: room) }
        // Whoever hears of a pause for the first time has not asked yet whether it is time for a probe.
        if stage.pauses.isEmpty, !claim.pauses.isEmpty { schedule.foundWork(.probe) }
        stage.setPauses(claim.pauses)
        for fault in claim.unreadable {
            // Left under its lease: given back it would be claimed again at once, by this lane or by another like it.
            logger.error("a claimed row cannot be read; a newer schema?", [.error: fault])
        }
        if claim.hasSplit { schedule.foundWork(.batches) }
        guard !claim.units.isEmpty else { return claim.hasSplit }
        counters.counts.units += UInt64(claim.units.count)
        let lease = LeaseClock(asked: asked, rules: settings.leases, using: &random)
        await expand(claim.units, claimed: claimed, lease: lease, isProbe: kind == .probe)
        return true
    }

    /// Reads the devices of claimed units and hands them to the wire; tries for as long as the lease and the lane last.
    private func expand(_ units: [WorkUnit], claimed: MonotonicTime, lease: LeaseClock, isProbe: Bool) async {
        while phase == .running, lease.maySend(at: BootTime(nanoseconds: SystemClock.bootNanoseconds)) {
            do throws(PostgresError) {
                let devices = try await claims.expand(units, limit: settings.batchSize)
                return await accept(units, devices, claimed: claimed, lease: lease, isProbe: isProbe)
            } catch {
                await pauseAfter(error, "expand failed")
            }
        }
        logger.warning("the devices could not be read in time; the units are given back", [.units: units.count])
        await release(units.map(\.key))
    }

    private func accept(
        _ units: [WorkUnit], _ devices: [[UnitDevices]], claimed: MonotonicTime, lease: LeaseClock, isProbe: Bool
    ) async {
        var oversized: [WorkUnit] = []
        for (work, parts) in zip(units, devices) {
            guard let route = routes[work.content.app] else { continue }
            // Only a notification that was claimed as a whole can be split; a batch is what it is, also when it was
            // cut by a process with larger batches.
            if work.key.batch == 0, parts.reduce(0, { $0 + $1.ids.count }) > settings.batchSize {
                oversized.append(work)
            } else {
                stage.accept(route.unit(work, parts, claimed: claimed, lease: lease, isProbe: isProbe))
            }
        }
        if isKeeperIdle { mayKeep.raise() }
        if isSettlerIdle, stage.batchesInWork > 0 { ended.signal.raise() }
        if !oversized.isEmpty { await split(oversized) }
    }

    /// A user with more devices than a batch holds becomes batches.
    private func split(_ units: [WorkUnit]) async {
        for unit in units {
            do throws(PostgresError) {
                try await claims.split(unit.key, batchSize: settings.batchSize)
                schedule.foundWork(.batches)
            } catch {
                // The lease ends by itself and another claim tries again.
                await pauseAfter(error, "split failed")
            }
        }
    }

    /// Says what went wrong and waits a moment; the session itself reconnects with a back-off of its own.
    func pauseAfter(_ error: PostgresError, _ message: StaticString) async {
        counters.counts.databaseErrors += 1
        logger.warning(message, [.error: error.description, .sqlState: error.sqlState])
        await pause(for: .milliseconds(Int64.random(in: 200...1000, using: &random)))
    }
}
