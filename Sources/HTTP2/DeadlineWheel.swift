// The deadlines of all requests of a pool behind one timer. A hashed wheel: a deadline falls into the bucket of its tick,
// modulo the size; a visit of a bucket ends those that are due and leaves those of a later turn. Putting in and taking out
// touch a few integers, whatever the order of the deadlines. Time comes in from outside.
//
// A class over raw memory, not a struct of arrays: each push goes in and out once, and Swift's checks of exclusive access
// to arrays inside a class took 5 % of a push.

import Reactor

/// A set of (index, deadline), ordered coarsely by deadline; loop-confined.
@safe final class DeadlineWheel {
    /// Deadlines are met at most two of these late.
    static let tick: UInt64 = 20_000_000
    private static let size = 2048
    private static let none: Int32 = -1

    private struct Link {
        var deadline: UInt64 = 0
        var bucket: Int32 = DeadlineWheel.none
        var previous: Int32 = DeadlineWheel.none
        var next: Int32 = DeadlineWheel.none
    }

    private let heads: UnsafeMutablePointer<Int32>
    private var links: UnsafeMutablePointer<Link>
    private var capacity: Int
    private var visited: UInt64
    private(set) var count = 0

    /// An empty wheel that starts at `now`.
    init(now: MonotonicTime, capacity: Int = 64) {
        visited = now.nanoseconds / DeadlineWheel.tick
        unsafe heads = .allocate(capacity: DeadlineWheel.size)
        unsafe heads.initialize(repeating: DeadlineWheel.none, count: DeadlineWheel.size)
        self.capacity = max(1, capacity)
        unsafe links = .allocate(capacity: self.capacity)
        unsafe links.initialize(repeating: Link(), count: self.capacity)
    }

    deinit {
        unsafe heads.deallocate()
        unsafe links.deallocate()
    }

    /// The tick at which a deadline has certainly passed.
    private func tick(of deadline: UInt64) -> UInt64 {
        let tick = deadline / DeadlineWheel.tick + 1
        return max(tick, visited + 1)
    }

    /// Adds an index (0 or more) that is not in the wheel.
    func insert(_ index: Int32, deadline: MonotonicTime) {
        let index = Int(index)
        while index >= capacity { grow() }
        let bucket = Int(truncatingIfNeeded: tick(of: deadline.nanoseconds) % UInt64(DeadlineWheel.size))
        let first = unsafe heads[bucket]
        unsafe links[index] = Link(
            deadline: deadline.nanoseconds, bucket: Int32(truncatingIfNeeded: bucket), previous: DeadlineWheel.none,
            next: first)
        if first != DeadlineWheel.none { unsafe links[Int(first)].previous = Int32(truncatingIfNeeded: index) }
        unsafe heads[bucket] = Int32(truncatingIfNeeded: index)
        count += 1
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Link>.allocate(capacity: capacity * 2)
        unsafe larger.initialize(repeating: Link(), count: capacity * 2)
        unsafe larger.update(from: links, count: capacity)
        unsafe links.deallocate()
        unsafe links = unsafe larger
        capacity *= 2
    }

    /// Takes an index out; does nothing when it is not in the wheel.
    func remove(_ index: Int32) {
        let index = Int(index)
        guard index >= 0, index < capacity else { return }
        let link = unsafe links[index]
        guard link.bucket != DeadlineWheel.none else { return }
        if link.previous == DeadlineWheel.none {
            unsafe heads[Int(link.bucket)] = link.next
        } else {
            unsafe links[Int(link.previous)].next = link.next
        }
        if link.next != DeadlineWheel.none { unsafe links[Int(link.next)].previous = link.previous }
        unsafe links[index].bucket = DeadlineWheel.none
        count -= 1
    }

    /// Takes out all whose deadline has passed.
    func expire(now: MonotonicTime) -> [Int32] {
        let current = now.nanoseconds / DeadlineWheel.tick
        guard current > visited else { return [] }
        var due: [Int32] = []
        // After a whole turn every bucket has been seen.
        let steps = min(current - visited, UInt64(DeadlineWheel.size))
        for step in (current - steps + 1)...current {
            var index = unsafe heads[Int(step % UInt64(DeadlineWheel.size))]
            while index != DeadlineWheel.none {
                let link = unsafe links[Int(index)]
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
        where unsafe heads[Int((visited + step) % UInt64(DeadlineWheel.size))] != DeadlineWheel.none {
            return MonotonicTime(nanoseconds: (visited + step) * DeadlineWheel.tick)
        }
        return nil
    }
}
