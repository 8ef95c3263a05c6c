// What a process must know of its way to the database before it takes over leases of others. After an outage every lease looks lost,
// and whoever holds it is about to come back: so a rescuer counts from the first answer after the last failure. The age of a
// connection says less: behind a pooler it outlives any outage of the server. Silence says nothing either: who has not asked for
// long cannot know what happened meanwhile, be it that it was idle, frozen, or on a machine that slept.

/// Since when the database has answered a process without a break.
package struct DatabaseContact: Sendable, Equatable {
    private var since: BootTime?
    private var last: BootTime?

    /// Nothing is known yet.
    package init() {}

    /// A call was answered, by a result or a refusal.
    package mutating func answered(at now: BootTime, rules: LeaseRules) {
        if !isUnbroken(at: now, rules) { since = now }
        last = max(last ?? now, now)
    }

    /// A connection broke, or a call found no answer.
    package mutating func lost() { since = nil }

    /// How long it has answered without a break; nil when it does not, or nobody has asked for too long.
    package func unbroken(at now: BootTime, rules: LeaseRules) -> Duration? {
        guard let since, isUnbroken(at: now, rules) else { return nil }
        return now.since(since)
    }

    private func isUnbroken(at now: BootTime, _ rules: LeaseRules) -> Bool {
        guard since != nil, let last else { return false }
        return now.since(last) <= rules.longestSilence
    }
}
