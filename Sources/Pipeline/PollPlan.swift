// How long the supervisor sleeps: pure arithmetic.

/// Pauses between two looks at the queue.
enum PollPlan {
    /// Never less than this: rows that are due but that nobody may take must not make a worker spin.
    static let least: Duration = .seconds(1)

    /// The pause before the next look, when the next row is due after `untilDue`.
    static func pause(
        untilDue: Duration, interval: Duration, using random: inout some RandomNumberGenerator
    ) -> Duration {
        if untilDue <= .zero { return min(least, interval) }
        // Replicas look at slightly different times, so that they do not all wake at the same instant.
        return min(interval, untilDue) + .milliseconds(Int64.random(in: 0...200, using: &random))
    }

    /// The pause before the next look for lost units, when the first lease can be taken over after `untilLost`.
    ///
    /// A lease that has ended is not taken at once by a worker whose connection is young, so it is looked at now and then.
    static func pause(untilLost: Duration) -> Duration { max(untilLost + .milliseconds(100), .seconds(5)) }

    /// The pause between two sweeps: a minute, give or take.
    static func maintenancePause(using random: inout some RandomNumberGenerator) -> Duration {
        .milliseconds(Int64.random(in: 50_000...70_000, using: &random))
    }
}
