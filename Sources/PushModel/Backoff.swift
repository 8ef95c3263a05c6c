// Waits between tries of something that has no limit to its tries, such as a probe: full jitter between `floor` and a bound that
// doubles up to `cap`.

/// The state of one series of tries.
package struct Backoff: Sendable, Equatable {
    package let floor: Duration
    package let base: Duration
    package let cap: Duration
    /// Failures since the last success.
    package private(set) var failures = 0

    package init(floor: Duration = .milliseconds(100), base: Duration, cap: Duration) {
        self.floor = floor
        self.base = max(base, floor)
        self.cap = max(cap, floor)
    }

    /// Counts a failure and says how long to wait.
    package mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        let bound = min(base * (1 << min(failures, 20)), cap)
        failures += 1
        return Duration.random(in: floor...max(bound, floor), using: &random)
    }

    /// It worked.
    package mutating func reset() { failures = 0 }
}
