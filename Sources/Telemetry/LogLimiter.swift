// Keeps a fault that repeats thousands of times a second from filling the log: a few at once, then one per interval with the
// number of those left out.

/// Decides whether a repeated message is written; one for each place and owner, not shared between threads.
package struct LogLimiter<Key: Hashable & Sendable>: Sendable {
    private struct Entry: Sendable {
        var windowStart: UInt64
        var written: Int
        var suppressed: UInt64
    }

    private let interval: UInt64
    private let burst: Int
    private let keyLimit: Int
    private var entries: [Key: Entry] = [:]

    /// Allows `burst` records of one key in each interval; at most `keyLimit` keys are told apart, the rest are all limited together.
    package init(interval: Duration = .seconds(10), burst: Int = 1, keyLimit: Int = 256) {
        self.interval = interval.wholeNanoseconds
        self.burst = burst
        self.keyLimit = keyLimit
    }

    /// The number of records left out since the last one of this key when this one may be written, nil when it may not.
    ///
    /// `nanoseconds` is what a monotonic clock says.
    package mutating func admit(_ key: Key, at nanoseconds: UInt64) -> UInt64? {
        guard var entry = entries[key] else { return admitNew(key, at: nanoseconds) }
        if nanoseconds >= entry.windowStart &+ interval {
            let suppressed = entry.suppressed
            entries[key] = Entry(windowStart: nanoseconds, written: 1, suppressed: 0)
            return suppressed
        }
        if entry.written < burst {
            entry.written += 1
            entries[key] = entry
            return 0
        }
        entry.suppressed += 1
        entries[key] = entry
        return nil
    }

    private mutating func admitNew(_ key: Key, at nanoseconds: UInt64) -> UInt64? {
        if entries.count >= keyLimit {
            entries = entries.filter { nanoseconds < $0.value.windowStart &+ interval }
            guard entries.count < keyLimit else { return nil }
        }
        entries[key] = Entry(windowStart: nanoseconds, written: 1, suppressed: 0)
        return 0
    }
}

extension Duration {
    /// Nanoseconds, 0 when negative, bounded at 100 years.
    var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        return UInt64(min(seconds, 3_155_760_000)) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
    }
}
