// All that a worker tells about itself: joins what its lanes and its supervisor write down. Any thread may ask, at any time, and waits
// for nobody.

import APNs
import PushModel
import PushStore
import Reactor
package import Telemetry

/// Metrics and health of one worker process; any thread.
package final class WorkerMetrics: Sendable {
    package let registry = MetricsRegistry()
    /// Whether the loops turn.
    package let beats: LoopBeats
    private let state = Lock(State())

    private struct State: Sendable {
        var boards: [LaneBoard] = []
        var routes: [AppRoute] = []
        var contact: SharedContact?
        var queue: QueueReading?
        var isStopping = false
    }

    private struct QueueReading: Sendable {
        let figures: QueueFigures
        let time: MonotonicTime
    }

    /// Without a lane yet; `version` is the program's.
    package init(version: String, beats: LoopBeats = LoopBeats()) {
        self.beats = beats
        registry.gauge(.build, ["version": version]).set(1)
        addProcess()
        addQueue()
        addLanes()
        addGateways()
        addCredentials()
        for metric in [CounterMetric.pushes, .databaseErrors] { registry.counters(metric) { [] } }
    }

    // MARK: Health

    /// The loops that stand still, a line each; empty when all is well.
    package var stalledLoops: [String] { beats.stalled.map { "\($0): the loop stands still" } }

    /// What keeps the worker from being ready, a line each; empty when it is.
    package var unreadiness: [String] {
        let now = state.withLock { $0 }
        var readiness = Readiness()
        readiness.hasStarted = now.contact != nil
        readiness.isStopping = now.isStopping
        readiness.databaseAnswers = now.contact?.isAnswering ?? false
        readiness.pauses = now.queue?.figures.pauses ?? []
        readiness.credentials = now.routes.flatMap(\.credentialStates)
        return readiness.problems(now: DatabaseClock.unixSeconds)
    }

    // MARK: For the worker

    /// The place where one more lane writes down how things are.
    func board() -> LaneBoard {
        let board = LaneBoard()
        state.withLock { $0.boards.append(board) }
        return board
    }

    /// The worker is at work.
    func started(_ routes: [AppRoute], _ contact: SharedContact) {
        state.withLock { state in
            state.routes = routes
            state.contact = contact
        }
    }

    /// Goes over to other credentials.
    func take(_ routes: [AppRoute]) { state.withLock { $0.routes = routes } }

    /// Nothing more is claimed.
    func stopping() { state.withLock { $0.isStopping = true } }

    /// What the database has just said; nil when it did not.
    func read(_ figures: QueueFigures?) {
        let reading = figures.map { QueueReading(figures: $0, time: .now()) }
        state.withLock { $0.queue = reading }
    }

    // MARK: Series

    /// Figures of the queue that are older than this are not shown.
    private static let staleAfter: Duration = .seconds(150)

    private func addQueue() {
        let figures = { @Sendable [state] () -> QueueFigures? in
            guard let reading = state.withLock({ $0.queue }), MonotonicTime.now().since(reading.time) < Self.staleAfter
            else { return nil }
            return reading.figures
        }
        func add(_ metric: GaugeMetric, _ value: @escaping @Sendable (AppFigures) -> Double) {
            registry.gauges(metric) { figures()?.apps.map { (["app": $0.app], value($0)) } ?? [] }
        }
        add(.due) { Double($0.due) }
        add(.oldestDue) { $0.oldestDue }
        add(.sending) { Double($0.sending) }
        add(.oldestReady) { $0.oldestReady }
        add(.liveWorkers) { Double($0.workers) }
        registry.gauges(.batches) {
            (figures()?.apps ?? []).flatMap { app in
                [("ready", app.ready), ("leased", app.leased), ("parked", app.parked)].map { name, count in
                    (["app": app.app, "state": name], Double(count))
                }
            }
        }
        registry.gauges(.pausedScopes) {
            (figures()?.pauses ?? []).map { pause in
                let labels: MetricLabels = [
                    "app": pause.scope.app, "environment": pause.scope.environment?.rawValue ?? "all",
                    "by": pause.isAutomatic ? "worker" : "operator", "reason": ReasonLabel.pause(pause),
                ]
                return (labels, 1)
            }
        }
    }

    private func addLanes() {
        let lanes = { @Sendable [state] in state.withLock { $0.boards }.map(\.read) }
        func add(_ metric: GaugeMetric, _ value: @escaping @Sendable (LaneFigures) -> Int) {
            registry.gauges(metric) { lanes().map { (.none, Double(value($0))) } }
        }
        func add(_ metric: CounterMetric, _ value: @escaping @Sendable (LaneCounts) -> UInt64) {
            registry.counters(metric) { lanes().map { (.none, Double(value($0.counts))) } }
        }
        add(.leases, \.leases)
        add(.devicesInWork, \.devices)
        add(.writeBlocked) { $0.isWriteHeldUp ? 1 : 0 }
        add(.claimedUnits, \.units)
        add(.fencedUnits, \.fenced)
        add(.lostLeases, \.leasesLost)
        registry.counters(.wireResults) {
            lanes().flatMap { lane in
                [
                    ("accepted", lane.counts.accepted), ("not_accepted", lane.counts.notAccepted),
                    ("unanswered", lane.counts.unanswered), ("resent", lane.counts.resent),
                ].map { name, count in (["result": name], Double(count)) }
            }
        }
        registry.gauges(.gatewayBlocked) {
            lanes().flatMap { lane in
                lane.blocked.map { key, isBlocked in
                    (["app": key.app, "environment": key.environment.rawValue], isBlocked ? 1 : 0)
                }
            }
        }
    }

    private func addGateways() {
        let gateways = { @Sendable [state] in state.withLock { $0.boards }.flatMap { Array($0.read.gateways) } }
        func add(_ metric: CounterMetric, _ value: @escaping @Sendable (GatewayFigures) -> UInt64) {
            registry.counters(metric) { gateways().map { ($0.key.labels(), Double(value($0.value))) } }
        }
        func add(_ metric: GaugeMetric, _ value: @escaping @Sendable (GatewayFigures) -> Int) {
            registry.gauges(metric) { gateways().map { ($0.key.labels(), Double(value($0.value))) } }
        }
        add(.connectAttempts, \.connectAttempts)
        add(.connectFailures, \.connectFailures)
        add(.lostConnections, \.connectionsLost)
        add(.pingTimeouts, \.pingTimeouts)
        add(.deadlines, \.deadlines)
        add(.streams, \.streams)
        add(.streamLimit, \.streamLimit)
        add(.queued, \.queued)
        registry.counters(.goAways) {
            gateways().flatMap { name, figures in
                figures.goAways.map { (name.labels(("reason", $0.key)), Double($0.value)) }
            }
        }
        registry.gauges(.connections) {
            gateways().flatMap { name, figures in
                [("connecting", figures.connecting), ("open", figures.open), ("draining", figures.draining)].map {
                    (name.labels(("state", $0.0)), Double($0.1))
                }
            }
        }
    }

    private func addCredentials() {
        let routes = { @Sendable [state] in state.withLock { $0.routes } }
        let tokens = { @Sendable in
            // One that several apps share is one.
            var seen: Set<ObjectIdentifier> = []
            return routes().flatMap(\.ways.values).compactMap(\.token).filter {
                seen.insert(ObjectIdentifier($0)).inserted
            }
        }
        registry.gauges(.tokenAge) {
            tokens().compactMap { token in
                token.age.map { (["credential": token.keyID], Double($0.wholeNanoseconds) / 1e9) }
            }
        }
        registry.counters(.tokensMade) { tokens().map { (["credential": $0.keyID], Double($0.generation)) } }
        registry.gauges(.certificateExpiry) {
            routes().flatMap { route in
                route.ways.compactMap { environment, way in
                    way.certificate.map { certificate in
                        let labels: MetricLabels = [
                            "app": route.served.name, "environment": environment.rawValue,
                            "credential": certificate.fingerprint,
                        ]
                        return (labels, Double(certificate.notAfter))
                    }
                }
            }
        }
    }

    private func addProcess() {
        registry.gauge(.databaseUp) { [state] in (state.withLock { $0.contact }?.isAnswering ?? false) ? 1 : 0 }
        registry.gauges(.loopStalled) { [beats] in
            beats.still.map { (["loop": $0.name], Double($0.looks)) }
        }
    }
}

extension GatewayName {
    fileprivate func labels(_ more: (StaticString, String)...) -> MetricLabels {
        MetricLabels([("gateway", gateway), ("credential", credential)] + more)
    }
}

extension AppRoute {
    fileprivate var credentialStates: [CredentialState] {
        PushEnvironment.allCases.compactMap { environment in
            ways[environment].map { way in
                var state = CredentialState(app: served.name, environment: environment)
                if let certificate = way.certificate, certificate.notBefore <= certificate.notAfter {
                    state.validity = certificate.notBefore...certificate.notAfter
                }
                state.isSigned = way.token.map { $0.generation > 0 } ?? true
                return state
            }
        }
    }
}
