// One connection for one task: what the verbs of a command line and migrations need. It fails soon and says why, and it never
// comes back by itself, so a transaction may span several calls.

package import Reactor
package import Telemetry

extension PostgresConnection {
    /// Connects once.
    ///
    /// `timeout` bounds an attempt at all servers together (default: the configuration's bound for each address, twice for each
    /// server). `patience` is for how long to try again while nothing can be reached;
    /// what waiting does not cure (a wrong password, an unknown database) ends it at once.
    ///
    /// - Throws: `authentication`, `unknownDatabase`, `untrusted`, `readOnly` or `unreachable`, never later than the bounds.
    package static func open(
        loop: EventLoop, configuration: PostgresConfiguration, logger: Logger, timeout: Duration? = nil,
        patience: Duration = .zero
    ) async throws(PostgresError) -> PostgresConnection {
        let end = MonotonicTime.now().advanced(by: patience)
        var policy = ReconnectPolicy()
        while true {
            let connector = Connector(configuration: configuration, logger: logger)
            let result = await attempt(loop, connector, timeout ?? connector.bound)
            switch result {
            case .success(let libpq): return try PostgresConnection(taking: libpq, loop: loop, logger: logger)
            case .failure(let error):
                let delay = policy.nextDelay(random: Double.random(in: 0...1))
                guard error.reaction == .retry, MonotonicTime.now().advanced(by: delay) < end else { throw error }
                logger.info("cannot connect to the database yet", [.error: error.description])
                _ = await LoopSignal(loop: loop).wait(delay)
            }
        }
    }

    private static func attempt(
        _ loop: EventLoop, _ connector: Connector, _ timeout: Duration
    ) async -> Result<LibPQ, PostgresError> {
        await withCheckedContinuation { continuation in
            let bound = loop.schedule(after: timeout) {
                connector.abandon()
                let text = "no connection within \(timeout.millisecondsRoundedUp) ms"
                continuation.resume(returning: .failure(PostgresError(.unreachable, text)))
            }
            connector.start(on: loop) { result in
                loop.cancel(bound)
                continuation.resume(returning: result)
            }
        }
    }

    /// Carries the statements out in one transaction, as a session does.
    ///
    /// - Throws: after a refused statement, with everything rolled back; after `timeout`, with the connection closed.
    package func transaction(
        _ statements: [PostgresStatement], statementTimeout: Duration = .seconds(15),
        lockTimeout: Duration = .seconds(2), timeout: Duration? = nil
    ) async throws(PostgresError) -> [PostgresResult] {
        let limits = PostgresLimits(statement: statementTimeout, lock: lockTimeout)
        return try await run(.transaction(statements, limits), timeout ?? statementTimeout + .seconds(5))
    }

    /// A transaction of one statement.
    ///
    /// - Throws: as `transaction` does.
    package func query(
        _ statement: PostgresStatement, statementTimeout: Duration = .seconds(15),
        lockTimeout: Duration = .seconds(2), timeout: Duration? = nil
    ) async throws(PostgresError) -> PostgresResult {
        let results = try await transaction(
            [statement], statementTimeout: statementTimeout, lockTimeout: lockTimeout, timeout: timeout)
        guard let result = results.first else {
            throw PostgresError(.protocolViolation, "a statement without a result", outcome: .unknown)
        }
        return result
    }

    /// Carries statements out as they are, within the transaction that a script or a pipeline has opened; without one they
    /// are a transaction of their own.
    ///
    /// - Throws: after a refused statement; an open transaction is then failed and waits for its ROLLBACK.
    package func pipeline(
        _ statements: [PostgresStatement], timeout: Duration
    ) async throws(PostgresError) -> [PostgresResult] {
        try await run(.pipeline(statements), timeout)
    }

    /// Carries out a script of several statements in the simple protocol; its results are text.
    ///
    /// - Throws: after a refused statement; `outcome` speaks of that statement's transaction.
    @discardableResult
    package func simple(_ script: String, timeout: Duration) async throws(PostgresError) -> [PostgresResult] {
        try await run(.script(script), timeout)
    }

    private func run(
        _ work: PostgresCall.Work, _ timeout: Duration
    ) async throws(PostgresError) -> [PostgresResult] {
        let result = await withCheckedContinuation { continuation in
            let call = PostgresCall(work) { continuation.resume(returning: $0) }
            if let error = submit(call, timeout) { call.finish(.failure(error), loop) }
        }
        return try result.get()
    }

    /// Begins a call; returns why it could not be begun.
    private func submit(_ call: PostgresCall, _ timeout: Duration) -> PostgresError? {
        if let fault = call.fault { return fault }
        if isClosed { return PostgresError(.closed, "the connection is closed") }
        guard isIdle else { return PostgresError(.overloaded, "another call is under way on this connection") }
        let bound = "\(timeout.millisecondsRoundedUp) ms"
        call.timer = loop.schedule(after: timeout) { [weak self] in
            self?.abort(PostgresError(.deadline, "the database did not answer within \(bound)"))
        }
        return start(call) ? nil : PostgresError(.connectionLost, "the connection had broken before the call")
    }
}
