// What a lane shows of itself: written down about once a second on its own loop, read by whoever asks. So nobody who asks ever waits
// for a lane, and a lane that stands still can be asked about.

import Reactor
import Telemetry

/// A lane at one moment.
struct LaneFigures: Sendable {
    var counts = LaneCounts()
    /// Units under a lease.
    var leases = 0
    /// Devices that the lane answers for.
    var devices = 0
    /// Whether the database refuses its results.
    var isWriteHeldUp = false
    var gateways: [GatewayName: GatewayFigures] = [:]
    /// Whether nothing is sent to a gateway at present.
    var blocked: [FeedKey: Bool] = [:]
}

/// The place where a lane writes them down; any thread.
final class LaneBoard: Sendable {
    private let figures = Lock(LaneFigures())

    func write(_ new: LaneFigures) { figures.withLock { $0 = new } }

    var read: LaneFigures { figures.withLock { $0 } }
}

extension Lane {
    /// How often it writes them down.
    private static let publishInterval: Duration = .seconds(1)

    /// Writes down how things are, now and every second from now on, if anybody wants to know.
    func publish() {
        guard let board else { return }
        board.write(figures)
        guard phase != .ended else { return }
        loop.schedule(after: Self.publishInterval) { [self] in assumeIsolated { $0.publish() } }
    }

    private var figures: LaneFigures {
        var figures = LaneFigures()
        figures.counts = counters.counts
        figures.leases = held.count
        figures.devices = outstanding
        figures.isWriteHeldUp = isWriteHeldUp
        figures.gateways = gateways.figures
        figures.blocked = stage.feeds.mapValues { $0.isBlocked(for: .zero) }
        return figures
    }
}
