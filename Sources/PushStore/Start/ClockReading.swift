// How far the database's clock is from this machine's. Provider tokens and expirations are dated by the database, so that a machine
// whose clock is wrong sends as well as any other.

import Glibc
import Postgres
import Reactor

/// The two clocks, compared.
struct ClockReading: Sendable, Equatable {
    /// How far the database's clock is ahead; wrong by half of `roundTrip` at most.
    let offset: Duration
    /// How long the question and its answer took.
    let roundTrip: Duration

    /// Asks a few times; the quickest answer tells most.
    ///
    /// `timeout` bounds each question, waiting for a connection included.
    static func take(
        _ session: PostgresSession, questions: Int, timeout: Duration? = nil
    ) async throws(PostgresError) -> ClockReading {
        var best = try await one(session, timeout)
        for _ in 1..<max(1, questions) {
            let next = try await one(session, timeout)
            if next.roundTrip < best.roundTrip { best = next }
        }
        return best
    }

    private static func one(
        _ session: PostgresSession, _ timeout: Duration?
    ) async throws(PostgresError) -> ClockReading {
        let (wall, start) = (wallClock(), MonotonicTime.now())
        let result = try await session.query(PostgresStatement("SELECT clock_timestamp()"), timeout: timeout)
        let roundTrip = MonotonicTime.now().since(start)
        return ClockReading(
            offset: .microseconds(try result.timestamp(0, 0)) - wall - roundTrip / 2, roundTrip: roundTrip)
    }

    /// This machine's idea of the time since 1970.
    private static func wallClock() -> Duration {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
