// A connection that is always there: calls wait in line for it, it comes back by itself when it breaks, and no call takes longer
// than it may, whatever the network, the server or a pooler does.
//
// One call is on the wire at a time, the rest wait in the order in which they came. A call that was under way when the connection
// broke ends with an error that says whether it may have been applied; it is never sent again here, because only its owner
// knows what a repetition would mean.

package import Reactor
package import Telemetry

/// What a session notices of its server.
package enum PostgresContact: Sendable {
    /// A call was answered.
    case answered
    /// A connection broke, or a call that was under way found no answer.
    case lost
}

/// A reconnecting connection with a bounded queue of calls; loop-confined, ended by `close`.
package final class PostgresSession {
    /// The loop that everything here happens on.
    package let loop: EventLoop
    private let reconnector: Reconnector
    private let queueLimit: Int
    private var waiting: [PostgresCall] = []
    private var running: PostgresCall?
    private var attempts: [AttemptWaiter] = []
    private var isClosed = false

    /// Whether there is a connection at present.
    package var isConnected: Bool { reconnector.connection != nil }

    /// Called with what the session notices of its server; on the loop.
    package var onContact: ((PostgresContact) -> Void)?

    /// How often a connection was made.
    package private(set) var connectionCount = 0

    /// Begins to connect at once, and goes on for as long as it takes.
    ///
    /// `queueLimit` calls may wait; more end with `overloaded`.
    package init(loop: EventLoop, configuration: PostgresConfiguration, logger: Logger, queueLimit: Int = 64) {
        self.loop = loop
        self.queueLimit = queueLimit
        reconnector = Reconnector(loop: loop, configuration: configuration, logger: logger)
        reconnector.onConnected = { [weak self] connection in self?.connected(connection) }
        reconnector.onFailure = { [weak self] error in self?.endAttempts(.failure(error)) }
        reconnector.start()
    }

    deinit {
        // Elsewhere nothing of a loop may be touched; `close` is the way to end a session.
        if loop.isCurrent { close() }
    }

    /// Why there is no connection at present; nil while there is one, and before the first attempt has failed.
    package var lastError: PostgresError? { reconnector.lastError }

    /// Calls that wait for their turn.
    package var queued: Int { waiting.count }

    /// Ends everything: calls under way and waiting get the code `closed`, no connection is made any more.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        reconnector.close()
        running = nil
        let calls = waiting
        waiting = []
        for call in calls { call.finish(.failure(closedError), loop) }
        endAttempts(.failure(closedError))
    }

    private var closedError: PostgresError { PostgresError(.closed, "the session was closed") }

    // MARK: Waiting for a connection

    /// Tells `waiter` how the attempt to connect ends that is under way or comes next; at once while there is a connection.
    ///
    /// Nothing is sent, and no attempt ends because somebody does not wait for it any longer.
    func add(_ waiter: AttemptWaiter, timeout: Duration) {
        if isClosed { return waiter.finish(.failure(closedError), loop) }
        if reconnector.connection != nil { return waiter.finish(.success(()), loop) }
        waiter.timer = loop.schedule(after: max(timeout, .zero)) { [weak self, weak waiter] in
            guard let self, let waiter else { return }
            attempts.removeAll { $0 === waiter }
            waiter.finish(.failure(lateError("\(timeout.millisecondsRoundedUp) ms")), loop)
        }
        attempts.append(waiter)
    }

    private func endAttempts(_ result: Result<Void, PostgresError>) {
        let waiters = attempts
        attempts = []
        for waiter in waiters { waiter.finish(result, loop) }
    }

    // MARK: The queue

    /// Accepts a call, which ends within `timeout`.
    func submit(_ call: PostgresCall, timeout: Duration) {
        if isClosed { return call.finish(.failure(closedError), loop) }
        if let fault = call.fault { return call.finish(.failure(fault), loop) }
        guard waiting.count < queueLimit else {
            let error = PostgresError(.overloaded, "\(waiting.count) calls are waiting for the database already")
            return call.finish(.failure(error), loop)
        }
        call.timer = loop.schedule(after: timeout) { [weak self, weak call] in
            if let call { self?.expired(call, timeout) }
        }
        waiting.append(call)
        startNext()
        call.hasWaited = true
    }

    private func startNext() {
        guard let connection = reconnector.connection, connection.isIdle, !waiting.isEmpty else { return }
        let call = waiting.removeFirst()
        running = call
        call.prepare()
        if !connection.start(call) {
            // The loss has been dealt with; nothing was sent, so the call waits for the next connection.
            waiting.insert(call, at: 0)
        }
    }

    private func expired(_ call: PostgresCall, _ timeout: Duration) {
        let bound = "\(timeout.millisecondsRoundedUp) ms"
        if call === running {
            // How far the server has got cannot be known, and its answer would come at the wrong time.
            reconnector.connection?.abort(PostgresError(.deadline, "the database did not answer within \(bound)"))
            return
        }
        waiting.removeAll { $0 === call }
        call.finish(.failure(lateError(bound)), loop)
    }

    private func lateError(_ bound: String) -> PostgresError {
        if reconnector.connection != nil {
            return PostgresError(.deadline, "earlier calls took longer than \(bound)")
        }
        guard let last = reconnector.lastError else {
            return PostgresError(.unreachable, "no connection to the database within \(bound)")
        }
        var error = last
        error.outcome = .notApplied
        error.statement = nil
        // What ended the previous connection is not what this call met.
        if error.code == .connectionLost || error.code == .deadline { error.code = .unreachable }
        error.message = "no connection to the database within \(bound): \(last.message)"
        return error
    }

    /// Ends a transaction that a script left open: nothing that the next caller does may end up in it.
    private func rollBack(_ connection: PostgresConnection) {
        let call = PostgresCall(.pipeline([PostgresStatement("ROLLBACK")])) { [weak connection] result in
            if case .failure(let error) = result { connection?.abort(error) }
        }
        call.timer = loop.schedule(after: .seconds(5)) { [weak connection] in
            connection?.abort(PostgresError(.deadline, "ROLLBACK was not answered within 5 s"))
        }
        _ = connection.start(call)
    }

    private func connected(_ connection: PostgresConnection) {
        connectionCount += 1
        connection.owner = self
        endAttempts(.success(()))
        startNext()
    }
}

extension PostgresSession: PostgresConnectionOwner {
    func connectionIsIdle(_ connection: PostgresConnection) {
        running = nil
        onContact?(.answered)
        reconnector.proveGood()
        if connection.isInTransaction { rollBack(connection) } else { startNext() }
    }

    func connectionIsLost(_ connection: PostgresConnection, _ error: PostgresError) {
        running = nil
        onContact?(.lost)
        reconnector.connectionLost(error)
    }

    func connection(_ connection: PostgresConnection, notified channel: String, payload: String) {}
}
