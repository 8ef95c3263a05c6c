// How the tests get onto a loop, and what they take with them.

import Reactor
import Telemetry
import Testing

@testable import Postgres

/// Runs `body` on a loop of its own; the calling task is suspended, not blocked.
func onLoop<T: Sendable>(_ body: @escaping @Sendable (isolated LoopActor) async throws -> T) async throws -> T {
    let loop = try EventLoop(name: "test")
    try loop.start()
    let actor = LoopActor(loop: loop)
    let result = await Task(executorPreference: loop.taskExecutor) { try await actor.run(body) }.result
    loop.stop()
    loop.join()
    return try result.get()
}

/// Runs `body` with a session on the shared server, or on another one.
func withSession<T: Sendable>(
    _ address: String? = nil, timeout: Duration = .seconds(60), logger: Logger = .silent, queueLimit: Int = 64,
    _ body: @escaping @Sendable (PostgresSession, isolated LoopActor) async throws -> T
) async throws -> T {
    let address = try address ?? sharedAddress()
    let configuration = try PostgresConfiguration(
        connectionString: address, applicationName: "tests", connectTimeout: timeout)
    return try await onLoop { actor in
        let session = PostgresSession(
            loop: actor.loop, configuration: configuration, logger: logger, queueLimit: queueLimit)
        defer { session.close() }
        return try await body(session, actor)
    }
}

/// The error that `body` ends with; fails the test when it does not.
func failure<T>(
    isolation: isolated (any Actor)? = #isolation, _ location: SourceLocation = #_sourceLocation,
    _ body: () async throws(PostgresError) -> T
) async -> PostgresError {
    do {
        _ = try await body()
        Issue.record("the call has succeeded", sourceLocation: location)
        return PostgresError(.closed, "no error")
    } catch {
        return error
    }
}

extension MonotonicTime {
    /// Milliseconds that have passed since this point.
    var elapsedMilliseconds: Int64 { MonotonicTime.now().since(self).millisecondsRoundedUp }
}

/// Waits on the loop; only where a test needs a span of time, never for something to happen.
func pause(_ duration: Duration, on loop: EventLoop) async { _ = await LoopSignal(loop: loop).wait(duration) }
