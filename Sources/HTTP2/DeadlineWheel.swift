// The deadlines of all requests of a pool behind one timer. A hashed wheel: a deadline falls into the bucket of its tick,
// modulo the size; a visit of a bucket ends those that are due and leaves those of a later turn. Putting in and taking out
// touch a few integers, whatever the order of the deadlines. Pure: time comes in from outside.

import Reactor

/// A set of (index, deadline), ordered coarsely by deadline.
struct DeadlineWheel {
    /// Deadlines are met at most this much late.
    static let tick: UInt64 = 20_000_000
    private static let size = 2048
    private static let none: Int32 = -1

    private struct Link {
        var deadline: UInt64 = 0
        var bucket: Int32 = DeadlineWheel.none
        var previous: Int32 = DeadlineWheel.none
        var next: Int32 = DeadlineWheel.none
    }

    private var heads = [Int32](repeating: none, count: size)
    private var links: [Link] = []
    private var visited: UInt64
    private(set) var count = 0

    /// An empty wheel that starts at `now`.
    init(now: MonotonicTime) { visited = now.nanoseconds / DeadlineWheel.tick }

    /// The tick at which a deadline has certainly passed.
    private func tick(of deadline: UInt64) -> UInt64 {
        let tick = deadline / DeadlineWheel.tick + 1
        return max(tick, visited + 1)
    }

    /// Adds an index that is not in the wheel.
    mutating func insert(_ index: Int32, deadline: MonotonicTime) {
        while links.count <= Int(index) { links.append(Link()) }
        let bucket = Int32(truncatingIfNeeded: tick(of: deadline.nanoseconds) % UInt64(DeadlineWheel.size))
        let first = heads[Int(bucket)]
        links[Int(index)] = Link(
            deadline: deadline.nanoseconds, bucket: bucket, previous: DeadlineWheel.none, next: first)
        if first != DeadlineWheel.none { links[Int(first)].previous = index }
        heads[Int(bucket)] = index
        count += 1
    }

    /// Takes an index out; does nothing when it is not in the wheel.
    mutating func remove(_ index: Int32) {
        guard Int(index) < links.count else { return }
        let link = links[Int(index)]
        guard link.bucket != DeadlineWheel.none else { return }
        if link.previous == DeadlineWheel.none {
            heads[Int(link.bucket)] = link.next
        } else {
            links[Int(link.previous)].next = link.next
        }
        if link.next != DeadlineWheel.none { links[Int(link.next)].previous = link.previous }
        links[Int(index)].bucket = DeadlineWheel.none
        count -= 1
    }

    /// Takes out all whose deadline has passed.
    mutating func expire(now: MonotonicTime) -> [Int32] {
        let current = now.nanoseconds / DeadlineWheel.tick
        guard current > visited else { return [] }
        var due: [Int32] = []
        // After a whole turn every bucket has been seen.
        let steps = min(current - visited, UInt64(DeadlineWheel.size))
        for step in (current - steps + 1)...current {
            var index = heads[Int(step % UInt64(DeadlineWheel.size))]
            while index != DeadlineWheel.none {
                let link = links[Int(index)]
                if link.deadline <= now.nanoseconds {
                    remove(index)
                    due.append(index)
                }
                index = link.next
            }
        }
        visited = current
        return due
    }

    /// When `expire` may next find something, perhaps too early, never too late; nil when the wheel is empty.
    var nextVisit: MonotonicTime? {
        guard count > 0 else { return nil }
        for step in 1...UInt64(DeadlineWheel.size)
        where heads[Int((visited + step) % UInt64(DeadlineWheel.size))] != DeadlineWheel.none {
            return MonotonicTime(nanoseconds: (visited + step) * DeadlineWheel.tick)
        }
        return nil
    }
}
