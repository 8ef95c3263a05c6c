// The seam between a connection and the HTTP/2 protocol: bytes in, bytes out, and events to look at afterwards. nghttp2
// stands behind it today; a leaner encoder of our own can take its place without a change to connection or pool.

/// What has happened on a session since it was last asked.
struct SessionEvents {
    /// A stream that has ended, with the HTTP/2 error code.
    struct Ended {
        var slot: Int32
        var stream: Int32
        var code: UInt32
    }

    /// Streams that have ended and for which somebody waits.
    var ended: [Ended] = []
    /// Streams whose answer is complete, or long enough, while the stream is still open.
    var toReset: [(slot: Int32, stream: Int32)] = []
    /// The peer's SETTINGS have come.
    var settings = false
    /// The peer's GOAWAY has come.
    var goAway: HTTP2Fault?
}

/// The protocol state of one client connection; slots are indices of the pool's `RequestTable`.
protocol ClientSession: AnyObject {
    var events: SessionEvents { get set }
    /// Streams that have been opened and not yet closed, also those nobody waits for any more.
    var openStreams: Int { get }
    /// The peer's limit; `UInt32.max` when it has set none.
    var peerMaxConcurrentStreams: UInt32 { get }
    /// Nothing more will be read or written.
    var isOver: Bool { get }

    /// Opens a stream for a slot, whose stream number is set; false when the connection can open no more.
    func submit(_ slot: Int32, authorization: HTTP2SharedValue?) -> Bool
    /// Resets a stream and forgets its slot.
    func abandon(_ slot: Int32, code: UInt32)
    /// Takes in bytes.
    func receive(_ bytes: UnsafeRawBufferPointer) -> HTTP2Fault?
    /// Puts out bytes; `.success(0)` when there are none.
    func produce(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, HTTP2Fault>
    func ping()
    /// Tells the peer that we go away.
    func goAway()
    /// Begins the next buffer of the transport; slots whose body goes out remember its number.
    func beginFill() -> UInt32
}
