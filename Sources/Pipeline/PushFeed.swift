// From units to one pool: which push is handed to the wire next.
//
// Urgent units (single users, lists, retries) go before slices of broadcasts, so that a broadcast to millions delays
// nobody. The pool's own queue is short; what waits, waits here, where it can still be withdrawn.

import APNs
import HTTP2
import PushModel
import PushStore
import Reactor

/// The pool of one app in one environment and the units that wait for it; loop-confined.
final class PushFeed {
    let pool: HTTP2Pool
    private let token: ProviderToken
    /// Pushes that were answered, or written in vain: what a living connection does.
    var progress: UInt64 = 0
    private let loop: EventLoop
    private let requestTimeout: Duration
    private var unreachableSince: MonotonicTime?
    /// What is for this gateway is put off, since it has been out of reach for long, and its app's other gateway has not.
    var isAway = false
    /// How long it is put off.
    private static let awayDelay: ClosedRange<Int64> = 30...60
    private var urgent: [Item] = []
    private var bulk: [Item] = []

    private struct Item {
        let unit: UnitInWork
        let segment: Int
    }

    init(pool: HTTP2Pool, token: ProviderToken, loop: EventLoop, requestTimeout: Duration) {
        self.pool = pool
        self.token = token
        self.loop = loop
        self.requestTimeout = requestTimeout
    }

    /// Puts a segment of a unit in line.
    func add(_ unit: UnitInWork, segment: Int) {
        let item = Item(unit: unit, segment: segment)
        if unit.isUrgent { urgent.append(item) } else { bulk.append(item) }
    }

    /// Whether the gateway has been out of reach for at least `limit`; asking makes the pool try again when it may.
    func isUnreachable(for limit: Duration) -> Bool {
        let snapshot = pool.snapshot
        guard snapshot.open == 0, snapshot.draining == 0, snapshot.lastConnectFault != nil else {
            unreachableSince = nil
            isAway = false
            return false
        }
        let since = unreachableSince ?? loop.now
        unreachableSince = since
        pool.warmUp()
        return loop.now.since(since) >= limit
    }

    /// Whether anything has come of this gateway since the start.
    var isProven: Bool { progress > 0 || pool.snapshot.open > 0 }

    /// Does to a connection what an answer that came over it calls for.
    func carryOut(_ fate: ConnectionFate, on connection: UInt32) {
        switch fate {
        case .keep: return
        case .drain, .replace: break
        case .retoken: _ = token.renewAfterExpired()
        case .freezeToken: token.freeze()
        }
        pool.retire(connection: connection)
    }

    /// Hands pushes to the pool until it is full or nothing waits; `ended` hears of each unit that left the line.
    func pump(_ now: BootTime, pauses: Set<ScopePause>, ended: (UnitInWork) -> Void) {
        if isAway { _ = isUnreachable(for: .zero) }
        pump(&urgent, now, pauses, ended)
        pump(&bulk, now, pauses, ended)
    }

    private func pump(
        _ line: inout [Item], _ now: BootTime, _ pauses: Set<ScopePause>, _ ended: (UnitInWork) -> Void
    ) {
        var finished = 0
        while finished < line.count {
            let item = line[finished]
            guard send(item, now, pauses) else { break }
            finished += 1
            ended(item.unit)
        }
        if finished > 0 { line.removeFirst(finished) }
    }

    /// Hands over as much of one segment as the pool takes; true when nothing of it waits any more.
    private func send(_ item: Item, _ now: BootTime, _ pauses: Set<ScopePause>) -> Bool {
        let unit = item.unit
        if unit.stopReason == nil && !unit.lease.maySend(at: now) { unit.stop(.leaseEnded) }
        if unit.stopReason == nil && unit.isPastEnd { unit.stop(.expired) }
        guard unit.stopReason == nil else { return true }
        if !pauses.isEmpty, !unit.isProbe, unit.isHeld(item.segment, byAnyOf: pauses) {
            unit.park(item.segment)
            return true
        }
        if isAway {
            unit.putOff(item.segment, for: .seconds(Int64.random(in: Self.awayDelay)))
            return true
        }
        return submit(unit, item.segment)
    }

    private func submit(_ unit: UnitInWork, _ segment: Int) -> Bool {
        let deadline = loop.now.advanced(by: requestTimeout)
        while let (index, isAgain) = unit.segments[segment].takeNext() {
            let request = unsafe HTTP2Request(
                path: unit.path(index), id: UnsafeRawBufferPointer(unit.pushID(index)),
                tag: UInt64(unit.slot) << 32 | UInt64(index), deadline: deadline)
            // What goes again goes first: a fault of all shows at the second try of one device, not after a try of each. A pool
            // that says no tells the stage when it has space again.
            guard pool.submit(request, head: unit.head, first: isAgain) else {
                unit.segments[segment].again.append(index)
                return false
            }
            unit.handedToWire()
        }
        return true
    }
}
