// One established connection and the call that is under way on it. Loop-confined and driven by callbacks: a descriptor becomes
// ready, libpq reads and writes what it can, results are handed to a pure machine, and when the pipeline has synced the call ends.
//
//     idle ──start──► busy ──sync──► idle            results, or an error after which nothing is open
//                      │ └─ refused ─► rolling back ──sync──► idle
//                      ╰── connection lost, deadline, broken protocol ──► closed, for good
//
// It never reconnects: PostgresSession does that with a new one.

import CLibPQ
package import Reactor
import Telemetry

/// Somebody who is told what becomes of a connection.
protocol PostgresConnectionOwner: AnyObject {
    /// A call has ended and the next may start.
    func connectionIsIdle(_ connection: PostgresConnection)
    /// The connection is closed; the call that was under way has ended before.
    func connectionIsLost(_ connection: PostgresConnection, _ error: PostgresError)
    /// A notification for a channel that was subscribed to.
    func connection(_ connection: PostgresConnection, notified channel: String, payload: String)
}

/// An established connection to one server; loop-confined, closed by `close`.
package final class PostgresConnection: IOHandler {
    let loop: EventLoop
    private let logger: Logger
    private var libpq: LibPQ?
    private var registration: IORegistration?
    private var interest: IOInterest = .readable
    private var running: Running?
    private var limits: (value: PostgresLimits, statements: [String])?
    weak var owner: (any PostgresConnectionOwner)?

    /// The call under way.
    private struct Running {
        enum Stage {
            case statements
            case rollback(PostgresError)
            case script(PostgresError?)
        }

        let call: PostgresCall
        var stage: Stage
        var machine: PipelineMachine
        var results: [PostgresResult] = []
    }

    /// Takes over a connection that has just been made.
    init(taking libpq: LibPQ, loop: EventLoop, logger: Logger) throws(PostgresError) {
        self.loop = loop
        self.logger = logger
        self.libpq = libpq
        guard libpq.beginPipelining() else { throw PostgresError(.unreachable, libpq.errorMessage) }
        do {
            registration = try loop.register(libpq.descriptor, .readable, self)
        } catch {
            throw PostgresError(.unreachable, "\(error)")
        }
    }

    /// Whether a call can be started now.
    var isIdle: Bool { libpq != nil && running == nil }

    /// Whether the connection is of no more use.
    package var isClosed: Bool { libpq == nil }

    /// The process id that the other side gave for cancel requests; not the server's own behind a pooler.
    package var backendPID: Int32 { libpq?.backendPID ?? 0 }

    /// Whether a transaction is open that a script or a pipeline began.
    package var isInTransaction: Bool {
        guard let libpq else { return false }
        return libpq.transactionStatus != PQTRANS_IDLE
    }

    /// What the server reported about a setting, for example `server_version` or `server_encoding`.
    package func parameter(_ name: String) -> String? { libpq?.parameter(name) }

    /// Closes the connection; a call under way ends with `closed`.
    package func close() { tearDown(PostgresError(.closed, "the connection was closed"), tellsOwner: false) }

    /// Drops the connection because of `error`, which the call under way gets.
    func abort(_ error: PostgresError) { tearDown(error, tellsOwner: true) }

    // MARK: Sending

    /// Begins a call on an idle connection; false when the connection turns out to be lost already, and nothing was sent.
    func start(_ call: PostgresCall) -> Bool {
        guard let libpq, running == nil else { return false }
        // What the loop has not seen yet may be the end of the connection: asking costs a microsecond, and saves the caller from
        // an outcome that nobody knows.
        guard libpq.isStillThere() else {
            lost(libpq, .connectionLost)
            return false
        }
        send(call, libpq)
        return true
    }

    private func send(_ call: PostgresCall, _ libpq: LibPQ) {
        let plan: PipelineMachine.Plan
        let isQueued: Bool
        switch call.work {
        case .transaction(let statements, let limits):
            let preamble = preamble(limits)
            plan = PipelineMachine.Plan(preamble: preamble.count, body: statements.count, commits: true)
            running = Running(call: call, stage: .statements, machine: PipelineMachine(plan))
            isQueued =
                preamble.allSatisfy(libpq.send) && statements.allSatisfy(libpq.send) && queueLast("COMMIT", libpq)
        case .pipeline(let statements):
            plan = PipelineMachine.Plan(preamble: 0, body: statements.count, commits: false)
            running = Running(call: call, stage: .statements, machine: PipelineMachine(plan))
            running?.machine.lastStatementSent()
            isQueued = statements.allSatisfy(libpq.send) && libpq.sendSync()
        case .script(let sql):
            plan = PipelineMachine.Plan(preamble: 0, body: 0, commits: false)
            running = Running(call: call, stage: .script(nil), machine: PipelineMachine(plan))
            running?.machine.lastStatementSent()
            isQueued = libpq.endPipelining() && libpq.sendScript(sql)
        }
        guard isQueued else { return lost(libpq, .connectionLost) }
        flush()
    }

    private func preamble(_ value: PostgresLimits) -> [String] {
        if let limits, limits.value == value { return limits.statements }
        let statements = ["BEGIN"] + value.statements
        limits = (value, statements)
        return statements
    }

    private func queueLast(_ sql: String, _ libpq: LibPQ) -> Bool {
        // From here on libpq may write it of its own accord, when its buffer is full.
        running?.machine.lastStatementSent()
        return libpq.send(sql) && libpq.sendSync()
    }

    private func flush() {
        guard let libpq else { return }
        switch libpq.flush() {
        case .done: watch(.readable)
        case .blocked: watch([.readable, .writable])
        case .failed: lost(libpq, .connectionLost)
        }
    }

    private func watch(_ wanted: IOInterest) {
        guard wanted != interest, let registration else { return }
        interest = wanted
        loop.modify(registration, wanted)
    }

    // MARK: Receiving

    package func ready(_ events: IOEvents) {
        guard let libpq else { return }
        if events.contains(.writable) { flush() }
        guard self.libpq === libpq else { return }
        let isAlive = libpq.consumeInput() && !libpq.isBad
        receive(libpq, isAlive)
        notify(libpq)
        if self.libpq === libpq, libpq.isBad || !isAlive { lost(libpq, .connectionLost) }
    }

    /// Takes results until libpq has none or the call has ended.
    private func receive(_ libpq: LibPQ, _ isAlive: Bool) {
        while self.libpq === libpq, running != nil {
            switch libpq.receive() {
            case .nothing: return
            case .result(let result): take(result, libpq, isAlive)
            // Once the connection is lost libpq ends everything that was queued, over and over.
            case .end where !isAlive: return
            case .end: takeEnd(libpq)
            }
        }
    }

    private func take(_ result: PostgresResult, _ libpq: LibPQ, _ isAlive: Bool) {
        switch result.status {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: keep(result)
        case PGRES_FATAL_ERROR:
            let error = unsafe PostgresError(result: result.pointer)
            // What libpq says about a lost connection is told once the rest has been read.
            if isAlive || !error.sqlState.isEmpty { refuse(error) }
        case PGRES_PIPELINE_ABORTED: break
        case PGRES_PIPELINE_SYNC: takeSync(libpq)
        case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
            abort(PostgresError(.protocolViolation, "COPY is not supported", outcome: .unknown))
        default: lost(libpq, .protocolViolation)
        }
    }

    private func keep(_ result: PostgresResult) {
        switch running?.stage {
        case .statements:
            if running?.machine.succeeded(commandTag: result.commandTag) == true { running?.results.append(result) }
        case .script: running?.results.append(result)
        case .rollback, nil: break
        }
    }

    private func refuse(_ error: PostgresError) {
        switch running?.stage {
        case .statements: running?.machine.refused(error)
        case .script(nil): running?.stage = .script(error)
        case .script, .rollback, nil: break
        }
    }

    private func takeEnd(_ libpq: LibPQ) {
        switch running?.stage {
        case .statements where running?.machine.ended() == false: lost(libpq, .protocolViolation)
        case .script(let error):
            guard libpq.resumePipelining() else { return lost(libpq, .protocolViolation) }
            end(error.map { .failure($0) })
        case .statements, .rollback, nil: break
        }
    }

    private func takeSync(_ libpq: LibPQ) {
        switch running?.stage {
        case .statements:
            switch running?.machine.synced(state(libpq)) {
            case .succeeded: end(nil)
            case .failed(let error): end(.failure(error))
            case .mustRollBack(let error): rollBack(error, libpq)
            case nil: break
            }
        case .rollback(let error):
            guard libpq.transactionStatus == PQTRANS_IDLE else { return lost(libpq, .protocolViolation) }
            end(.failure(error))
        case .script, nil: break
        }
    }

    private func state(_ libpq: LibPQ) -> PipelineMachine.TransactionState {
        switch libpq.transactionStatus {
        case PQTRANS_IDLE: .idle
        case PQTRANS_INERROR: .failed
        default: .open
        }
    }

    private func rollBack(_ error: PostgresError, _ libpq: LibPQ) {
        // A transaction that a script opened is its owner's to end.
        if case .pipeline = running?.call.work { return end(.failure(error)) }
        running?.stage = .rollback(error)
        guard libpq.send("ROLLBACK"), libpq.sendSync() else { return lost(libpq, .connectionLost) }
        flush()
    }

    private func notify(_ libpq: LibPQ) {
        while self.libpq === libpq, let (channel, payload) = libpq.nextNotification() {
            owner?.connection(self, notified: channel, payload: payload)
        }
    }

    // MARK: Ends

    /// Ends the call under way with `failure`, or with its results.
    private func end(_ failure: Result<[PostgresResult], PostgresError>?) {
        guard let running else { return }
        self.running = nil
        end(running.call, failure ?? .success(running.results))
    }

    private func end(_ call: PostgresCall, _ result: Result<[PostgresResult], PostgresError>) {
        call.finish(result, loop)
        if case .failure(let error) = result, SQLState.losesConnection(error.sqlState) { return abort(error) }
        if isIdle { owner?.connectionIsIdle(self) }
    }

    private func lost(_ libpq: LibPQ, _ code: PostgresError.Code) {
        var error = PostgresError(code, libpq.firstErrorLine)
        // The server's last words tell more than "closed the connection unexpectedly".
        if let last = libpq.notices.lastError {
            error.message = last.message
            error.sqlState = last.sqlState
        }
        if error.message.isEmpty { error.message = "the connection broke" }
        tearDown(error, tellsOwner: true)
    }

    private func tearDown(_ error: PostgresError, tellsOwner: Bool) {
        guard libpq != nil else { return }
        // Before libpq closes the descriptor, whose number the next socket may get.
        if let registration { loop.deregister(registration) }
        registration = nil
        libpq = nil
        if let running {
            self.running = nil
            finishBroken(running, error)
        }
        if tellsOwner { owner?.connectionIsLost(self, error) }
    }

    private func finishBroken(_ running: Running, _ error: PostgresError) {
        switch running.stage {
        case .rollback(let refusal): running.call.finish(.failure(refusal), loop)
        case .statements:
            let failure = running.machine.lost(error)
            running.call.finish(failure.map { .failure($0) } ?? .success(running.results), loop)
        case .script(let refusal):
            var failure = refusal ?? error
            if refusal == nil { failure.outcome = .unknown }
            running.call.finish(.failure(failure), loop)
        }
    }
}
