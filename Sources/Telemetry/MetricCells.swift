// The places where numbers are kept. Each holder (a loop, as a rule) has cells of its own, so that counting never touches a cache
// line of another core; the cells of one series are put together when somebody asks. All operations are relaxed atomics.

import Synchronization

/// A number that only grows.
package final class Counter: Sendable {
    private let cell = Atomic<UInt64>(0)

    init() {}

    package func increment(by amount: Int = 1) {
        // A counter cannot fall; a negative amount is a mistake that must not wrap it around.
        guard amount > 0 else { return }
        cell.wrappingAdd(UInt64(amount), ordering: .relaxed)
    }

    package var value: UInt64 { cell.load(ordering: .relaxed) }
}

/// A number that goes up and down.
package final class Gauge: Sendable {
    private let cell: Atomic<UInt64>

    init() { cell = Atomic(Double(0).bitPattern) }

    package func set(_ value: Double) { cell.store(value.bitPattern, ordering: .relaxed) }

    package func set(_ value: Int) { set(Double(value)) }

    package func add(_ amount: Double) { cell.addDouble(amount) }

    package var value: Double { Double(bitPattern: cell.load(ordering: .relaxed)) }
}

/// Observations sorted into buckets.
package final class Histogram: Sendable {
    private let bounds: [Double]
    /// One more than bounds: the last is for what lies above all of them.
    private let buckets: [Counter]
    private let sum = Atomic<UInt64>(Double(0).bitPattern)

    init(bounds: [Double]) {
        self.bounds = bounds
        buckets = (0...bounds.count).map { _ in Counter() }
    }

    /// Records one observation; a value that is not a number is left out.
    package func observe(_ value: Double) {
        guard !value.isNaN else { return }
        var index = 0
        while index < bounds.count, value > bounds[index] { index += 1 }
        buckets[index].increment()
        sum.addDouble(value)
    }

    /// Records a time in seconds.
    package func observe(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        observe(Double(seconds) + Double(attoseconds) * 1e-18)
    }

    /// Counts of each bucket (not cumulative) and the sum of all observations.
    package var snapshot: (counts: [UInt64], sum: Double) {
        (buckets.map(\.value), Double(bitPattern: sum.load(ordering: .relaxed)))
    }
}

extension Atomic<UInt64> {
    /// Adds to the double whose bits are kept here.
    fileprivate borrowing func addDouble(_ amount: Double) {
        var current = load(ordering: .relaxed)
        while true {
            let next = (Double(bitPattern: current) + amount).bitPattern
            let (exchanged, original) = weakCompareExchange(expected: current, desired: next, ordering: .relaxed)
            if exchanged { return }
            current = original
        }
    }
}
