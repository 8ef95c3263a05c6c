// What callers of a session write. Each call suspends once; it resumes on the caller's own loop.

import Reactor

extension PostgresSession {
    /// Carries the statements out in one transaction and one round trip.
    ///
    /// BEGIN, the time limits (SET LOCAL), the statements and COMMIT go out together. Results are binary, one for each statement.
    ///
    /// `statementTimeout` and `lockTimeout` are kept by the server for each statement. `timeout` bounds the whole call, waiting
    /// for a connection included (default: `statementTimeout` + 5 s); when it passes while the call is under way, the
    /// connection is dropped.
    ///
    /// - Throws: after a refused statement, with everything rolled back and the session ready for the next call; after a loss, with
    ///   `outcome` saying whether the transaction may have been committed.
    package func transaction(
        _ statements: [PostgresStatement], statementTimeout: Duration = .seconds(15),
        lockTimeout: Duration = .seconds(2), timeout: Duration? = nil
    ) async throws(PostgresError) -> [PostgresResult] {
        let limits = PostgresLimits(statement: statementTimeout, lock: lockTimeout)
        return try await run(.transaction(statements, limits), timeout ?? statementTimeout + .seconds(5))
    }

    /// As `transaction`, for statements that tell how long ago something was: when the call has waited for its turn, they are made anew
    /// at the moment in which they are sent.
    ///
    /// - Throws: as `transaction` does.
    package func transaction(
        making make: @escaping () -> [PostgresStatement], statementTimeout: Duration = .seconds(15),
        lockTimeout: Duration = .seconds(2), timeout: Duration? = nil
    ) async throws(PostgresError) -> [PostgresResult] {
        let limits = PostgresLimits(statement: statementTimeout, lock: lockTimeout)
        let result = await withCheckedContinuation { continuation in
            let call = PostgresCall(making: { .transaction(make(), limits) }) { continuation.resume(returning: $0) }
            submit(call, timeout: timeout ?? statementTimeout + .seconds(5))
        }
        return try result.get()
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

    /// Carries out a script of several statements in the simple protocol; its results are text.
    ///
    /// Without BEGIN it is one transaction; a transaction that it leaves open, or failed, is rolled back.
    ///
    /// - Throws: as `transaction` does; `outcome` speaks of the statement that failed and those of its transaction.
    @discardableResult
    package func simple(_ script: String, timeout: Duration) async throws(PostgresError) -> [PostgresResult] {
        try await run(.script(script), timeout)
    }

    /// Waits until there is a connection, through any number of failed attempts; sends nothing.
    ///
    /// - Throws: why there is none when `timeout` has passed; `closed`.
    package func connect(timeout: Duration) async throws(PostgresError) {
        let deadline = MonotonicTime.now().advanced(by: timeout)
        while true {
            do throws(PostgresError) {
                return try await attempt(timeout: deadline.since(.now()))
            } catch {
                if error.code == .closed || MonotonicTime.now() >= deadline { throw error }
            }
        }
    }

    /// Waits for the end of the attempt to connect that is under way, or that comes next.
    ///
    /// Returns at once while there is a connection. Sends nothing, and leaves an attempt that takes longer than `timeout` alone.
    ///
    /// - Throws: why the attempt failed, or that it did not end within `timeout`; `closed`.
    package func attempt(timeout: Duration) async throws(PostgresError) {
        let result = await withCheckedContinuation { continuation in
            add(AttemptWaiter { continuation.resume(returning: $0) }, timeout: timeout)
        }
        try result.get()
    }

    private func run(
        _ work: PostgresCall.Work, _ timeout: Duration
    ) async throws(PostgresError) -> [PostgresResult] {
        let result = await withCheckedContinuation { continuation in
            submit(PostgresCall(work) { continuation.resume(returning: $0) }, timeout: timeout)
        }
        return try result.get()
    }
}
