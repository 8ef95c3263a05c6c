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
            if doubt.isDue(at: .now()) { await clearDoubt() }
            await release(unreadable.takeDue(at: .now()))
            stage.lookAtGateways()
            guard phase == .running else { break }
            let found = await claimRound()
            guard phase == .running else { break }
            if found { continue }
            if settings.once, outstanding == 0, !doubt.isOpen, isDrained { break }
            await waitForNextRound()
        }
        await release(unreadable.takeAll())
        if doubt.isOpen { await clearDoubt() }
        isClaiming = false
        stop()
        ended.signal.raise()
    }

    /// With `once`: everything was empty when last asked, so nothing more will be claimed, and what cannot be sent for has been so
    /// for long: its rows stay where they are.
    private var isDrained: Bool {
        let open = settings.apps.filter { stage.isReachable($0.name) }.map(\.name)
        let cutOff = settings.apps.filter { !open.contains($0.name) }
        guard schedule.isIdle(open, at: .now()),
            !cutOff.contains(where: { stage.isReachable($0.name, for: settings.unreachableLimit) })
        else { return false }
        wasCutOff = !cutOff.isEmpty
        return true
    }

    /// While work is under way, new work may come at any time; an idle lane sleeps until it is woken.
    ///
    /// Nobody wakes it when a gateway is back, so it looks by itself, without asking the database meanwhile.
    private func waitForNextRound() async {
        let blocked = blockedApps
        let open = settings.apps.map(\.name).filter { !blocked.contains($0) }
        guard outstanding == 0, schedule.isIdle(open, at: .now()) else {
            _ = await mayClaim.wait(ClaimSchedule.pause)
            return
        }
        guard !blocked.isEmpty else {
            _ = await mayClaim.wait(doubt.wait(from: .now()))
            return
        }
        repeat {
            if await mayClaim.wait(ClaimSchedule.pause) { return }
            stage.lookAtGateways()
        } while phase == .running && !settings.once && blockedApps == blocked && !doubt.isDue(at: .now())
    }

    /// The apps that the lane would not claim for at present, since their gateways fail or are out of reach.
    var blockedApps: Set<String> { Set(settings.apps.map(\.name).filter { !stage.isReachable($0) }) }

    /// The same after a look at the gateways, for those who ask from outside.
    func lookForBlocked() -> Set<String> {
        stage.lookAtGateways()
        return blockedApps
    }

    /// Asks once for each kind of work that is worth asking for; true when something was found.
    private func claimRound() async -> Bool {
        var found = false
        for kind in ClaimKind.allCases where phase == .running {
            let asked = whatToAsk(kind)
            guard !asked.isEmpty else { continue }
            let wakes = schedule.wakes
            do throws(PostgresError) {
                let brought = try await claim(kind, asked)
                if !brought.isEmpty { found = true }
                let names = asked.map(\.app.name)
                schedule.foundWork(kind, names.filter(brought.contains))
                // A claim that looks for the first app that has something says nothing about the others.
                let isWhole = brought.isEmpty || kind == .batches || kind == .notifications
                if schedule.wakes == wakes, isWhole {
                    schedule.foundNothing(
                        kind, names.filter { !brought.contains($0) }, isBusy: stage.devicesInWork > 0, at: .now())
                }
            } catch {
                if error.outcome == .unknown { doubt.arose(at: .now()) }
                await pauseAfter(error, "claim failed")
            }
        }
        schedule.roundEnded(at: .now())
        return found
    }

    /// The apps to ask for, with how much of each: those whose gateways can be reached, as far as anybody knows, that have room and
    /// were not empty a moment ago.
    private func whatToAsk(_ kind: ClaimKind) -> [ClaimShare] {
        let now = MonotonicTime.now()
        let apps = settings.apps.filter {
            schedule.isAwake(kind, $0.name, at: now) && stage.isReachable($0.name)
                && unreadable.mayClaim($0.name, at: now)
        }
        if kind == .probe && stage.pauses.isEmpty {
            schedule.foundNothing(kind, apps.map(\.name), at: now)
            return []
        }
        let rooms = apps.map { ClaimShare(app: $0, limit: room(for: kind, of: $0.name)) }
        if kind == .probe { return rooms }
        let isBusy = loads.devices(but: heldUp.contains) >= settings.batchSize
        let (others, yielding) = heldUp.yielding(kind, rooms, isBusy: isBusy, at: now)
        switch kind {
        case .probe: return rooms
        case .batches: return shares.shares(kind, others, total: ClaimPlan.batchLimit) + yielding
        case .notifications: return shares.shares(kind, others, total: ClaimPlan.notificationLimit) + yielding
        // One app is served: whoever may be asked for once a second must come first to be served at all.
        case .broadcasts: return yielding + shares.inTurn(others)
        }
    }

    private func room(for kind: ClaimKind, of app: String) -> Int {
        let load = loads[app]
        // One push is to find out whether the gateway works again; there is no use in keeping more for it.
        if kind != .probe && stage.isOnTrial(app) { return load == AppLoad() ? 1 : 0 }
        let capacity = plan.capacity(streams: stage.streams(of: app), active: loads.active(with: app))
        switch kind {
        case .probe: return 1
        case .batches, .broadcasts: return plan.batches(load, capacity: capacity)
        case .notifications: return plan.notifications(load, capacity: capacity)
        }
    }

    /// Claims and hands to the wire; returns the apps of which something came.
    private func claim(_ kind: ClaimKind, _ asked: [ClaimShare]) async throws(PostgresError) -> Set<String> {
        let before = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        let claimed = MonotonicTime.now()
        let request = ClaimRequest(
            apps: asked.map(\.app), limits: asked.map(\.limit), batchSize: settings.batchSize,
            leases: settings.leases,
            mayRescue: contact.mayRescue, since: walk.since)
        let claim: Claim
        switch kind {
        case .probe: claim = try await claims.claimProbe(request)
        case .batches: claim = try await claims.claimBatches(request)
        case .notifications: claim = try await claims.claimNotifications(request)
        case .broadcasts: claim = try await claims.claimBroadcasts(request)
        }
        if kind == .notifications { walk.claimed(claim.units, asked, at: loop.now) }
        let found = claim.units.reduce(into: [:]) { $0[$1.content.app, default: 0] += 1 }
        shares.learn(kind, asked, found: found)
        // Whoever hears of a pause for the first time has not asked yet whether it is time for a probe.
        if stage.pauses.isEmpty, !claim.pauses.isEmpty { schedule.foundWork(.probe) }
        stage.setPauses(claim.pauses)
        heldUp.keep(Set(stage.pauses.lazy.map(\.app)))
        keepUnreadable(claim.unreadable)
        if claim.hasSplit { schedule.foundWork(.batches) }
        held.formUnion(claim.units.lazy.map(\.key))
        let brought = claim.hasSplit ? Set(asked.map(\.app.name)) : Set(found.keys).union(claim.unreadable.map(\.app))
        guard !claim.units.isEmpty else { return brought }
        counters.counts.units += UInt64(claim.units.count)
        let lease = LeaseClock(asked: before, rules: settings.leases, using: &random)
        await expand(claim.units, claimed: claimed, lease: lease, isProbe: kind == .probe)
        return brought
    }

    /// Reads the devices of claimed units and hands them to the wire; tries for as long as the lease and the lane last.
    private func expand(_ units: [WorkUnit], claimed: MonotonicTime, lease: LeaseClock, isProbe: Bool) async {
        while phase == .running, lease.maySend(at: BootTime(nanoseconds: SystemClock.bootNanoseconds)) {
            do throws(PostgresError) {
                let devices = try await claims.expand(units, limit: settings.wholeLimit)
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
            guard let route = routes[work.content.app] else {
                held.remove(work.key)
                continue
            }
            // Only a notification that was claimed as a whole can be split; a batch is what it is, also when it was
            // cut by a process with larger batches.
            if work.key.batch == 0, parts.reduce(0, { $0 + $1.ids.count }) > settings.wholeLimit {
                oversized.append(work)
            } else {
                let unit = route.unit(work, parts, claimed: claimed, lease: lease, isProbe: isProbe)
                loads.took(unit)
                stage.accept(unit)
            }
        }
        if isKeeperIdle { mayKeep.raise() }
        if isSettlerIdle, stage.batchesInWork > 0 { ended.signal.raise() }
        if !oversized.isEmpty { await split(oversized) }
    }

    /// A user or a list with more devices than go as a whole becomes batches.
    private func split(_ units: [WorkUnit]) async {
        for unit in units {
            do throws(PostgresError) {
                try await claims.split(unit.key, batchSize: settings.batchSize)
                schedule.foundWork(.batches)
            } catch {
                // The lease ends by itself and another claim tries again.
                await pauseAfter(error, "split failed")
            }
            held.remove(unit.key)
        }
    }

    /// Gives back what a claim of unknown outcome may have leased.
    ///
    /// No claim is under way here, and what one has brought is in `held`.
    private func clearDoubt() async {
        let asked = MonotonicTime.now()
        do throws(PostgresError) {
            let count = try await claims.releaseLost(settings.apps, but: Array(held))
            doubt.cleared(asked: asked)
            guard count > 0 else { return }
            logger.warning("units of a claim whose outcome was unknown are given back", [.units: count])
            schedule.wake()
        } catch {
            await pauseAfter(error, "giving back what a claim may have leased failed")
        }
    }

    /// Says what went wrong and waits a moment; the session itself reconnects with a back-off of its own.
    func pauseAfter(_ error: PostgresError, _ message: StaticString) async {
        counters.failed(error)
        logger.warning(message, [.error: error.description, .sqlState: error.sqlState])
        await pause(for: .milliseconds(Int64.random(in: 200...1000, using: &random)))
    }
}
