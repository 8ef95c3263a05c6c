// How long to wait before connecting again. Full jitter between 0.2 s and a ceiling that doubles up to 10 s, so that many
// replicas do not storm a server that has just come back; what a person must repair is tried at the slow end from the start.
// Only a call that was answered proves a connection good: a server that lets in and hangs up must not be called in a loop.

/// Delays between attempts to connect; pure.
struct ReconnectPolicy: Sendable {
    static let floor = 0.2
    static let ceiling = 10.0

    /// Attempts since the last proof of a good connection.
    private(set) var failures = 0

    /// A call was answered: the next loss is the first again.
    mutating func proveGood() { failures = 0 }

    /// The wait after an attempt that failed or a connection that was lost; `random` lies between 0 and 1.
    ///
    /// The first after a good connection is short, since most losses are a restart of one server among several.
    mutating func nextDelay(needsPerson: Bool = false, random: Double) -> Duration {
        defer { failures = min(failures + 1, 16) }
        let share = min(max(random, 0), 1)
        if needsPerson { return seconds(ReconnectPolicy.ceiling * (0.5 + share / 2)) }
        if failures == 0 { return seconds(ReconnectPolicy.floor * share) }
        var limit = ReconnectPolicy.floor
        for _ in 0..<failures where limit < ReconnectPolicy.ceiling { limit *= 2 }
        let span = min(limit, ReconnectPolicy.ceiling) - ReconnectPolicy.floor
        return seconds(ReconnectPolicy.floor + span * share)
    }

    private func seconds(_ value: Double) -> Duration { .microseconds(Int64(value * 1_000_000)) }
}
