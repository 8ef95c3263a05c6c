// The requests of one credential for one host on one lane, over a few connections. Requests wait in one bounded queue here,
// never inside a connection, so a connection whose stream limit drops, that is told to go away or that dies strands nobody:
//
//   submit ──> queue ──> stream on a connection ──> answered | notProcessed | unknown
//                ▲               │
//                └── refused, never sent, above last-stream-id (no attempt charged)
//
// Deadlines of all requests stand in one wheel; a request ends by its deadline wherever it is. Loop-confined.

package import Reactor
package import TLS
package import Telemetry

/// Requests over a few connections to one host; `close` must be called before it is let go.
package final class HTTP2Pool {
    package let configuration: HTTP2PoolConfiguration
    let loop: EventLoop
    let tls: TLSClientContext
    let authorization: (any HTTP2AuthorizationSource)?
    let table: RequestTable
    let names: SessionNames
    let logger: Logger
    var addresses = AddressBook()
    var connections: [ClientConnection] = []
    var statistics = HTTP2PoolSnapshot()
    let budget: ConnectBudget
    var growth: GrowthPlan
    var nextNumber: UInt32 = 0
    var addressTurn = Int.random(in: 0..<64)
    var evaluationTimer: LoopTimer?
    var evaluationDue = MonotonicTime.distantFuture

    /// Called with what a peer says when it closes a connection; on the loop, never inside nghttp2.
    package var onFarewell: ((HTTP2Farewell) -> Void)?
    /// Called when a peer refuses our certificate (`HTTP2Fault.certificateAlert`), before any answer; on the loop, never inside nghttp2.
    package var onRefusal: ((HTTP2Fault) -> Void)?
    private var handler: (any HTTP2RequestHandler)?
    private let wheel: DeadlineWheel
    private var wheelTimer: LoopTimer?
    private var wheelDue = MonotonicTime.distantFuture
    /// Waiting requests whose deadline had passed when their turn came.
    private var overdue: [Int32] = []
    private var isAwake = false
    private var wasFull = false
    private var isAccepting = true
    private(set) var isClosed = false
    private var drainers: [CheckedContinuation<Void, Never>] = []

    /// An idle pool; the first request opens the first connection.
    ///
    /// Without `authorization` no such field is sent (client certificates).
    package init(
        loop: EventLoop, configuration: HTTP2PoolConfiguration, tls: TLSClientContext,
        authorization: (any HTTP2AuthorizationSource)?, handler: any HTTP2RequestHandler, logger: Logger
    ) {
        self.loop = loop
        self.configuration = configuration
        self.tls = tls
        self.authorization = authorization
        self.handler = handler
        self.logger = logger
        let now = MonotonicTime.now()
        // It grows by need: a process with many apps has many pools that are never busy.
        table = RequestTable(capacity: 64)
        names = SessionNames(configuration)
        wheel = DeadlineWheel(now: now)
        budget = configuration.budget ?? ConnectBudget(configuration)
        growth = GrowthPlan(maximum: configuration.maxConnections, patience: configuration.growAfter)
    }

    // MARK: Requests

    /// Takes a request up, `first` before those that wait; false when the queue is full or the pool is closing, and then nothing
    /// was taken.
    package func submit(_ request: HTTP2Request, head: HTTP2RequestHead, first: Bool = false) -> Bool {
        guard isAccepting else { return false }
        guard table.queued < configuration.queueLimit else {
            wasFull = true
            return false
        }
        let index = table.add(request, head: head)
        if first { table.prepend(index) } else { table.append(index) }
        wheel.insert(index, deadline: request.deadline)
        if request.deadline < wheelDue { armWheel(request.deadline) }
        wake()
        return true
    }

    /// How many more requests `submit` takes now.
    package var queueSpace: Int { isAccepting ? max(0, configuration.queueLimit - table.queued) : 0 }
    /// Requests that wait for a stream.
    package var queued: Int { table.queued }
    /// Requests on a stream.
    package var inFlight: Int { table.count - table.queued }
    /// Streams that the open connections may have at present; at least 1.
    package var streamCapacity: Int {
        max(1, connections.reduce(0) { $0 + ($1.isUsable ? $1.gate.limit : 0) })
    }

    /// Whether a connection is open for requests.
    package var isConnected: Bool { connections.contains { $0.state == .open } }
    /// Whether no connection carries anything, and the last attempt to open one failed.
    ///
    /// A peer that does not like our certificate has been reached.
    package var isCutOff: Bool {
        guard let fault = statistics.lastConnectFault, fault.certificateAlert == nil else { return false }
        return !connections.contains { $0.state == .open || $0.state == .draining }
    }
    /// How many requests have been answered since the pool was made.
    package var answered: UInt64 { statistics.answered }

    /// Ends the waiting requests whose tag is chosen, as `.notProcessed(.withdrawn)`.
    package func withdraw(where isChosen: (UInt64) -> Bool) {
        let fault = HTTP2Fault(.withdrawn, "the request was withdrawn before it was sent")
        let chosen = table.waiting.filter { unsafe isChosen(table.slots[Int($0)].request.tag) }
        endWaiting(chosen, fault)
    }

    // MARK: The pool

    /// Takes no more requests, finishes those it has, at the latest by `until`, and closes.
    package func drain(until: MonotonicTime) async {
        isAccepting = false
        guard !isClosed else { return }
        loop.schedule(after: until.since(.now())) { [weak self] in self?.close() }
        wake()
        await withCheckedContinuation { drainers.append($0) }
    }

    /// Ends everything at once: what was sent is unknown, what waits is not processed.
    package func close() {
        guard !isClosed else { return }
        isAccepting = false
        isClosed = true
        for connection in connections { connection.close() }
        connections.removeAll()
        endOverdue()
        endWaiting(table.waiting, HTTP2Fault(.closed, "the pool was closed"))
        for timer in [wheelTimer, evaluationTimer].compactMap(\.self) { loop.cancel(timer) }
        handler = nil
        onFarewell = nil
        onRefusal = nil
        for drainer in drainers { drainer.resume() }
        drainers.removeAll()
    }

    /// The authorization source has a value, or another one.
    package func authorizationChanged() { wake() }

    // MARK: Called by connections

    /// Takes the longest waiting request off the queue for a connection; -1 when none waits.
    ///
    /// `now` is read for each buffer, not for each turn: a process may be stopped in the middle of a turn, for long.
    func take(for connection: UInt32, at now: MonotonicTime) -> Int32 {
        var index = table.popFirst()
        while index >= 0, unsafe table.slots[Int(index)].request.isPast(now) {
            wheel.remove(index)
            overdue.append(index)
            wake()
            index = table.popFirst()
        }
        if index >= 0 { unsafe table.slots[Int(index)].connection = connection }
        return index
    }

    /// Undoes `take`.
    func putBack(_ index: Int32) {
        unsafe table.slots[Int(index)].connection = 0
        table.prepend(index)
    }

    /// Puts requests that the peer has certainly not processed back in front, in their order.
    func sendAgain(_ indices: [Int32]) {
        for index in indices.reversed() {
            statistics.resent += 1
            table.rewind(index)
            table.prepend(index)
        }
        if isClosed {
            endWaiting(indices, HTTP2Fault(.closed, "the pool was closed"))
        } else if !indices.isEmpty {
            wake()
        }
    }

    /// Ends a request that does not wait.
    func end(_ index: Int32, _ outcome: HTTP2Outcome) {
        let tag = unsafe table.slots[Int(index)].request.tag
        if case .answered = outcome { statistics.answered += 1 }
        wheel.remove(index)
        table.release(index)
        handler?.requestEnded(tag: tag, outcome)
        if table.count == 0 && !isAccepting { wake() }
    }

    private func endOverdue() {
        let now = MonotonicTime.now()
        while let index = overdue.popLast() {
            if unsafe table.slots[Int(index)].request.startBy <= now {
                end(index, .notProcessed(HTTP2Pool.tooLate))
            } else {
                statistics.deadlines += 1
                end(index, .notProcessed(unsentFault))
            }
        }
    }

    /// What is said of a request that nothing may be sent of any more.
    static let tooLate = HTTP2Fault(.withdrawn, "the time in which the request might be started is over")

    private func endWaiting(_ indices: [Int32], _ fault: HTTP2Fault) {
        for index in indices { table.unlink(index) }
        for index in indices { end(index, .notProcessed(fault)) }
        if !indices.isEmpty { wake() }
    }

    // MARK: Turns

    /// Sees to it that the queue is looked at, at the end of this turn.
    func wake() {
        guard !isAwake, !isClosed else { return }
        isAwake = true
        loop.atEndOfTurn(self)
    }

    /// How many requests a connection may fetch into one buffer, and what authorizes them.
    func allowance(for connection: ClientConnection) -> (Int, HTTP2SharedValue?) {
        guard table.queued > 0 else { return (0, nil) }
        let value = authorization?.authorization
        guard value != nil || authorization == nil else { return (0, nil) }
        guard !connection.isBarred(from: value, at: loop.now) else {
            // Not here, in the middle of its write: it is retired at the end of the turn.
            wake()
            return (0, nil)
        }
        var allowance = connection.room
        if connections.count > 1 {
            // The least busy first: nobody runs ahead of another that has room by more than this.
            for other in connections where other !== connection && other.room > 0 {
                allowance = min(allowance, other.openStreams + 32 - connection.openStreams)
            }
        }
        // Others must have a look when this one leaves something; the owner, when the queue gets shorter.
        if allowance < table.queued || wasFull { wake() }
        return (allowance, value)
    }

    // MARK: Deadlines

    private func armWheel(_ due: MonotonicTime) {
        if let wheelTimer { loop.cancel(wheelTimer) }
        wheelDue = due
        // One tick later it has certainly passed for the wheel, too.
        let delay = due.since(.now()) + .nanoseconds(Int64(DeadlineWheel.tick))
        wheelTimer = loop.schedule(after: delay) { [weak self] in self?.expire() }
    }

    private func expire() {
        wheelTimer = nil
        wheelDue = .distantFuture
        let now = MonotonicTime.now()
        for index in wheel.expire(now: now) {
            let slot = unsafe table.slots[Int(index)]
            // The handler may have ended this one with the one before it.
            guard slot.request.deadline <= now else { continue }
            statistics.deadlines += 1
            if slot.connection == 0 {
                table.unlink(index)
                end(index, .notProcessed(unsentFault))
            } else {
                expireStream(index, slot)
            }
        }
        if let next = wheel.nextVisit, next < wheelDue, !isClosed { armWheel(next) }
        wake()
    }

    private func expireStream(_ index: Int32, _ slot: RequestSlot) {
        connections.first { $0.number == slot.connection }?.abandon(index)
        if slot.status != 0 { return end(index, .answered(table.response(index))) }
        let fault = HTTP2Fault(.deadline, "no answer before the request's deadline")
        end(index, slot.flags.contains(.written) ? .unknown(fault) : .notProcessed(fault))
    }

    /// Why a request could not be sent until its deadline.
    private var unsentFault: HTTP2Fault {
        if !connections.contains(where: \.isUsable), let fault = statistics.lastConnectFault { return fault }
        return HTTP2Fault(.deadline, "no stream became free before the request's deadline")
    }
}

extension HTTP2Pool: TurnHandler {
    package func turnEnded() {
        isAwake = false
        guard !isClosed else { return }
        if !overdue.isEmpty { endOverdue() }
        if table.count == 0 && !isAccepting { return close() }
        if table.queued > 0 { retireBarred() }
        evaluate()
        if table.queued > 0 {
            for connection in connections where connection.room > 0 { connection.offer() }
        }
        if wasFull && table.queued <= configuration.queueLimit / 2 && isAccepting {
            wasFull = false
            handler?.poolHasSpace()
        }
    }
}
