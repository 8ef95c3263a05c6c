// Whether the loops turn. Each loop raises a number of its own by a timer; somebody outside looks every second whether it has been
// raised. Time is counted in those looks, not by a clock: a process that was stopped as a whole, or a machine that slept, has missed
// beats and looks alike, and nothing is wrong with it.

package import Reactor
import Synchronization
import Telemetry

/// How long one loop has stood still, in looks; pure.
struct LoopWatch: Sendable, Equatable {
    private var last: UInt64 = 0
    private(set) var still = 0

    /// A look at its number.
    mutating func look(_ beats: UInt64) {
        still = beats == last ? still + 1 : 0
        last = beats
    }
}

/// The loops of a process; any thread.
package final class LoopBeats: Sendable {
    private final class Beat: Sendable {
        let count = Atomic<UInt64>(0)
    }

    private struct Watched: Sendable {
        let name: String
        let beat: Beat
        var watch = LoopWatch()
    }

    /// A loop counts as stalled when so many looks have found it at the same number.
    private static let limit = 20

    private let interval: Duration
    private let loops = Lock<[Watched]>([])

    /// Looks come less often than beats: each second.
    package init(interval: Duration = .milliseconds(500)) { self.interval = interval }

    /// Watches a loop that is running.
    package func watch(_ loop: EventLoop) {
        let beat = Beat()
        loops.withLock { $0.append(Watched(name: loop.name, beat: beat)) }
        loop.execute { [weak loop, interval] in Self.raise(beat, on: loop, every: interval) }
    }

    /// Forgets all loops: they are about to end.
    package func forget() { loops.withLock { $0 = [] } }

    /// A look, to be taken once a second.
    package func look() {
        loops.withLock { loops in
            for place in loops.indices {
                loops[place].watch.look(loops[place].beat.count.load(ordering: .relaxed))
            }
        }
    }

    /// The loops that have stood still for too long.
    package var stalled: [String] { still.filter { $0.looks >= Self.limit }.map(\.name) }

    /// For how many looks each has stood still.
    var still: [(name: String, looks: Int)] { loops.withLock { $0.map { ($0.name, $0.watch.still) } } }

    private static func raise(_ beat: Beat, on loop: EventLoop?, every interval: Duration) {
        beat.count.add(1, ordering: .relaxed)
        loop?.schedule(after: interval) { [weak loop] in raise(beat, on: loop, every: interval) }
    }
}
