// The database's clock, as far as this process knows it: provider tokens and expirations are dated by it, so that a
// machine whose clock is wrong sends as well as any other.

import CLinux
import Reactor
import Telemetry

/// The difference between the database's clock and this machine's; process-wide.
enum DatabaseClock {
    private static let offset = Lock(Duration.zero)

    /// Learns the difference; returns by how much the database is ahead.
    static func learn(databaseMicroseconds time: Int64) -> Duration {
        let ahead = Duration.microseconds(time) - .microseconds(SystemClock.unixMicroseconds)
        set(ahead)
        return ahead
    }

    /// Takes the difference as somebody else has found it.
    static func set(_ ahead: Duration) { offset.withLock { $0 = ahead } }

    /// Seconds since 1970 by the database's clock.
    static var unixSeconds: Int64 { unixMicroseconds / 1_000_000 }

    /// The same in microseconds.
    static var unixMicroseconds: Int64 {
        SystemClock.unixMicroseconds + offset.withLock { $0 }.wholeNanoseconds / 1000
    }
}
