// A unit on the wire: its devices laid out so that a push costs no allocation, and what became of each.

import APNs
import HTTP2
import PushModel
import PushStore
import Reactor

/// The part of a unit that goes to one environment, in the order of sending.
struct UnitSegment {
    let environment: PushEnvironment
    /// What carries it; owned by the send stage, which outlives its units.
    unowned(safe) var feed: PushFeed?
    /// Indices of the unit's devices.
    let range: Range<Int>
    /// The first device that has not been handed to the wire yet.
    var next: Int
    /// The first device that no checkpoint has counted.
    var unsettled: Int
    /// Devices that were certainly not processed and go again.
    var again: [Int] = []
    /// Devices that are never sent to.
    var leftOut: Set<Int> = []
    /// How many devices got an answer that every other of this environment would get.
    var hopeless = 0

    init(environment: PushEnvironment, range: Range<Int>) {
        self.environment = environment
        self.range = range
        next = range.lowerBound
        unsettled = range.lowerBound
    }

    /// Takes the next device to hand to the wire, and whether it has been there before.
    mutating func takeNext() -> (index: Int, isAgain: Bool)? {
        if let index = again.popLast() { return (index, true) }
        while !leftOut.isEmpty, leftOut.contains(next) { next += 1 }
        guard next < range.upperBound else { return nil }
        defer { next += 1 }
        return (next, false)
    }

    /// Whether a device waits to be handed to the wire.
    var hasWaiting: Bool { !again.isEmpty || (next..<range.upperBound).contains { !leftOut.contains($0) } }

    /// Takes all that waits, in order.
    mutating func takeWaiting() -> [Int] {
        let waiting = again.sorted() + (next..<range.upperBound).filter { !leftOut.contains($0) }
        again = []
        next = range.upperBound
        return waiting
    }
}

/// What has become of one device of a unit.
enum DeviceMark: UInt8 {
    /// Waits, or is on the wire.
    case open
    /// Apple accepted it.
    case accepted
    /// Apple refused it for good.
    case rejected
    /// Given up without such an answer: not sent, or put off by Apple as often as allowed.
    case refused
    /// Nobody can say.
    case unknown
    /// It goes on in another batch.
    case moved
}

/// One leased unit from the claim to the settle; loop-confined.
///
/// Paths and push ids stand in two blocks of memory that live as long as this object, and HTTP/2 requests point
/// into them: so the object must outlive its last request, which the send stage's table takes care of.
@safe final class UnitInWork {
    let work: WorkUnit
    /// The topic that its pushes name.
    let topic: String
    /// Sent although its scope is paused, to find out whether it can be sent to again.
    private(set) var isProbe: Bool
    /// Unix seconds after which it is too late to try again, by the app's greatest lateness.
    var lateAt: Int64?
    /// When it was claimed: earlier than any of its pushes was sent.
    let claimed: MonotonicTime
    /// Until when requests may be started.
    var lease: LeaseClock
    /// What its feeds had done when its lease was last renewed.
    var progressAtRenewal: UInt64?
    /// Its place in the send stage's table.
    var slot = 0
    /// What the next settle will write, but for the evidence.
    var settlement: UnitSettlement
    /// When it is written back in the middle, if it has not ended by then.
    var checkpointAt = MonotonicTime.distantFuture
    /// Whether a checkpoint has written an acceptance.
    var hasSettledAcceptance = false

    /// How many of its devices wait for a pause to end by now.
    var parked = 0

    let head: HTTP2RequestHead
    var segments: [UnitSegment]
    /// How often a device went again because an answer asked for it.
    private var resends: [Int: Int] = [:]
    /// Why nothing more of it is handed to the wire.
    private(set) var stopReason: StopReason?
    private(set) var inFlight = 0
    private var undecided: Int
    /// One byte for each device.
    private(set) var marks: [DeviceMark]

    private let ids: [Int64]
    private let paths: PathBlock
    private let pushIDs: UnsafeMutableRawPointer

    /// Lays out the devices; `head` is what all its requests have in common.
    init(
        work: WorkUnit, devices: [UnitDevices], claimed: MonotonicTime, lease: LeaseClock, isProbe: Bool,
        topic: String, pathPrefix: String, head: HTTP2RequestHead
    ) {
        self.work = work
        self.topic = topic
        self.head = head
        self.isProbe = isProbe
        self.claimed = claimed
        self.lease = lease
        ids = devices.flatMap(\.ids)
        undecided = ids.count
        marks = Array(repeating: .open, count: ids.count)
        settlement = UnitSettlement(key: work.key)
        paths = PathBlock(devices: devices, prefix: pathPrefix)
        unsafe pushIDs = .allocate(byteCount: max(1, ids.count * APNsID.length), alignment: 1)
        var start = 0
        segments = devices.map { part in
            defer { start += part.ids.count }
            return UnitSegment(environment: part.environment, range: start..<(start + part.ids.count))
        }
        let named = ids.indices.allSatisfy { index in
            unsafe APNsID.write(notification: work.key.notification, device: ids[index], into: pushID(index))
        }
        if !named { refuse(reason: "an id beyond 60 bits does not fit into an apns-id") }
        for index in paths.faulty where marks[index] == .open {
            segments[segment(of: index)].leftOut.insert(index)
            undecided -= 1
            marks[index] = .refused
            bookRefused(index, reason: "the stored device token is not hex")
        }
    }

    deinit { unsafe pushIDs.deallocate() }

    /// How many devices the unit has.
    var count: Int { ids.count }

    /// Whether nothing will change any more: every fate is decided, or sending has stopped and the wire is empty.
    var isEnded: Bool { undecided == 0 || (stopReason != nil && inFlight == 0) }

    /// Whether not a single push has reached the gateway: those that were handed over came back unsent.
    var isUntouched: Bool { undecided == count && inFlight == 0 }

    /// How long its pushes may still be tried again; nil: without end.
    var remaining: Duration? {
        [work.content.expiresAt, lateAt].compactMap(\.self).min().map { .seconds($0 - DatabaseClock.unixSeconds) }
    }

    /// Whether its time is over.
    var isPastEnd: Bool { work.content.expiresAt.map { $0 < DatabaseClock.unixSeconds } ?? false }

    /// Whether what has not been sent of it goes back to the queue; there it is given up if nobody wants it any more.
    var mustGoBack: Bool { stopReason != nil }

    /// Whether Apple is known to have accepted it for any of its devices.
    var hasAcceptance: Bool { settlement.accepted > 0 || hasSettledAcceptance }

    /// Single users, lists and retries go before slices of broadcasts.
    var isUrgent: Bool { work.key.batch == 0 || work.attempt > 1 }

    // MARK: Devices

    func device(_ index: Int) -> Int64 { ids[index] }

    func path(_ index: Int) -> UnsafeRawBufferPointer { unsafe paths[index] }

    func pushID(_ index: Int) -> UnsafeMutableRawBufferPointer {
        unsafe UnsafeMutableRawBufferPointer(start: pushIDs + index * APNsID.length, count: APNsID.length)
    }

    /// The token of a device as it was sent.
    func token(_ index: Int) -> String { paths.token(index) }

    /// Which segment a device belongs to.
    func segment(of index: Int) -> Int { segments.firstIndex { $0.range.contains(index) } ?? 0 }

    func environment(of index: Int) -> PushEnvironment { segments[segment(of: index)].environment }

    // MARK: Events

    func handedToWire() { inFlight += 1 }

    /// The device was answered for good or moved to another batch.
    func decided(_ index: Int, _ mark: DeviceMark) {
        inFlight -= 1
        undecided -= 1
        marks[index] = mark
    }

    /// Takes all devices of a segment that wait; they are decided without having been sent.
    func takeWaiting(_ segment: Int, as mark: DeviceMark) -> [Int] {
        let waiting = segments[segment].takeWaiting()
        undecided -= waiting.count
        for index in waiting { marks[index] = mark }
        return waiting
    }

    /// The device was certainly not processed and waits again.
    func returned(_ index: Int) {
        inFlight -= 1
        segments[segment(of: index)].again.append(index)
    }

    /// How often a device went again because an answer asked for it.
    func resends(of index: Int) -> Int { resends.isEmpty ? 0 : resends[index] ?? 0 }

    /// An answer asked for the device to go again at once.
    func askedAgain(_ index: Int) { resends[index, default: 0] += 1 }

    /// Hands nothing more to the wire; the first reason stays, but nothing is stronger than a lost lease.
    func stop(_ reason: StopReason) {
        if stopReason == nil || reason == .leaseEnded { stopReason = reason }
    }

    /// It has found out that its scope is still not to be sent to, and waits with the others.
    func failAsProbe() { isProbe = false }
}
