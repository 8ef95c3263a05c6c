// A lane: one thread that takes notifications from the database to Apple and back.
//
//     claim ──► expand ──► send ──► settle ──► finalise
//       ▲                                │
//       └────────── room again ◄─────────┘
//
// Three tasks share the lane's actor and its state: one claims and expands, one settles and finalises, one keeps the
// leases and looks for cancelled work. They meet at signals; there is an await for each batch, never for each push.
//
// A lane ends in one way: no new claims, nothing new on the wire, what is on the wire is answered or times out,
// everything known is written back, the rest is given back.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

/// One lane; its state is touched on its loop only. Make it on that loop.
actor Lane {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.serialExecutor.asUnownedSerialExecutor() }

    /// The name under which it takes leases; random per start.
    nonisolated let owner = PostgresUUID.random()
    let settings: LaneSettings
    let plan: ClaimPlan
    let logger: Logger
    let counters: LaneCounters
    private(set) var routes: [String: OpenRoute]
    let gateways: Gateways
    let claims: QueueStore
    let settles: QueueStore
    let stage: SendStage
    let ended: EndedUnits
    let contact: SharedContact
    /// Where it shows how things are, if anybody wants to know.
    let board: LaneBoard?

    /// Raised when there may be something to claim, or room for it.
    let mayClaim: LoopSignal
    /// Raised when the keeper should look around.
    let mayKeep: LoopSignal
    var schedule = ClaimSchedule()
    var walk = DueWalk()
    var shares = ClaimShares()
    /// What is held of each app, on the wire or waiting to be written back.
    let loads = AppLoads()
    var heldUp = HeldUpApps()
    /// All that is leased to this lane and known to it, from the answer to the claim until the database knows the end of it.
    var held: Set<UnitKey> = []
    var doubt = ClaimDoubt()
    /// What is held and cannot be read.
    var unreadable: UnreadableUnits
    /// What the database refuses, each said once a minute.
    var refusals = LogLimiter<String>(interval: .seconds(60))
    /// Faults of rows, each said now and then.
    var rowFaults = LogLimiter<String>(interval: .seconds(600))
    var phase = Phase.running
    /// Whether the keeper waits for work to appear.
    var isKeeperIdle = false
    /// Whether the settling task waits for something to end, whenever that may be.
    var isSettlerIdle = false
    /// Whether the claiming task may still bring units.
    var isClaiming = true
    /// With `once`: the lane ended although an app's gateways could not be reached.
    var wasCutOff = false
    /// After the grace time and a little more nothing is waited for any longer.
    var abandonBy = MonotonicTime.distantFuture
    /// Devices whose results are being written at this moment, or were put aside.
    var settling = 0
    /// Results that the database has refused, and when they are written again.
    var aside: [UnitReport] = []
    var asideDue = MonotonicTime.distantFuture
    /// Whether nothing can be written until somebody mends the database.
    var needsRepair = false
    var waitingRenewed = MonotonicTime.now()
    var random = Chance()
    /// Hears when retries fall due that have just been written down: the poll may have planned to sleep beyond that.
    private(set) var retryPlanned: @Sendable (MonotonicTime) -> Void = { _ in }

    /// How far the lane is from its end.
    enum Phase {
        /// Claims and sends.
        case running
        /// Claims nothing more; what is known is being written back.
        case draining
        /// Nothing is left to do.
        case ended
    }

    /// Builds the lane's parts; nothing is connected yet.
    init(
        loop: EventLoop, settings: LaneSettings, routes: [AppRoute], connections: Int, budgets: ConnectBudgets,
        sessions: SessionFactory, metrics: WorkerMetrics? = nil, logger: Logger
    ) {
        loop.assertOnLoop()
        self.loop = loop
        self.settings = settings
        board = metrics?.board()
        let counters = LaneCounters(meters: metrics.map { LaneMeters($0.registry) })
        self.counters = counters
        self.logger = logger
        unreadable = UnreadableUnits(isLasting: !settings.once)
        plan = ClaimPlan(batchSize: settings.batchSize, apps: settings.apps.count)
        mayClaim = LoopSignal(loop: loop)
        mayKeep = LoopSignal(loop: loop)
        claims = sessions.queue(on: loop, owner: owner)
        settles = sessions.queue(on: loop, owner: owner)
        contact = sessions.contact
        let ended = EndedUnits(loop: loop)
        self.ended = ended
        let stage = SendStage(
            loop: loop, settings: settings, counters: counters, logger: logger, onUnitEnded: { ended.add($0) },
            onHaste: { ended.signal.raise() })
        self.stage = stage
        let gateways = Gateways(loop: loop, stage: stage, connections: connections, budgets: budgets, logger: logger)
        self.gateways = gateways
        self.routes = Dictionary(
            uniqueKeysWithValues: routes.map { route in
                (route.served.name, route.open(over: gateways, stage: stage, settings, logger))
            })
    }

    /// Works until `stop` was called, or with `once` until nothing is due; returns when everything is written back.
    func run() async {
        publish()
        await withDiscardingTaskGroup { group in
            group.addTask(executorPreference: loop.taskExecutor) { await self.claimLoop() }
            group.addTask(executorPreference: loop.taskExecutor) { await self.settleLoop() }
            group.addTask(executorPreference: loop.taskExecutor) { await self.keepLoop() }
        }
        gateways.close()
        claims.close()
        settles.close()
        publish()
    }

    /// What the lane has done since its start.
    var counts: LaneCounts { counters.counts }

    /// Something is due, or a notification was cancelled: look at once.
    func wake(cancelled: [Int64] = []) {
        schedule.wake()
        mayClaim.raise()
        if !cancelled.isEmpty { mayKeep.raise() }
    }

    /// Units whose holder is gone fall due without a word from anybody, so an idle lane looks for them now and then.
    func lookForLost() {
        schedule.foundWork(.batches)
        mayClaim.raise()
    }

    /// Names who wants to hear of retries.
    func report(retriesTo hears: @escaping @Sendable (MonotonicTime) -> Void) { retryPlanned = hears }

    /// Goes over to other credentials or gateways of apps that it serves; what is on the wire is finished under the old ones.
    func replace(_ changed: [AppRoute]) {
        guard phase == .running else { return }
        for route in changed where routes[route.served.name] != nil {
            routes[route.served.name] = route.open(over: gateways, stage: stage, settings, logger)
        }
        gateways.retireUnused()
        Task(executorPreference: loop.taskExecutor) {
            await self.drainLeaving()
        }
        wake()
    }

    private func drainLeaving() async { await gateways.drainLeaving(until: .now().advanced(by: .seconds(30))) }

    /// Begins the end: nothing more is claimed or handed to the wire.
    func stop() {
        guard phase == .running else { return }
        phase = .draining
        stage.stopAll()
        mayClaim.raise()
        ended.signal.raise()
    }

    /// The grace time is over: what has no answer by now is booked as such, and the lane ends as soon as that is
    /// written back.
    func giveUpWaiting() {
        stop()
        gateways.close()
        claims.close()
        abandonBy = .now().advanced(by: settings.lastWord)
        // A call that hangs by then ends with the connection.
        loop.schedule(after: settings.lastWord) { [settles] in settles.close() }
    }
}
