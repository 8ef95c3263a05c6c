// The seam between a connection and the HTTP/2 protocol: bytes in, bytes out, and events to look at afterwards. nghttp2
// stands behind it today; a leaner encoder of our own can take its place without a change to connection or pool.

import Reactor

/// A stream that has ended, with the HTTP/2 error code.
struct EndedStream {
    var slot: Int32
    var stream: Int32
    var code: UInt32
}

/// Ended streams in order; filled inside nghttp2's callbacks, read outside.
@safe final class EndedStreams {
    private var buffer: UnsafeMutablePointer<EndedStream>
    private var capacity = 256
    private(set) var count = 0

    init() { unsafe buffer = .allocate(capacity: capacity) }

    deinit { unsafe buffer.deallocate() }

    subscript(_ index: Int) -> EndedStream {
        precondition(index < count)
        return unsafe buffer[index]
    }

    func append(_ ended: EndedStream) {
        if count == capacity {
            let larger = UnsafeMutablePointer<EndedStream>.allocate(capacity: capacity * 2)
            unsafe larger.moveInitialize(from: buffer, count: count)
            unsafe buffer.deallocate()
            unsafe buffer = unsafe larger
            capacity *= 2
        }
        unsafe (buffer + count).initialize(to: ended)
        count += 1
    }

    func removeAll() { count = 0 }
}

/// What rarely happens on a session, since it was last asked.
struct SessionEvents {
    /// Streams whose answer is complete, or long enough, while the stream is still open.
    var complete: [(slot: Int32, stream: Int32)] = []
    /// The peer's SETTINGS have come.
    var settings = false
    /// The peer's GOAWAY has come, with its debug data.
    var goAway: (fault: HTTP2Fault, debugData: [UInt8])?
}

/// The protocol state of one client connection; slots are indices of the pool's `RequestTable`.
protocol ClientSession: AnyObject {
    /// Something is in `events`.
    var hasEvents: Bool { get }
    /// Streams that have been opened and not yet closed, also those nobody waits for any more.
    var openStreams: Int { get }
    /// The peer's limit; `UInt32.max` when it has set none.
    var peerMaxConcurrentStreams: UInt32 { get }
    /// Nothing more will be read or written.
    var isOver: Bool { get }
    /// Why `produce` failed.
    var fault: HTTP2Fault { get }

    /// Begins the next buffer of the transport, whose number slots remember, with the authorization for what follows; requests that
    /// are past at `now` are not completed.
    func beginFill(authorization: HTTP2SharedValue?, at now: MonotonicTime) -> UInt32
    /// Opens a stream for a slot, whose stream number is set; false when the connection can open no more.
    func submit(_ slot: Int32) -> Bool
    /// Puts out bytes: how many, 0 when there are none, negative when the session has failed.
    func produce(into buffer: UnsafeMutableRawBufferPointer) -> Int
    /// Takes in bytes.
    func receive(_ bytes: UnsafeRawBufferPointer) -> HTTP2Fault?
    /// Takes the ended streams; the list is lent until the next call of the session, and emptied by the caller.
    func takeEnded() -> EndedStreams
    /// Takes the other events.
    func takeEvents() -> SessionEvents
    /// Resets a stream and forgets its slot.
    func abandon(_ slot: Int32, code: UInt32)
    func ping()
    /// Tells the peer that we go away.
    func goAway()
}
