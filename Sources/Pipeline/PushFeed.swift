// From units to one gateway: which push of an app is handed to the wire next, and whether any may be.
//
// Urgent units (single users, lists, retries) go before slices of broadcasts, so that a broadcast to millions delays
// nobody. The pool's own queue is short; what waits, waits here, where it can still be withdrawn. A breaker keeps the pushes
// away from a gateway that fails.

import APNs
import HTTP2
import PushModel
import PushStore
import Reactor
import Telemetry

/// Segments of units in the order of sending; loop-confined.
final class PushLine {
    struct Item {
        let unit: UnitInWork
        let segment: Int
    }

    var items: [Item] = []
}

/// The way of one app to one environment and the units that wait for it; loop-confined.
final class PushFeed {
    let key: FeedKey
    let gateway: Gateway
    /// Pushes that were answered, or written in vain: what a living connection does.
    private(set) var progress: UInt64 = 0
    /// What is for this gateway is put off, since it has been out of reach for long or fails, and its app's other gateway does not.
    var isAway = false
    let urgent = PushLine()
    let bulk = PushLine()

    private unowned let stage: SendStage
    private let loop: EventLoop
    private let requestTimeout: Duration
    private let logger: Logger
    private var breaker = Breaker()
    /// The push that is to find out whether a gateway that failed works again.
    private var probe: UInt64?
    private var lastAnswer: MonotonicTime?
    private var lastLoss: MonotonicTime?
    private var random = Chance()

    var app: String { key.app }
    var environment: PushEnvironment { key.environment }

    init(_ key: FeedKey, gateway: Gateway, stage: SendStage, settings: LaneSettings, logger: Logger) {
        self.key = key
        self.gateway = gateway
        self.stage = stage
        loop = stage.loop
        requestTimeout = settings.requestTimeout
        self.logger = logger
    }

    /// What comes back with the outcome of a push.
    static func tag(_ unit: UnitInWork, _ index: Int) -> UInt64 { UInt64(unit.slot) << 32 | UInt64(index) }

    /// Puts a segment of a unit in line.
    func add(_ unit: UnitInWork, segment: Int) {
        let item = PushLine.Item(unit: unit, segment: segment)
        if unit.isUrgent { urgent.items.append(item) } else { bulk.items.append(item) }
    }

    // MARK: Reach

    private var now: BootTime { BootTime(nanoseconds: SystemClock.bootNanoseconds) }

    /// Whether nothing can be sent at present: the gateway fails, or has been out of reach for at least `limit`.
    func isBlocked(for limit: Duration) -> Bool {
        if case .open = breaker.state(at: now) { return true }
        return gateway.isUnreachable(for: limit)
    }

    /// What is for this gateway is not put off any more, if something can be sent.
    func comeBack() {
        if isAway, !isBlocked(for: .zero) { isAway = false }
    }

    /// Whether the gateway has failed, and a single push is to find out whether it works again.
    var isOnTrial: Bool { breaker.state(at: now) == .halfOpen }

    /// Whether anything has come of this gateway since the start, and it does not fail at present.
    var isProven: Bool { breaker.state == .closed && (progress > 0 || gateway.pool.isConnected) }

    /// How long to put off what is for a gateway that is away.
    private var awayDelay: Duration {
        guard case .open(let until) = breaker.state(at: now) else { return .seconds(Int64.random(in: 30...60)) }
        let left = Int64(clamping: until.nanoseconds - min(until.nanoseconds, now.nanoseconds))
        return .nanoseconds(left) + .milliseconds(Int64.random(in: 1_000...15_000))
    }

    /// A connection was ended because of the credential or the environment.
    func refused(_ scope: PauseScope, _ reason: String) { stage.hold(self, scope, reason) }

    // MARK: Results

    /// Apple took a push.
    func accepted(_ tag: UInt64) {
        progress &+= 1
        lastAnswer = loop.now
        if tag == probe { probeSucceeded() } else { breaker.succeeded() }
    }

    /// A push ended otherwise.
    func ended(_ tag: UInt64, _ outcome: HTTP2Outcome, _ result: PushResult) {
        switch outcome {
        case .notProcessed:
            // Nothing was learnt; the next push finds out.
            if tag == probe { probe = nil }
            return
        case .answered(let response):
            progress &+= 1
            lastAnswer = loop.now
            gateway.carryOut(result.verdict, on: response.connection)
        case .unknown(let fault):
            progress &+= 1
            guard tag == probe || counts(fault) else { return }
            if [.goAway, .closed].contains(fault.code) {
                probe = nil
                return
            }
        }
        if tag == probe {
            probeEnded(result)
        } else if result.verdict.isGatewayFault {
            failed(result)
        } else if case .resend = result.verdict.request {
            // A goodbye proves neither.
        } else {
            breaker.succeeded()
        }
    }

    /// Whether a push without an answer is a failure of its own: all that were on one lost connection, or on one that is stuck
    /// while others bring answers, are one.
    private func counts(_ fault: HTTP2Fault) -> Bool {
        switch fault.code {
        case .goAway, .closed: return false
        case .deadline, .reset:
            guard let lastAnswer, loop.now.since(lastAnswer) < .seconds(5) else { return true }
        default: break
        }
        defer { lastLoss = loop.now }
        return lastLoss != loop.now
    }

    private func failed(_ result: PushResult) {
        guard breaker.failed(at: now, retryAfter: result.retryAfter, using: &random) else { return }
        let counts = breaker.counts
        logger.error(
            "a gateway fails; nothing is sent to it for a while",
            [
                .app: app, .environment: environment.rawValue, .reason: result.label, .failures: counts.failures,
                .results: counts.results,
            ])
        stage.gatewayFailed(self)
    }

    private func probeEnded(_ result: PushResult) {
        probe = nil
        if result.verdict.isGatewayFault {
            breaker.probeFailed(at: now, retryAfter: result.retryAfter, using: &random)
            stage.gatewayFailed(self)
        } else if case .resend = result.verdict.request {
            return
        } else {
            probeSucceeded()
        }
    }

    private func probeSucceeded() {
        probe = nil
        let (probes, since) = (breaker.counts.probes + 1, breaker.openSince)
        breaker.probeSucceeded(at: now)
        let seconds = since.map { (now.nanoseconds - min(now.nanoseconds, $0.nanoseconds)) / 1_000_000_000 }
        logger.notice(
            "a gateway works again; sending goes on",
            [.app: app, .environment: environment.rawValue, .probes: probes, .seconds: seconds])
        stage.gatewayRecovered()
    }

    // MARK: Sending

    /// Hands at most `quantum` pushes of a line to the pool; `ended` hears of each unit that left it.
    ///
    /// Returns whether more waits that the pool would take.
    func pump(
        _ line: PushLine, _ quantum: Int, _ now: BootTime, pauses: Set<ScopePause>, ended: (UnitInWork) -> Void
    ) -> Bool {
        comeBack()
        let state = breaker.state(at: now)
        var allowance =
            switch state {
            case .closed: quantum
            case .open: 0
            case .halfOpen: probe == nil ? 1 : 0
            }
        var finished = 0
        while finished < line.items.count {
            let item = line.items[finished]
            guard send(item, now, pauses, &allowance, isTrial: state == .halfOpen) else { break }
            finished += 1
            ended(item.unit)
        }
        if finished > 0 { line.items.removeFirst(finished) }
        return state == .closed && allowance == 0
    }

    /// Hands over as much of one segment as is allowed; true when nothing of it waits any more.
    private func send(
        _ item: PushLine.Item, _ now: BootTime, _ pauses: Set<ScopePause>, _ allowance: inout Int, isTrial: Bool
    ) -> Bool {
        let unit = item.unit
        if unit.stopReason == nil && !unit.lease.maySend(at: now) { unit.stop(.leaseEnded) }
        if unit.stopReason == nil && unit.isPastEnd { unit.stop(.expired) }
        guard unit.stopReason == nil else { return true }
        if !pauses.isEmpty, !unit.isProbe, unit.isHeld(item.segment, byAnyOf: pauses) {
            unit.park(item.segment)
            return true
        }
        if isAway {
            unit.putOff(item.segment, for: awayDelay)
            return true
        }
        return submit(unit, item.segment, &allowance, isTrial: isTrial)
    }

    private func submit(_ unit: UnitInWork, _ segment: Int, _ allowance: inout Int, isTrial: Bool) -> Bool {
        let deadline = loop.now.advanced(by: requestTimeout)
        // It may wait in the pool for a stream; frozen or not, nothing is started after the lease.
        let startBy = MonotonicTime(nanoseconds: unit.lease.deadline.nanoseconds)
        while unit.segments[segment].hasWaiting {
            guard allowance > 0, let (index, isAgain) = unit.segments[segment].takeNext() else { return false }
            let tag = Self.tag(unit, index)
            let request = unsafe HTTP2Request(
                path: unit.path(index), id: UnsafeRawBufferPointer(unit.pushID(index)), tag: tag, deadline: deadline,
                startBy: startBy)
            // What goes again goes first: a fault of all shows at the second try of one device, not after a try of each. A pool
            // that says no tells the stage when it has space again.
            guard gateway.pool.submit(request, head: unit.head, first: isAgain) else {
                unit.segments[segment].again.append(index)
                return false
            }
            unit.handedToWire()
            allowance -= 1
            if isTrial { probe = tag }
        }
        return true
    }
}
