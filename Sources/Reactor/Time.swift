// Points in time that never jump: the only clocks that waits and deadlines of this process may use. They go on while the machine
// sleeps: a lease, a server's patience and a request's deadline do not wait for us to wake.

import CLinux

/// A point on `CLOCK_BOOTTIME`, in nanoseconds; goes on while the machine is suspended.
package struct MonotonicTime: Comparable, Hashable, Sendable {
    /// Nanoseconds since an arbitrary start.
    package var nanoseconds: UInt64

    /// A point that is never reached.
    package static let distantFuture = MonotonicTime(nanoseconds: .max)

    /// Makes a point from nanoseconds since the clock's start.
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// Reads the clock.
    package static func now() -> MonotonicTime { MonotonicTime(nanoseconds: readClock(CLOCK_BOOTTIME)) }

    /// Returns the point `duration` later; saturates at both ends.
    package func advanced(by duration: Duration) -> MonotonicTime {
        MonotonicTime(nanoseconds: saturating(nanoseconds, plus: duration))
    }

    /// Returns the time from `earlier` to this point; negative when `earlier` is later.
    package func since(_ earlier: MonotonicTime) -> Duration { difference(nanoseconds, earlier.nanoseconds) }

    package static func < (a: Self, b: Self) -> Bool { a.nanoseconds < b.nanoseconds }
}

/// Readings of clocks that are not for waiting.
package enum SystemClock {
    /// `CLOCK_BOOTTIME` in nanoseconds, the clock of `MonotonicTime`, for modules that do not know this one.
    package static var bootNanoseconds: UInt64 { readClock(CLOCK_BOOTTIME) }

    /// Seconds since 1970 by this machine's clock, which may jump.
    package static var unixSeconds: Int64 { unixMicroseconds / 1_000_000 }

    /// The same in microseconds.
    package static var unixMicroseconds: Int64 { Int64(readClock(CLOCK_REALTIME) / 1000) }
}

extension Duration {
    /// The whole duration in nanoseconds, saturated to what 64 bits hold (292 years).
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds < 0 ? .min : .max }
        let (sum, overflowed) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflowed ? (product < 0 ? .min : .max) : sum
    }

    /// The whole duration in milliseconds, rounded up, so that a wait is never shorter than asked for.
    package var millisecondsRoundedUp: Int64 {
        let nanoseconds = wholeNanoseconds
        return nanoseconds / 1_000_000 + (nanoseconds % 1_000_000 > 0 ? 1 : 0)
    }
}

private func readClock(_ clock: clockid_t) -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
}

private func saturating(_ nanoseconds: UInt64, plus duration: Duration) -> UInt64 {
    let delta = duration.wholeNanoseconds
    if delta >= 0 {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(UInt64(delta))
        return overflow ? .max : sum
    }
    let (rest, underflow) = nanoseconds.subtractingReportingOverflow(delta.magnitude)
    return underflow ? 0 : rest
}

private func difference(_ later: UInt64, _ earlier: UInt64) -> Duration {
    later >= earlier
        ? .nanoseconds(Int64(clamping: later - earlier)) : .zero - .nanoseconds(Int64(clamping: earlier - later))
}
