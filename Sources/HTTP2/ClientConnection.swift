// One connection of a pool. It takes requests from the pool's queue while it fills its write buffer, so nothing waits
// inside it: a connection that is blocked, silent, limited to no streams or told to go away simply takes none.
//
//   connecting ──> handshaking ──> open ──> draining (GOAWAY, retired) ──> closed
//        └──────────────┴───────────┴──────────────┴── lost ──────────────────┘

import Glibc
import Reactor
import TLS
import Telemetry

/// One client connection, on the loop of its pool.
@safe final class ClientConnection: TransportOwner {
    enum State { case connecting, handshaking, open, draining, closed }

    /// Counts the connections of a pool from 1.
    let number: UInt32
    private(set) var state = State.connecting
    var gate: StreamGate
    var answers: UInt64 = 0
    private(set) var openedAt: MonotonicTime?

    let pool: HTTP2Pool
    let loop: EventLoop
    private let configuration: HTTP2PoolConfiguration
    let table: RequestTable
    private var connector: Connector?
    private var transport: Transport?
    private var session: (any ClientSession)?
    private var address: SocketAddress?
    private var connectTimer: LoopTimer?
    var holdTimer: LoopTimer?
    private var isSettling = false
    var goAwayFault: HTTP2Fault?
    /// The authorization that its requests have carried last, and since when.
    private var carried: HTTP2SharedValue?
    private var carriedSince = MonotonicTime(nanoseconds: 0)
    private var lastFill: UInt32 = 0
    /// Until when what the last fill brought may be sent.
    private var fillMayGo = MonotonicTime.distantFuture
    /// The last answer, or the moment from which answers were waited for.
    var lastProgress = MonotonicTime(nanoseconds: 0)
    private var watchdog = Watchdog()
    private var watchdogTimer: LoopTimer?
    private var watchdogDue = MonotonicTime.distantFuture

    init(pool: HTTP2Pool, number: UInt32) {
        self.pool = pool
        self.number = number
        loop = pool.loop
        configuration = pool.configuration
        table = pool.table
        gate = StreamGate(
            ceiling: pool.configuration.maxStreamsPerConnection,
            provesFirst: pool.configuration.provesFirst && pool.authorization != nil)
    }

    // MARK: Opening

    /// Begins to connect.
    func start() {
        let deadline = MonotonicTime.now().advanced(by: configuration.connectTimeout)
        connectTimer = loop.schedule(after: configuration.connectTimeout) { [weak self] in self?.connectTimedOut() }
        let connector = Connector(
            loop: loop, host: configuration.host, port: configuration.port, proxy: configuration.proxy,
            deadline: deadline,
            order: { [pool] in pool.ordered($0) }
        ) { [weak self] in self?.connected($0) }
        self.connector = connector
        connector.start()
    }

    private func connectTimedOut() {
        let missing = state == .connecting ? "TCP connection" : "TLS handshake"
        let words = "no \(missing) with \(configuration.host) within \(configuration.connectTimeout)"
        lose(HTTP2Fault(.connectTimeout, words))
    }

    private func connected(_ result: Result<(descriptor: Int32, address: SocketAddress), HTTP2Fault>) {
        connector = nil
        switch result {
        case .failure(let fault): lose(fault)
        case .success((let descriptor, let address)):
            self.address = address
            pool.addresses.acquire(address)
            state = .handshaking
            handshake(descriptor)
        }
    }

    private func handshake(_ descriptor: Int32) {
        let name = configuration.tlsName ?? configuration.host
        do throws(TLSError) {
            let stream = try TLSStream(client: pool.tls, descriptor: descriptor, host: name)
            let transport = Transport(loop: loop, descriptor: descriptor, stream: stream, owner: self)
            self.transport = transport
            transport.start()
        } catch {
            Glibc.close(descriptor)
            lose(HTTP2Fault(error))
        }
    }

    func transportOpened(_ transport: Transport) {
        stopConnectTimer()
        guard transport.stream.selectedALPN == "h2" else {
            let words = "\(configuration.host) does not agree to speak HTTP/2 (ALPN h2)"
            return lose(HTTP2Fault(.alpn, words))
        }
        session = NGHTTP2ClientSession(table: table, number: number, names: pool.names)
        guard session != nil else { return lose(HTTP2Fault(.protocolError, "no memory for a session")) }
        state = .open
        openedAt = loop.now
        lastProgress = loop.now
        watchdog.received(at: loop.now)
        armWatchdog(loop.now.advanced(by: configuration.idlePing))
        transport.queueFlush()
        pool.opened(self)
    }

    private func stopConnectTimer() {
        if let connectTimer { loop.cancel(connectTimer) }
        connectTimer = nil
    }

    // MARK: What the pool asks

    /// Whether it is on its way to be open.
    var isConnecting: Bool { state == .connecting || state == .handshaking }

    /// Whether new requests may go over it at all.
    var isUsable: Bool { state == .open && !watchdog.isSuspicious }

    /// Whether it must not carry this authorization, since it took up another one too short a while ago.
    func isBarred(from authorization: HTTP2SharedValue?, at now: MonotonicTime) -> Bool {
        guard let carried, let authorization, carried !== authorization else { return false }
        return now.since(carriedSince) < configuration.authorizationHold
    }

    /// When it counts as stuck if no answer comes: all streams that the peer allows wait, PING or not, and perhaps in vain.
    var stuckAt: MonotonicTime? {
        guard state == .open, let session, session.openStreams >= gate.limit else { return nil }
        return lastProgress.advanced(by: configuration.pingAfter)
    }

    /// Whether it has been of no use for so long that another should take its place.
    func isStuck(at now: MonotonicTime) -> Bool { stuckAt.map { $0 <= now } ?? false }

    /// How many requests it would take now.
    var room: Int {
        guard isUsable, let session, transport?.isBlocked == false else { return 0 }
        return gate.room(open: session.openStreams, now: loop.now)
    }

    /// Streams on it, also those nobody waits for any more.
    var openStreams: Int { session?.openStreams ?? 0 }

    /// The peer it is connected to.
    var peer: String { address?.description ?? configuration.host }

    /// Lets it fetch requests at the end of this turn.
    func offer() { transport?.queueFlush() }

    /// Ends the wait for one stream, whose slot the pool ends itself.
    func abandon(_ slot: Int32) {
        session?.abandon(slot, code: 8)
        transport?.queueFlush()
    }

    /// Takes no more requests and ends once its streams have.
    func drain(_ fault: HTTP2Fault?) {
        guard state == .open || state == .draining else { return }
        if let fault { goAwayFault = fault }
        if state == .open {
            state = .draining
            pool.draining(self, fault)
        }
        endIfDrained()
    }

    private func endIfDrained() {
        guard state == .draining, !isSettling, let session, session.openStreams == 0, let transport else { return }
        session.goAway()
        transport.finish()
        settleAccounts(goAwayFault ?? HTTP2Fault(.closed, "the connection was retired"), wasLost: false)
    }

    /// Ends at once: what was sent is unknown.
    func close() {
        transport?.close()
        settleAccounts(HTTP2Fault(.closed, "the connection was closed on our side"), wasLost: false)
    }

    // MARK: Bytes

    func transportReceived(_ bytes: UnsafeRawBufferPointer) {
        guard state != .closed, let session else { return }
        watchdog.received(at: loop.now)
        let fault = unsafe session.receive(bytes)
        settle()
        if let fault { return lose(fault) }
        transport?.queueFlush()
    }

    func transportFill(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let session else { return 0 }
        var (allowance, authorization) = state == .open ? pool.allowance(for: self) : (0, nil)
        let now = MonotonicTime.now()
        lastFill = session.beginFill(authorization: authorization, at: now)
        fillMayGo = .distantFuture
        let wasIdle = session.openStreams == 0
        var used = 0
        while true {
            let count = unsafe session.produce(into: UnsafeMutableRawBufferPointer(rebasing: buffer[used...]))
            if count < 0 {
                lose(session.fault)
                return 0
            }
            used += count
            guard used < buffer.count, allowance > 0 else { break }
            let slot = pool.take(for: number, at: now)
            guard slot >= 0 else { break }
            allowance -= 1
            fillMayGo = unsafe min(fillMayGo, table.slots[Int(slot)].request.startBy)
            if !session.submit(slot) {
                // Out of stream numbers or of memory: another connection takes over.
                pool.putBack(slot)
                drain(nil)
                break
            }
            if let authorization, carried !== authorization { (carried, carriedSince) = (authorization, now) }
        }
        if wasIdle && session.openStreams > 0 { startedWaiting() }
        settle()
        return used
    }

    func transportMayGoOn() -> Bool {
        if fillMayGo > .now() { return true }
        // What has not been written of the buffer must not be; within it nothing can be told apart.
        lose(HTTP2Pool.tooLate)
        return false
    }

    func transportFlushed() {
        guard let session, state == .open || state == .draining else { return }
        guard !session.isOver || session.openStreams == 0 && state == .draining else {
            return lose(goAwayFault ?? HTTP2Fault(.protocolError, "the peer broke the rules of HTTP/2"))
        }
        endIfDrained()
    }

    func transportEnded(_ fault: HTTP2Fault) { lose(fault) }

    // MARK: Silence

    /// A stream waits again, so silence counts from now on.
    private func startedWaiting() {
        watchdog.startedWaiting(at: loop.now)
        lastProgress = loop.now
        let due = loop.now.advanced(by: configuration.pingAfter)
        // The timer looks anew whenever it fires, so it is set forward at most once per `pingAfter`.
        if watchdogDue > due { armWatchdog(due) }
    }

    private func armWatchdog(_ due: MonotonicTime) {
        if let watchdogTimer { loop.cancel(watchdogTimer) }
        watchdogDue = due
        watchdogTimer = loop.schedule(after: due.since(.now())) { [weak self] in self?.look() }
    }

    private func look() {
        guard state == .open || state == .draining, let session else { return }
        let action = watchdog.look(
            at: .now(), isWaiting: session.openStreams > 0, pingAfter: configuration.pingAfter,
            idlePing: configuration.idlePing, pingTimeout: configuration.pingTimeout)
        switch action {
        case .wait(let due): armWatchdog(due)
        case .giveUp: lose(HTTP2Fault(.pingTimeout, "the peer was silent and did not answer a PING"))
        case .ping:
            session.ping()
            transport?.queueFlush()
            armWatchdog(MonotonicTime.now().advanced(by: configuration.pingTimeout))
            // What waits must go elsewhere now.
            pool.wake()
        }
    }

    // MARK: Events

    /// Looks at what the session left behind; handlers are called from here.
    private func settle() {
        guard !isSettling, let session else { return }
        isSettling = true
        defer {
            isSettling = false
            endIfDrained()
        }
        let events = session.hasEvents ? session.takeEvents() : SessionEvents()
        if events.settings {
            gate.settings(maxConcurrentStreams: session.peerMaxConcurrentStreams)
            pool.wake()
        }
        if let goAway = events.goAway {
            let isFirst = goAwayFault == nil
            drain(goAway.fault)
            if goAway.debugData.isEmpty {
                if isFirst { pool.statistics.wordlessGoAways += 1 }
            } else {
                pool.onFarewell?(HTTP2Farewell(connection: number, debugData: goAway.debugData))
            }
        }
        settleEnded(session.takeEnded())
        settleComplete(session, events.complete)
    }

    // MARK: The end

    /// The connection is gone.
    func lose(_ fault: HTTP2Fault) {
        guard state != .closed else { return }
        transport?.close()
        settleAccounts(fault, wasLost: true)
    }

    private func settleAccounts(_ fault: HTTP2Fault, wasLost: Bool) {
        guard state != .closed else { return }
        let before = state
        state = .closed
        stopConnectTimer()
        connector?.cancel()
        connector = nil
        for timer in [holdTimer, watchdogTimer].compactMap(\.self) { loop.cancel(timer) }
        if let address { pool.addresses.release(address) }
        // A buffer of which TLS has taken nothing never reaches the peer, nor does a record that is not complete.
        let unsentFill = transport?.hasUntouchedOutput == true ? lastFill : nil
        // Whoever is not let in has not been heard; TLS 1.3 tells him after he has begun to speak.
        let wasNeverHeard = answers == 0 && fault.certificateAlert != nil
        var again: [Int32] = []
        var ended: [(Int32, HTTP2Outcome)] = []
        for index in table.indices(on: number) {
            let slot = unsafe table.slots[Int(index)]
            if slot.status != 0 {
                ended.append((index, answer(index)))
            } else if wasNeverHeard || !slot.flags.contains(.written) || slot.fill == unsentFill {
                again.append(index)
            } else {
                ended.append((index, .unknown(fault)))
            }
        }
        pool.ended(self, before: before, fault: fault, wasLost: wasLost, unknown: ended.count)
        pool.sendAgain(again)
        for (index, outcome) in ended where unsafe table.slots[Int(index)].connection == number {
            pool.end(index, outcome)
        }
    }
}
