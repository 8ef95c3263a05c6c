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

/// Which pool carries a push.
struct FeedKey: Hashable {
    let app: String
    let environment: PushEnvironment

    init(_ app: String, _ environment: PushEnvironment) {
        self.app = app
        self.environment = environment
    }
}

/// Sends the devices of units and says what became of them; loop-confined.
final class SendStage: HTTP2RequestHandler {
    let loop: EventLoop
    let retry: RetryPolicy
    let logger: Logger
    let counters: LaneCounters
    var random = SystemRandomNumberGenerator()

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
    /// One has come up in this turn; what is left of it is stopped at the end of the turn.
    private var mustStopGivenUp = false

    private let checkpointInterval: Duration
    private let onUnitEnded: (UnitInWork) -> Void
    /// Called when results should be written down without waiting for the end of their unit.
    private let onHaste: () -> Void
    private var feeds: [FeedKey: PushFeed] = [:]
    private var units: [UnitInWork?] = []
    private var freeSlots: [Int] = []
    private var isPumpPlanned = false
    private var isStopping = false
    /// A pause has come up in this turn; what it covers is taken out of the pools at the end of the turn.
    private var mustWithdrawHeld = false

    init(
        loop: EventLoop, settings: LaneSettings, counters: LaneCounters, logger: Logger,
        onUnitEnded: @escaping (UnitInWork) -> Void, onHaste: @escaping () -> Void
    ) {
        self.loop = loop
        retry = settings.retry
        checkpointInterval = settings.checkpointInterval
        self.counters = counters
        self.logger = logger
        self.onUnitEnded = onUnitEnded
        self.onHaste = onHaste
    }

    /// Adds the feed that carries an app's pushes to one environment.
    func attach(_ feed: PushFeed, app: String, environment: PushEnvironment) {
        feeds[FeedKey(app, environment)] = feed
    }

    /// How many streams the gateways allow at present, over all pools.
    var streams: Int { feeds.values.reduce(0) { $0 + $1.pool.streamCapacity } }

    // MARK: Progress

    /// Whether an app can be sent for, as far as anybody knows; a gateway out of reach is tried again meanwhile.
    ///
    /// One gateway that has been out of reach for at least `limit` does not hold up the other, if that one is in use.
    func isReachable(_ app: String, for limit: Duration = .zero) -> Bool {
        let own = feeds.filter { $0.key.app == app }
        let others = own.filter { !$0.value.isUnreachable(for: limit) }
        if others.count == own.count { return true }
        // Production is worth a connection to find out; to the sandbox many have no way and never need one.
        others[FeedKey(app, .production)]?.pool.warmUp()
        return others.values.contains(where: \.isProven)
    }

    /// Gives back what waits for gateways that have been out of reach for at least `limit`.
    ///
    /// Units of an app that cannot be sent for go back whole: another replica may reach Apple, and whoever looks sees rows that
    /// are pending instead of rows that are being sent. Where the app's other gateway works, claims go on and would bring the
    /// same units again at once, so only the pushes concerned are put off.
    func giveUpUnreachable(for limit: Duration) {
        for (key, feed) in feeds where feed.isUnreachable(for: limit) {
            if isReachable(key.app) {
                feed.isAway = true
                feed.pool.withdraw { _ in true }
                planPump()
            } else {
                stop(.paused) { unit in
                    unit.work.content.app == key.app && unit.segments.contains { $0.environment == key.environment }
                }
            }
        }
    }

    /// How many pushes the feeds of a unit have brought to an end.
    func progress(of unit: UnitInWork) -> UInt64 {
        unit.segments.reduce(0) { $0 &+ ($1.feed?.progress ?? 0) }
    }

    /// Whether a unit's feeds have brought anything to an end since its lease was last renewed.
    func makesProgress(_ unit: UnitInWork) -> Bool { progress(of: unit) != unit.progressAtRenewal }

    // MARK: Units

    /// Takes a unit; it ends at once when it has no devices.
    func accept(_ unit: UnitInWork) {
        unit.slot = freeSlots.popLast() ?? units.count
        if unit.slot == units.count { units.append(unit) } else { units[unit.slot] = unit }
        devicesInWork += unit.count
        if unit.work.key.batch > 0 { batchesInWork += 1 }
        unit.checkpointAt = loop.now.advanced(by: checkpointInterval)
        for place in unit.segments.indices {
            unit.segments[place].feed = feeds[FeedKey(unit.work.content.app, unit.segments[place].environment)]
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
        for feed in feeds.values { feed.pool.withdraw { slots.contains($0 >> 32) } }
    }

    private func line(_ unit: UnitInWork, up place: Int) {
        unit.segments[place].feed?.add(unit, segment: place)
        planPump()
    }

    /// Lets a unit go when the fate of all its devices is known; its slot is free for the next one.
    private func endIfDecided(_ unit: UnitInWork) {
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

    /// What is known of a unit should be written back as soon as it can be.
    func callForCheckpoint(_ unit: UnitInWork) {
        guard unit.work.key.batch > 0 else { return }
        unit.checkpointAt = loop.now
        onHaste()
    }

    // MARK: Giving up

    /// Gives a notification up for everybody, if that is what the answers to this unit say.
    func considerGivingUp(_ unit: UnitInWork, _ reason: String) {
        let id = unit.work.key.notification
        guard givenUp[id] == nil,
            HopelessRule.givesUp(hopeless: unit.hopeless, devices: unit.count, isAccepted: unit.hasAcceptance),
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

    private func stopGivenUp() {
        mustStopGivenUp = false
        stop(.hopeless) { givenUp[$0.work.key.notification] != nil }
    }

    // MARK: Pauses

    /// Replaces what the database says about pauses.
    func setPauses(_ stored: Set<ScopePause>) {
        let all = stored.union(newPauses)
        if !all.isSubset(of: pauses) {
            mustWithdrawHeld = true
            planPump()
        }
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
        mustWithdrawHeld = true
        planPump()
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

    /// A fault of all must not be met by each: what waits in a pool for a stream comes back and is parked.
    private func withdrawHeld() {
        mustWithdrawHeld = false
        for feed in feeds.values {
            feed.pool.withdraw { tag in
                guard let unit = units[Int(tag >> 32)], !unit.isProbe else { return false }
                return unit.isHeld(unit.segment(of: Int(tag & 0xffff_ffff)), byAnyOf: pauses)
            }
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

    private func planPump() {
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
        let now = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        for feed in feeds.values { feed.pump(now, pauses: pauses, ended: endIfDecided) }
    }
}
