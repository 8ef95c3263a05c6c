// Timers of a loop: a binary heap ordered by due time; each timer knows its place, so that cancelling one is
// cheap and leaves nothing behind.

/// One planned call; made by `EventLoop.schedule`, good for `EventLoop.cancel`.
package final class LoopTimer {
    fileprivate(set) var due: MonotonicTime
    fileprivate var action: (() -> Void)?
    fileprivate var place = -1

    init(due: MonotonicTime, action: @escaping () -> Void) {
        self.due = due
        self.action = action
    }
}

/// A binary heap of timers, the earliest at the root.
struct TimerHeap {
    private var timers: [LoopTimer] = []

    /// When the earliest timer is due.
    var earliest: MonotonicTime? { timers.first?.due }

    mutating func insert(_ timer: LoopTimer) {
        timer.place = timers.count
        timers.append(timer)
        siftUp(timer.place)
    }

    /// Takes the timer out; does nothing when it has fired or was cancelled before.
    mutating func remove(_ timer: LoopTimer) {
        let place = timer.place
        timer.action = nil
        guard place >= 0, place < timers.count, timers[place] === timer else { return }
        timer.place = -1
        let last = timers.removeLast()
        guard last !== timer else { return }
        timers[place] = last
        last.place = place
        siftUp(place)
        siftDown(last.place)
    }

    /// Takes out the earliest timer if it is due at `now`, and returns its action.
    mutating func popDue(_ now: MonotonicTime) -> (() -> Void)? {
        guard let first = timers.first, first.due <= now else { return nil }
        let action = first.action
        remove(first)
        return action
    }

    private mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            guard timers[child].due < timers[parent].due else { return }
            swap(child, parent)
            child = parent
        }
    }

    private mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in (2 * parent + 1)...(2 * parent + 2)
            where child < timers.count && timers[child].due < timers[least].due { least = child }
            if least == parent { return }
            swap(parent, least)
            parent = least
        }
    }

    private mutating func swap(_ a: Int, _ b: Int) {
        timers.swapAt(a, b)
        timers[a].place = a
        timers[b].place = b
    }
}
