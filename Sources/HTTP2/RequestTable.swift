// All requests of a pool in one slab: those that wait, in a list that runs through it, and those on a connection. A slot
// is a trivial value at an index, and the index is what nghttp2 keeps for the stream: no dictionary, no object and no
// reference count for a request. Loop-confined.

import CNGHTTP2
import Reactor

/// One request that has not ended.
@safe struct RequestSlot {
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// The whole request has been handed to the transport.
        static let written = Flags(rawValue: 1)
        /// The peer has ended its side of the stream.
        static let answered = Flags(rawValue: 2)
        /// There is a `ResponseExtra` for it.
        static let hasExtra = Flags(rawValue: 4)
        /// nghttp2 cannot put it into frames.
        static let unsendable = Flags(rawValue: 8)
        /// nghttp2 was not allowed to open the stream any more.
        static let unsent = Flags(rawValue: 16)
    }

    var request: HTTP2Request
    var head: Int32
    /// The connection's number; 0 while the request waits.
    var connection: UInt32 = 0
    var streamID: Int32 = 0
    var bodySent = 0
    /// The fill of the transport's buffer in which its body went out.
    var fill: UInt32 = 0
    /// The final status of the answer; 0 until its header block is complete.
    var status: UInt16 = 0
    /// The status in a header block that is still coming.
    var incomingStatus: UInt16 = 0
    var flags: Flags = []
    /// Neighbours in the queue; `next` also links free slots.
    var previous: Int32 = -1
    var next: Int32 = -1

    init(request: HTTP2Request, head: Int32) {
        self.request = request
        self.head = head
    }
}

/// What an answer has besides a status.
struct ResponseExtra {
    var body: [UInt8] = []
    var fields: [(name: String, value: String)] = []
    var received = 0
}

/// The slab of a pool.
@safe final class RequestTable {
    private(set) var slots: UnsafeMutablePointer<RequestSlot>
    private(set) var capacity: Int
    private var firstFree: Int32 = -1
    let heads = HeadTable()
    var extras: [Int32: ResponseExtra] = [:]

    private var first: Int32 = -1
    private var last: Int32 = -1
    /// Requests that wait.
    private(set) var queued = 0
    /// Requests that have not ended, waiting or not.
    private(set) var count = 0

    init(capacity: Int) {
        self.capacity = max(16, capacity)
        unsafe slots = .allocate(capacity: self.capacity)
        vacate(0..<self.capacity)
    }

    deinit { unsafe slots.deallocate() }

    // MARK: Slots

    /// Takes a request up; it waits nowhere yet.
    func add(_ request: HTTP2Request, head: HTTP2RequestHead) -> Int32 {
        if firstFree < 0 { grow() }
        let index = firstFree
        firstFree = unsafe slots[Int(index)].next
        unsafe slots[Int(index)] = RequestSlot(request: request, head: heads.use(head))
        count += 1
        return index
    }

    /// Gives the slot of an ended request back.
    func release(_ index: Int32) {
        let slot = unsafe slots + Int(index)
        if unsafe slot.pointee.flags.contains(.hasExtra) { extras[index] = nil }
        heads.dispose(unsafe slot.pointee.head)
        // A stale index is recognised by its connection, its stream and its deadline.
        unsafe slot.pointee.connection = 0
        unsafe slot.pointee.streamID = 0
        unsafe slot.pointee.request.deadline = .distantFuture
        unsafe slot.pointee.next = firstFree
        firstFree = index
        count -= 1
    }

    private func grow() {
        let larger = UnsafeMutablePointer<RequestSlot>.allocate(capacity: capacity * 2)
        unsafe larger.moveInitialize(from: slots, count: capacity)
        unsafe slots.deallocate()
        unsafe slots = unsafe larger
        vacate(capacity..<(capacity * 2))
        capacity *= 2
    }

    private func vacate(_ range: Range<Int>) {
        let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        let request = unsafe HTTP2Request(path: nothing, id: nothing, tag: 0, deadline: .distantFuture)
        for index in range.reversed() {
            var slot = RequestSlot(request: request, head: -1)
            slot.next = firstFree
            unsafe (slots + index).initialize(to: slot)
            firstFree = Int32(index)
        }
    }

    /// Makes a request as it was before it was sent.
    func rewind(_ index: Int32) {
        let slot = unsafe slots + Int(index)
        if unsafe slot.pointee.flags.contains(.hasExtra) { extras[index] = nil }
        unsafe slot.pointee = unsafe RequestSlot(request: slot.pointee.request, head: slot.pointee.head)
    }

    /// The answer that has come so far.
    func response(_ index: Int32) -> HTTP2Response {
        let slot = unsafe slots + Int(index)
        var response = unsafe HTTP2Response(status: slot.pointee.status, connection: slot.pointee.connection)
        if unsafe slot.pointee.flags.contains(.hasExtra), let extra = extras[index] {
            response.body = extra.body
            response.fields = extra.fields
        }
        return response
    }

    /// The requests on one connection, in the order of their streams; walks the whole slab.
    func indices(on connection: UInt32) -> [Int32] {
        let found = (0..<Int32(capacity)).filter { unsafe slots[Int($0)].connection == connection }
        return found.sorted { unsafe slots[Int($0)].streamID < slots[Int($1)].streamID }
    }

    // MARK: The queue

    func append(_ index: Int32) {
        unsafe slots[Int(index)].previous = last
        unsafe slots[Int(index)].next = -1
        if last >= 0 { unsafe slots[Int(last)].next = index } else { first = index }
        last = index
        queued += 1
    }

    func prepend(_ index: Int32) {
        unsafe slots[Int(index)].previous = -1
        unsafe slots[Int(index)].next = first
        if first >= 0 { unsafe slots[Int(first)].previous = index } else { last = index }
        first = index
        queued += 1
    }

    /// Takes a waiting request out of the line.
    func unlink(_ index: Int32) {
        let (previous, next) = unsafe (slots[Int(index)].previous, slots[Int(index)].next)
        if previous >= 0 { unsafe slots[Int(previous)].next = next } else { first = next }
        if next >= 0 { unsafe slots[Int(next)].previous = previous } else { last = previous }
        queued -= 1
    }

    /// The longest waiting request, taken out of the line; -1 when none waits.
    func popFirst() -> Int32 {
        let index = first
        if index >= 0 { unlink(index) }
        return index
    }

    /// The waiting requests in order.
    var waiting: [Int32] {
        var found: [Int32] = []
        found.reserveCapacity(queued)
        var index = first
        while index >= 0 {
            found.append(index)
            index = unsafe slots[Int(index)].next
        }
        return found
    }
}
