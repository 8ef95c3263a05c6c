// What a process needs once: polls for what falls due, sweeps, gives signs of life, listens for wake-ups, and leads
// the lanes to their end when a signal comes. Lanes work without it; it only tells them when it is worth looking.

import APNs
import CLinux
import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

/// The head of a worker process, on a loop of its own. Make it on that loop.
actor Supervisor {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.serialExecutor.asUnownedSerialExecutor() }

    let settings: WorkerSettings
    let laneSettings: LaneSettings
    let lanes: [Lane]
    let logger: Logger
    let store: QueueStore
    private let contact: SharedContact
    private let mayPoll: LoopSignal
    private let mayMaintain: LoopSignal
    let mayJudge: LoopSignal
    let mayMeasure: LoopSignal
    private let metrics: WorkerMetrics?
    private let errors: DatabaseErrorMeter?
    /// The ways to Apple as they are now.
    private(set) var routes: [AppRoute]
    var expiry = ExpiryNotice()
    private var signalsSeen = 0
    private(set) var isEnding = false
    private var isWakePlanned = false
    private var nextLook = MonotonicTime.distantFuture
    private var heardCancels: [Int64] = []
    private var random = Chance()

    init(
        loop: EventLoop, settings: WorkerSettings, laneSettings: LaneSettings, lanes: [Lane],
        sessions: SessionFactory, logger: Logger
    ) {
        loop.assertOnLoop()
        self.loop = loop
        self.settings = settings
        self.laneSettings = laneSettings
        self.lanes = lanes
        self.logger = logger
        routes = settings.routes
        store = sessions.queue(on: loop, owner: .random())
        contact = sessions.contact
        mayPoll = LoopSignal(loop: loop)
        mayMaintain = LoopSignal(loop: loop)
        mayJudge = LoopSignal(loop: loop)
        mayMeasure = LoopSignal(loop: loop)
        metrics = settings.metrics
        errors = settings.metrics.map { DatabaseErrorMeter($0.registry) }
    }

    /// Runs until all lanes have ended.
    func run() async -> Worker.End {
        let watch = watchSignals()
        let listener = listen()
        logger.notice("worker started", [.owner: store.owner.description, .lanes: lanes.count])
        await withDiscardingTaskGroup { group in
            group.addTask(executorPreference: loop.taskExecutor) { await self.maintainLoop() }
            group.addTask(executorPreference: loop.taskExecutor) { await self.judgeLoop() }
            if let metrics {
                group.addTask(executorPreference: loop.taskExecutor) { await self.figuresLoop(metrics) }
            }
            if !settings.once {
                group.addTask(executorPreference: loop.taskExecutor) { await self.pollLoop() }
            }
            await runLanes()
            isEnding = true
            mayPoll.raise()
            mayMaintain.raise()
            mayJudge.raise()
            mayMeasure.raise()
            // A call that hangs at the end ends with the connection.
            loop.schedule(after: .seconds(1)) { [store] in store.close() }
        }
        watch?.close()
        listener?.close()
        await sayGoodbye()
        store.close()
        for lane in lanes where await lane.wasCutOff { return .unreachable }
        return .done
    }

    /// Remembers changed ways.
    func take(_ changed: [AppRoute]) {
        for route in changed {
            guard let place = routes.firstIndex(where: { $0.served.name == route.served.name }) else { continue }
            routes[place] = route
        }
        metrics?.take(routes)
    }

    /// A call to the database has failed.
    func failed(_ error: PostgresError) { errors?.count(error) }

    private func runLanes() async {
        for lane in lanes {
            await lane.report(retriesTo: { [loop, self] due in
                loop.execute { self.assumeIsolated { $0.retryPlanned(at: due) } }
            })
        }
        await withDiscardingTaskGroup { group in
            for lane in lanes {
                group.addTask(executorPreference: lane.loop.taskExecutor) { await lane.run() }
            }
        }
    }

    // MARK: Poll

    /// Sleeps until something is due, at most the poll interval, and wakes the lanes.
    private func pollLoop() async {
        while !isEnding {
            var pause = settings.pollInterval
            // What comes up while the question is under way may not be in its answer.
            nextLook = .distantFuture
            let blocked = await blockedApps()
            do throws(PostgresError) {
                if let due = try await nextDue(without: blocked) {
                    if due <= .zero { await wakeLanes() }
                    pause = PollPlan.pause(untilDue: due, interval: settings.pollInterval, using: &random)
                }
            } catch {
                failed(error)
                logger.warning("poll failed", [.error: error.description, .sqlState: error.sqlState])
                pause = min(pause, .seconds(1))
            }
            guard !isEnding else { return }
            nextLook = MonotonicTime.now().advanced(by: pause)
            await sleep(until: nextLook, blocked)
        }
    }

    /// Sleeps until something is due, or somebody says so, or an app can be sent for again for which it was not asked.
    private func sleep(until end: MonotonicTime, _ blocked: Set<String>) async {
        while true {
            let left = end.since(.now())
            guard left > .zero else { return }
            if await mayPoll.wait(blocked.isEmpty ? left : min(left, .seconds(1))) { return }
            if !blocked.isEmpty, await !blockedApps().isSuperset(of: blocked) { return }
        }
    }

    /// Retries of this process fall due within seconds, and nobody says a word then: a look planned for later comes sooner.
    private func retryPlanned(at due: MonotonicTime) {
        guard max(due, MonotonicTime.now().advanced(by: PollPlan.least)) < nextLook else { return }
        // Once is enough for all of them: the answer names the first.
        nextLook = .now()
        mayPoll.raise()
    }

    /// The apps that no lane can send for at present; lanes watch their gateways by themselves.
    private func blockedApps() async -> Set<String> {
        var blocked = Set(laneSettings.apps.map(\.name))
        for lane in lanes where !blocked.isEmpty { blocked.formIntersection(await lane.lookForBlocked()) }
        return blocked
    }

    /// When something falls due for the apps that can be sent for.
    private func nextDue(without blocked: Set<String>) async throws(PostgresError) -> Duration? {
        let apps = laneSettings.apps.filter { !blocked.contains($0.name) }
        return apps.isEmpty ? nil : try await store.nextDue(apps)
    }

    private func wakeLanes(cancelled: [Int64] = []) async {
        for lane in lanes { await lane.wake(cancelled: cancelled) }
    }

    /// Something was inserted or cancelled; the word of it may be late or missing, the poll finds it too.
    private func listen() -> PostgresListener? {
        guard let database = settings.listenDatabase, !settings.once else { return nil }
        return PostgresListener(
            loop: loop, configuration: database, channels: ["pgpush", "pgpush_cancel"], logger: logger
        ) { [self] event in
            switch event {
            case .notified(let channel, let payload): assumeIsolated { $0.heard(channel: channel, payload: payload) }
            // What was said while there was no connection went unheard.
            case .listening: assumeIsolated { $0.mayPoll.raise() }
            case .lost, .unavailable: return
            }
        }
    }

    /// Many words in a short time are one: a stream of inserts wakes the lanes some twenty times a second at most.
    private func heard(channel: String, payload: String) {
        if channel == "pgpush_cancel", let id = Int64(payload) { heardCancels.append(id) }
        guard !isWakePlanned else { return }
        isWakePlanned = true
        loop.schedule(after: .milliseconds(50)) { [self] in
            Task(executorPreference: loop.taskExecutor) { await self.passOn() }
        }
    }

    private func passOn() async {
        let cancelled = heardCancels
        heardCancels = []
        isWakePlanned = false
        if cancelled.isEmpty { mayPoll.raise() }
        await wakeLanes(cancelled: cancelled)
        if !cancelled.isEmpty { await finalise(cancelled) }
    }

    /// Of what was cancelled between two batches, or while it waits to be tried again, no lane has anything that could end.
    private func finalise(_ cancelled: [Int64]) async {
        do throws(PostgresError) {
            try await store.finalise(cancelled)
        } catch {
            // The sweep does it.
            failed(error)
            logger.info("finalise failed", [.error: error.description, .sqlState: error.sqlState])
        }
    }

    // MARK: Maintain

    private func maintainLoop() async {
        let report = WorkerReport(
            host: hostName(), processID: getpid(), version: settings.version, lanes: Int32(clamping: lanes.count),
            apps: laneSettings.apps.map(\.name), owners: lanes.map(\.owner))
        while !isEnding {
            warnOfExpiry()
            do throws(PostgresError) {
                try await giveSignOfLife(report)
                try await store.sweep(apps: laneSettings.apps, grace: sweepGrace)
            } catch {
                failed(error)
                logger.warning("sweep failed", [.error: error.description, .sqlState: error.sqlState])
            }
            await lookForLost(until: .now().advanced(by: PollPlan.maintenancePause(using: &random)))
        }
    }

    /// Has the lanes look for units whose holder is gone: now, and whenever a lease that nobody has renewed can be taken over.
    ///
    /// Nobody says when a worker dies; who waits for the next sweep finishes its work up to a minute late. The question is asked
    /// often enough to know that the database has been there all the time: else nothing may be taken over.
    private func lookForLost(until end: MonotonicTime) async {
        var mustLook = true
        while !isEnding, end > .now() {
            if mustLook {
                for lane in lanes { await lane.lookForLost() }
            }
            mustLook = false
            var pause = min(end.since(.now()), PollPlan.contactPause(using: &random))
            do throws(PostgresError) {
                if let lost = try await store.nextLost(laneSettings.apps, leases: laneSettings.leases) {
                    mustLook = PollPlan.pause(untilLost: lost) <= pause
                    pause = min(pause, PollPlan.pause(untilLost: lost))
                }
            } catch {
                failed(error)
                logger.warning("looking at the leases failed", [.error: error.description, .sqlState: error.sqlState])
            }
            guard !isEnding else { return }
            _ = await mayMaintain.wait(pause)
        }
    }

    /// After an outage every lease looks lost to a sweep, too; its owner is about to come back.
    ///
    /// A process that drains and ends is always young, and nobody else may be there to do it.
    private var sweepGrace: Duration {
        if contact.mayRescue { return laneSettings.leases.grace }
        return settings.once ? .seconds(300) : .seconds(86_400)
    }

    private func giveSignOfLife(_ report: WorkerReport) async throws(PostgresError) {
        let counts = await counts()
        var inFlight = 0
        for lane in lanes { inFlight += await lane.outstanding }
        let time = try await store.heartbeat(
            report, inFlight: inFlight, accepted: counts.accepted, rejected: counts.notAccepted)
        let ahead = DatabaseClock.learn(databaseMicroseconds: time)
        for route in routes { for way in route.ways.values { way.token?.setClockOffset(ahead) } }
    }

    func counts() async -> LaneCounts {
        var counts = LaneCounts()
        for lane in lanes { counts = counts + (await lane.counts) }
        return counts
    }

    private func sayGoodbye() async {
        do throws(PostgresError) {
            try await store.goodbye()
        } catch {
            failed(error)
            logger.info("could not sign off", [.error: error.description])
        }
        let counts = await counts()
        logger.notice(
            "worker ended",
            [
                .accepted: counts.accepted, .notAccepted: counts.notAccepted, .unanswered: counts.unanswered,
                .fenced: counts.fenced,
            ])
    }

    // MARK: Signals

    private func watchSignals() -> SignalWatch? {
        do throws(ReactorError) {
            return try SignalWatch(loop: loop, signals: [SIGTERM, SIGINT, SIGHUP]) { [self] number in
                assumeIsolated { $0.received(number) }
            }
        } catch {
            logger.error("signals cannot be received", [.error: error.description])
            return nil
        }
    }

    /// The first signal begins the orderly end, the second cuts it short.
    private func received(_ number: Int32) {
        if number == SIGHUP { return reload() }
        signalsSeen += 1
        metrics?.stopping()
        logger.notice("stopping", [.signal: number, .grace: settings.grace.components.seconds])
        if signalsSeen > 1 { exitAtOnce(number) }
        let lanes = lanes
        Task(executorPreference: loop.taskExecutor) {
            for lane in lanes { await lane.stop() }
        }
        loop.schedule(after: settings.grace) {
            Task(executorPreference: self.loop.taskExecutor) {
                for lane in lanes { await lane.giveUpWaiting() }
            }
        }
    }

    /// What is unfinished stays under its lease and is taken over when that has ended.
    private func exitAtOnce(_ number: Int32) -> Never {
        logger.warning("stopped at once; what was being sent is taken over when its lease ends", [.signal: number])
        _exit(130)
    }
}

private func hostName() -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
        guard let text = buffer.baseAddress, unsafe gethostname(text, buffer.count - 1) == 0 else { return "unknown" }
        unsafe buffer[buffer.count - 1] = 0
        return unsafe String(cString: text)
    }
}
