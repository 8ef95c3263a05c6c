// When a process judges the windows over tokens that look dead. One that has just proposed some looks every ten seconds until
// their window must have closed; the others look once a minute, for the sake of those that have ended meanwhile.

import Reactor

/// Decides when to judge; pure.
struct JudgePlan {
    /// How long the process sleeps between two questions to this plan.
    static let step = Duration.seconds(10)
    private static let interval = Duration.seconds(60)
    /// A window is open for half a minute.
    private static let watch = Duration.seconds(60)

    private var proposals: UInt64 = 0
    private var watchUntil: MonotonicTime?
    private var judgedAt: MonotonicTime?
    /// Whether something has been proposed since the last judgement.
    private(set) var isOwing = false

    /// Learns how many tokens the process has proposed since its start.
    mutating func saw(proposals count: UInt64, at now: MonotonicTime) {
        guard count > proposals else { return }
        proposals = count
        watchUntil = now.advanced(by: Self.watch)
        isOwing = true
    }

    /// Whether it is time.
    func isDue(at now: MonotonicTime) -> Bool {
        guard let judgedAt else { return true }
        if let watchUntil, now < watchUntil { return true }
        return now.since(judgedAt) >= Self.interval
    }

    /// A judgement was asked for.
    mutating func judged(at now: MonotonicTime) {
        judgedAt = now
        isOwing = false
    }
}
