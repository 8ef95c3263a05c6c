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

    private let onUnitEnded: (UnitInWork) -> Void
    private var feeds: [FeedKey: PushFeed] = [:]
    private var units: [UnitInWork?] = []
    private var freeSlots: [Int] = []
    private var isPumpPlanned = false
    private var isStopping = false
    /// A pause has come up in this turn; what it covers is taken out of the pools at the end of the turn.
    private var mustWithdrawHeld = false

    init(
        loop: EventLoop, retry: RetryPolicy, counters: LaneCounters, logger: Logger,
        onUnitEnded: @escaping (UnitInWork) -> Void
    ) {
        self.loop = loop
        self.retry = retry
        self.counters = counters
        self.logger = logger
        self.onUnitEnded = onUnitEnded
    }

    /// Adds the feed that carries an app's pushes to one environment.
    func attach(_ feed: PushFeed, app: String, environment: PushEnvironment) {
        feeds[FeedKey(app, environment)] = feed
    }

    /// How many streams the gateways allow at present, over all pools.
    var streams: Int { feeds.values.reduce(0) { $0 + $1.pool.streamCapacity } }

    // MARK: Progress

    /// The gateways that have been out of reach for at least `limit`; each is tried again meanwhile.
    func unreachable(for limit: Duration) -> [FeedKey] {
        feeds.filter { $0.value.isUnreachable(for: limit) }.map(\.key)
    }

    /// Whether nothing can be sent for an app: all the gateways that it has used are out of reach.
    func isCutOff(app: String) -> Bool {
        let used = feeds.filter { $0.key.app == app && $0.value.isUsed }
        return !used.isEmpty && used.allSatisfy { $0.value.isUnreachable(for: .zero) }
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
        for place in unit.segments.indices {
            unit.segments[place].feed = feeds[FeedKey(unit.work.content.app, unit.segments[place].environment)]
        }
        unit.progressAtRenewal = progress(of: unit)
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

    /// Gives back what waits for gateways out of reach: whole units, or the part of a unit that goes there.
    func giveBack(waitingFor unreachable: Set<FeedKey>) {
        func isStuck(_ unit: UnitInWork, _ place: Int) -> Bool {
            unreachable.contains(FeedKey(unit.work.content.app, unit.segments[place].environment))
        }
        stop(.paused) { unit in unit.segments.indices.allSatisfy { isStuck(unit, $0) } && !unit.segments.isEmpty }
        for unit in unitsInWork where unit.stopReason == nil {
            for place in unit.segments.indices where isStuck(unit, place) {
                unit.segments[place].isGivenUp = true
                unit.segments[place].feed?.pool.withdraw { [slot = UInt64(unit.slot)] tag in
                    tag >> 32 == slot && unit.segments[place].range.contains(Int(tag & 0xffff_ffff))
                }
                unit.handBack(place, after: Self.unreachablePause)
            }
            endIfDecided(unit)
        }
    }

    /// How long a part of a unit waits before somebody tries its gateway again.
    private static let unreachablePause: Duration = .seconds(30)

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
        onUnitEnded(unit)
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

    /// Stops a scope at once; the next settle writes it down for all others.
    func pause(_ scope: ScopePause) {
        guard pauses.insert(scope).inserted else { return }
        newPauses.insert(scope)
        mustWithdrawHeld = true
        planPump()
        logger.error(
            "sending is paused",
            [.app: scope.app, .environment: scope.environment?.rawValue, .topic: scope.topic, .reason: scope.reason])
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
        let place = unit.segment(of: index)
        if unit.stopReason == nil && !unit.segments[place].isGivenUp { line(unit, up: place) }
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
        let now = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        for feed in feeds.values { feed.pump(now, pauses: pauses, ended: endIfDecided) }
    }
}
