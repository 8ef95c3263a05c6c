// The third stage of a lane: units go in, pushes go out over the pools, and each unit comes out again when the fate
// of all its devices is known.
//
//     accept(unit) ──► feed (urgent | bulk) ──► pool ──► answer ──► verdict ──► unit ended ──► settle
//                          ▲                                  │
//                          └──── certainly not processed ◄────┘
//
// Everything here is synchronous and runs on the lane's loop; a push costs a slot and no allocation.

import HTTP2
import PushModel
import PushStore
import Reactor
import Telemetry

/// Which feed carries a push.
struct FeedKey: Hashable {
    /// What pushes go to; channels may be at a host of their own.
    enum Target: CaseIterable { case devices, channels }

    let app: String
    let environment: PushEnvironment
    let target: Target

    init(_ app: String, _ environment: PushEnvironment, _ target: Target = .devices) {
        self.app = app
        self.environment = environment
        self.target = target
    }
}

/// Sends the devices of units and says what became of them; loop-confined.
final class SendStage: HTTP2RequestHandler {
    let loop: EventLoop
    let retry: RetryPolicy
    let unreachableLimit: Duration
    let logger: Logger
    let counters: LaneCounters
    var random = Chance()
    /// A fault of a whole broadcast is said once a minute.
    var concerns = LogLimiter<String>(interval: .seconds(60))

    /// Scopes that must not be sent to, by the database and by what this lane has just met.
    private(set) var pauses: Set<ScopePause> = []
    /// Scopes that this lane has found at fault and not yet written down.
    private(set) var newPauses: Set<ScopePause> = []

    /// Devices of all units that have not ended.
    private(set) var devicesInWork = 0
    /// Batches among those units: what can be written back in the middle.
    private(set) var batchesInWork = 0
    /// Notifications that Apple refuses for everybody, with its reason, until that is written down.
    var givenUp: [Int64: String] = [:]
    /// Notifications that the database does not want to be given up: somebody has accepted them.
    private var keptUp: Set<Int64> = []
    /// One has come up in this turn; what is left of it is stopped at the end of the turn.
    private var mustStopGivenUp = false

    private let checkpointInterval: Duration
    private let onUnitEnded: (UnitInWork) -> Void
    /// Called when results should be written down without waiting for the end of their unit.
    private let onHaste: () -> Void
    /// The feeds and the gateways that they go over (`SendStage+Gateways`).
    var feeds: [FeedKey: PushFeed] = [:]
    var gateways: [Gateway] = []
    /// The same by app.
    var appFeeds: [String: [PushFeed]] = [:]
    private var units: [UnitInWork?] = []
    private var freeSlots: [Int] = []
    private var isPumpPlanned = false
    private var isStopping = false
    /// A pause has come up in this turn; what it covers is taken out of the pools at the end of the turn.
    private var mustWithdrawHeld = false
    /// A gateway has failed in this turn; what waits for it is given back at the end of the turn.
    var failedFeeds: [PushFeed] = []

    init(
        loop: EventLoop, settings: LaneSettings, counters: LaneCounters, logger: Logger,
        onUnitEnded: @escaping (UnitInWork) -> Void, onHaste: @escaping () -> Void
    ) {
        self.loop = loop
        retry = settings.retry
        checkpointInterval = settings.checkpointInterval
        unreachableLimit = settings.unreachableLimit
        self.counters = counters
        self.logger = logger
        self.onUnitEnded = onUnitEnded
        self.onHaste = onHaste
    }

    // MARK: Units

    /// Takes a unit; it ends at once when it has no devices.
    func accept(_ unit: UnitInWork) {
        unit.slot = freeSlots.popLast() ?? units.count
        if unit.slot == units.count { units.append(unit) } else { units[unit.slot] = unit }
        devicesInWork += unit.count
        if unit.work.key.batch > 0 { batchesInWork += 1 }
        unit.checkpointAt = loop.now.advanced(by: checkpointInterval)
        for place in unit.segments.indices {
            unit.segments[place].feed = feed(for: unit, place)
        }
        unit.progressAtRenewal = progress(of: unit)
        if givenUp[unit.work.key.notification] != nil { unit.stop(.hopeless) }
        if isStopping { unit.stop(.stopping) }
        for place in unit.segments.indices { line(unit, up: place) }
        endIfDecided(unit)
    }

    /// The units that have not ended.
    var unitsInWork: [UnitInWork] { units.compactMap(\.self) }

    /// Hands nothing more of these units to the wire; what is on the wire ends by itself.
    func stop(_ reason: StopReason, where matches: (UnitInWork) -> Bool) {
        let stopped = unitsInWork.filter { $0.stopReason == nil && matches($0) }
        for unit in stopped { unit.stop(reason) }
        withdrawQueued(stopped)
        for unit in stopped { endIfDecided(unit) }
    }

    /// Hands nothing more of any unit to the wire, now and later.
    func stopAll() {
        isStopping = true
        stop(.stopping) { _ in true }
    }

    /// What is queued in a pool of a stopped unit comes back at once, as certainly not processed.
    private func withdrawQueued(_ stopped: [UnitInWork]) {
        guard !stopped.isEmpty else { return }
        let slots = Set(stopped.map { UInt64($0.slot) })
        for gateway in gateways { gateway.pool.withdraw { slots.contains($0 >> 32) } }
    }

    func line(_ unit: UnitInWork, up place: Int) {
        guard let feed = unit.segments[place].feed else { return holdUnserved(unit, place) }
        feed.add(unit, segment: place)
        planPump()
    }

    /// The unit at a place of the table.
    func unitInWork(_ slot: Int) -> UnitInWork? { slot < units.count ? units[slot] : nil }

    /// Lets a unit go when the fate of all its devices is known; its slot is free for the next one.
    func endIfDecided(_ unit: UnitInWork) {
        guard unit.isEnded, unit.slot < units.count, units[unit.slot] === unit else { return }
        units[unit.slot] = nil
        freeSlots.append(unit.slot)
        devicesInWork -= unit.count
        if unit.work.key.batch > 0 { batchesInWork -= 1 }
        onUnitEnded(unit)
    }

    // MARK: Checkpoints

    /// What there is to write back of units that have been on the wire for a while, or have called for it.
    ///
    /// The next time of each is an interval away, whether there was anything or not.
    func checkpoints() -> [(unit: UnitInWork, checkpoint: Checkpoint)] {
        guard batchesInWork > 0 else { return [] }
        let now = MonotonicTime.now()
        var taken: [(unit: UnitInWork, checkpoint: Checkpoint)] = []
        for case let unit? in units where unit.checkpointAt <= now {
            unit.checkpointAt = now.advanced(by: checkpointInterval)
            if let checkpoint = unit.checkpoint() { taken.append((unit, checkpoint)) }
        }
        return taken
    }

    /// What is known of the batches of a scope should be written back as soon as it can be.
    ///
    /// All of them: dead tokens often stand together, and what the other slices were answered must be seen with them.
    func callForCheckpoint(of unit: UnitInWork) {
        for other in units {
            guard let other, other.work.key.batch > 0, other.topic == unit.topic,
                other.work.content.app == unit.work.content.app
            else { continue }
            other.checkpointAt = loop.now
        }
        onHaste()
    }

    // MARK: Giving up

    /// Gives a notification up for everybody, if that is what the answers to this unit say.
    func considerGivingUp(_ unit: UnitInWork, _ reason: String) {
        let id = unit.work.key.notification
        guard givenUp[id] == nil, !keptUp.contains(id), !unit.hasAcceptance,
            HopelessRule.givesUp(
                unit.segments.map { (hopeless: $0.hopeless, devices: $0.range.count) },
                isWhole: unit.work.key.batch == 0),
            !units.contains(where: { $0?.work.key.notification == id && $0?.hasAcceptance == true })
        else { return }
        givenUp[id] = reason
        mustStopGivenUp = true
        planPump()
    }

    /// Those of the notifications that nothing is left of here are written down.
    func forgetGivenUp(_ notifications: Set<Int64>) {
        let working = Set(units.lazy.compactMap { $0?.work.key.notification })
        for id in notifications.subtracting(working) { givenUp[id] = nil }
    }

    /// A notification is not to be given up whatever comes: what is claimed of it from now on is sent.
    func keepUp(_ notification: Int64) {
        givenUp[notification] = nil
        // One that is forgotten costs a question to the database.
        if keptUp.count >= 1000 { keptUp.removeAll() }
        keptUp.insert(notification)
    }

    private func stopGivenUp() {
        mustStopGivenUp = false
        stop(.hopeless) { givenUp[$0.work.key.notification] != nil }
    }

    // MARK: Pauses

    /// Replaces what the database says about pauses.
    func setPauses(_ stored: Set<ScopePause>) {
        let all = stored.union(newPauses)
        if !all.isSubset(of: pauses) { holdAnew() }
        pauses = all
    }

    /// Takes over what a settle has found the pauses to be, which may have found a storm.
    func learnPauses(_ stored: Set<ScopePause>) {
        for scope in stored.subtracting(pauses) { logPause(scope) }
        setPauses(stored)
    }

    /// Stops a scope at once; the next settle writes it down for all others.
    func pause(_ scope: ScopePause) {
        guard pauses.insert(scope).inserted else { return }
        newPauses.insert(scope)
        holdAnew()
        logPause(scope)
    }

    private func logPause(_ scope: ScopePause) {
        logger.error(
            "sending is paused",
            [.app: scope.app, .environment: scope.environment?.rawValue, .topic: scope.topic, .reason: scope.reason])
    }

    /// What covers a device is to be written down anew, since a probe of it has failed.
    func pauseAgain(_ unit: UnitInWork, _ index: Int) {
        let place = unit.segment(of: index)
        newPauses.formUnion(pauses.filter { unit.isHeld(place, by: $0) })
    }

    /// What is held and waits in a pool all the same is taken out at the end of this turn.
    func holdAnew() {
        mustWithdrawHeld = true
        planPump()
    }

    /// A fault of all must not be met by each: what waits in a pool for a stream comes back and is parked.
    private func withdrawHeld() {
        mustWithdrawHeld = false
        for gateway in gateways {
            gateway.pool.withdraw { tag in
                guard let unit = units[Int(tag >> 32)], !unit.isProbe else { return false }
                return unit.isHeld(unit.segment(of: Int(tag & 0xffff_ffff)), byAnyOf: pauses)
            }
        }
    }

    /// What waits in the pool of a feed comes back.
    func withdrawQueued(of feed: PushFeed) {
        feed.gateway.pool.withdraw { tag in
            guard let unit = units[Int(tag >> 32)] else { return false }
            return unit.segments[unit.segment(of: Int(tag & 0xffff_ffff))].feed === feed
        }
    }

    /// What has been written down need not be written again.
    func pausesStored(_ stored: Set<ScopePause>) { newPauses.subtract(stored) }

    // MARK: The wire

    func requestEnded(tag: UInt64, _ outcome: HTTP2Outcome) {
        let slot = Int(tag >> 32)
        guard slot < units.count, let unit = units[slot] else {
            preconditionFailure("a request outlived its unit")
        }
        record(outcome, of: unit, Int(tag & 0xffff_ffff))
        endIfDecided(unit)
    }

    func poolHasSpace() { planPump() }

    /// A device waits again, since the gateway certainly did not process its push.
    func sendAgain(_ unit: UnitInWork, _ index: Int) {
        unit.returned(index)
        if unit.stopReason == nil { line(unit, up: unit.segment(of: index)) }
    }

    /// Hands pushes to the gateways at the end of this turn.
    func planPump() {
        guard !isPumpPlanned else { return }
        isPumpPlanned = true
        loop.atEndOfTurn(self)
    }
}

extension SendStage: TurnHandler {
    func turnEnded() {
        isPumpPlanned = false
        if mustWithdrawHeld { withdrawHeld() }
        if mustStopGivenUp { stopGivenUp() }
        if !failedFeeds.isEmpty { giveUpFailed() }
        let now = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        for gateway in gateways { gateway.pump(now, pauses: pauses, ended: endIfDecided) }
    }
}
