// One accepted connection. Everything that a gateway can do to a client is a method here, also what it should not do.
// nghttp2's callbacks (ServerSession.swift) only fill streams and queue events; the handler is called afterwards.

import CNGHTTP2
import Reactor
import TLS

/// How the server ends a connection.
package enum HTTP2ServerEnd: Sendable {
    /// GOAWAY, answers that are under way, TLS close, FIN.
    case graceful
    /// TLS close and FIN, without GOAWAY.
    case notify
    /// A bare FIN.
    case fin
    /// A TCP reset.
    case abort
    /// A fatal TLS alert and FIN.
    case alert
}

/// One client's connection, on the server's loop.
@safe package final class HTTP2ServerConnection {
    /// Counts the connections of a server from 1.
    package let number: Int
    /// For the handler's own use.
    package var context: AnyObject?

    let loop: EventLoop
    let bodyLimit: Int
    let answersHeaders: Bool
    var session: OpaquePointer?
    var streams: [Int32: ServerStream] = [:]
    var events: [Event] = []
    private weak var server: HTTP2Server?
    private let handler: any HTTP2ServerHandler
    private let configuration: HTTP2ServerConfiguration
    private var transport: Transport?
    private var handshakeTimer: LoopTimer?
    private var chunk: UnsafeRawBufferPointer?
    private var raw: [UInt8] = []
    private var isDelivering = false
    private var wasOpened = false
    /// SETTINGS must be the first frame that we send.
    private var hasSentSettings = false
    /// The handler has sent GOAWAY: from then on the client ends the connection.
    private var isLeaving = false
    /// We end the connection once the answers under way are out.
    private var isClosing = false

    enum Event {
        case request(Int32)
        case closed(Int32, UInt32)
    }

    init(server: HTTP2Server, number: Int) {
        self.server = server
        self.number = number
        loop = server.loop
        handler = server.handler
        configuration = server.configuration
        bodyLimit = server.configuration.bodyLimit
        answersHeaders = server.configuration.answersHeaders
    }

    deinit { unsafe nghttp2_session_del(session) }

    func start(_ transport: Transport) {
        self.transport = transport
        handshakeTimer = loop.schedule(after: configuration.handshakeTimeout) { [weak self] in self?.close(.notify) }
        transport.start()
    }

    // MARK: What is known

    /// The highest stream that was taken up.
    package var lastStreamID: Int32 { unsafe session.map { unsafe nghttp2_session_get_last_proc_stream_id($0) } ?? 0 }
    /// The streams that have not ended, in order.
    package var openStreams: [Int32] { streams.keys.sorted() }
    /// The client's certificate in DER, when it showed one.
    package var peerCertificate: [UInt8]? { transport?.stream.peerCertificate }
    /// The protocol agreed by ALPN.
    package var selectedALPN: String? { transport?.stream.selectedALPN }
    /// Whether the connection can still carry answers.
    package var isOpen: Bool { transport?.isOpen == true }

    // MARK: Answers

    /// Answers a request.
    ///
    /// The body goes out in `splitInto` DATA frames; an empty one ends the stream with the HEADERS frame, or with an empty
    /// DATA frame if `emptyData` says so. Unknown streams are ignored.
    package func respond(
        to streamID: Int32, status: Int, fields: [(name: String, value: String)] = [], body: [UInt8] = [],
        splitInto parts: Int = 1, emptyData: Bool = false, trailers: [(name: String, value: String)] = []
    ) {
        guard unsafe session != nil, let stream = streams[streamID], !stream.isAnswered else { return }
        stream.isAnswered = true
        stream.answer = body
        stream.partSize = max(1, (body.count + max(1, parts) - 1) / max(1, parts))
        stream.trailers = trailers
        let all = [(name: ":status", value: String(status))] + fields
        let hasData = !body.isEmpty || emptyData || !trailers.isEmpty
        unsafe withHeaderList(all) { list, count in
            guard hasData else {
                unsafe nghttp2_submit_response(session, streamID, list, count, nil)
                return
            }
            var source = unsafe nghttp2_data_provider(
                source: nghttp2_data_source(ptr: Unmanaged.passUnretained(stream).toOpaque()),
                read_callback: readServerBody)
            unsafe nghttp2_submit_response(session, streamID, list, count, &source)
        }
        transport?.queueFlush()
    }

    /// Sends a 1xx answer before the real one.
    package func sendInformational(_ streamID: Int32, status: Int, fields: [(name: String, value: String)] = []) {
        guard unsafe session != nil, streams[streamID] != nil else { return }
        unsafe withHeaderList([(name: ":status", value: String(status))] + fields) { list, count in
            _ = unsafe nghttp2_submit_headers(session, 0, streamID, nil, list, count, nil)
        }
        transport?.queueFlush()
    }

    /// Resets a stream, for example with 7 (REFUSED_STREAM).
    package func reset(_ streamID: Int32, code: UInt32) {
        guard unsafe session != nil else { return }
        unsafe nghttp2_submit_rst_stream(session, 0, streamID, code)
        transport?.queueFlush()
    }

    // MARK: The connection

    /// Announces that the server goes away; the connection stays open, and streams above the last one are dropped.
    ///
    /// Without `lastStreamID` it is the highest that was taken up.
    package func goAway(lastStreamID: Int32? = nil, code: UInt32 = 0, debug: [UInt8] = []) {
        guard unsafe session != nil else { return }
        isLeaving = true
        unsafe nghttp2_submit_goaway(session, 0, lastStreamID ?? self.lastStreamID, code, debug, debug.count)
        transport?.queueFlush()
    }

    /// Announces, by the last stream id 2³¹ - 1, that a GOAWAY will follow; streams are still taken up.
    package func announceGoAway() {
        guard unsafe session != nil else { return }
        unsafe nghttp2_submit_shutdown_notice(session)
        transport?.queueFlush()
    }

    /// Sends SETTINGS.
    package func submitSettings(_ settings: HTTP2ServerSettings) {
        guard unsafe session != nil else { return }
        let values: [(nghttp2_settings_id, UInt32?)] = [
            (NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings.maxConcurrentStreams),
            (NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings.initialWindowSize),
            (NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.maxHeaderListSize),
            (NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, settings.headerTableSize),
        ]
        let entries = values.compactMap { id, value in
            value.map { nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: $0) }
        }
        unsafe nghttp2_submit_settings(session, 0, entries, entries.count)
        if !hasSentSettings {
            hasSentSettings = true
            // A large window for the connection, so that the small default never slows a sender down.
            unsafe nghttp2_session_set_local_window_size(session, 0, 0, 1 << 24)
            transport?.pause(false)
        }
        transport?.queueFlush()
    }

    /// The same for the stream limit alone.
    package func submitSettings(maxConcurrentStreams: UInt32) {
        submitSettings(HTTP2ServerSettings(maxConcurrentStreams: maxConcurrentStreams))
    }

    /// Sends bytes as they are, after the frames that were made before: frames that are cut off, wrong, or no frames at all.
    package func sendRaw(_ bytes: [UInt8]) {
        takeFrames()
        raw.append(contentsOf: bytes)
        transport?.queueFlush()
    }

    /// Puts what the session has to send into `raw`, so that nothing overtakes it: a peer's first frame must be SETTINGS.
    private func takeFrames() {
        if let rest = unsafe chunk { unsafe raw.append(contentsOf: rest) }
        unsafe chunk = nil
        guard unsafe session != nil else { return }
        var start: UnsafePointer<UInt8>?
        while case let count = unsafe nghttp2_session_mem_send(session, &start), count > 0 {
            unsafe raw.append(contentsOf: UnsafeRawBufferPointer(start: start, count: count))
        }
    }

    /// Sends a PING; the answer is not waited for.
    package func ping() {
        guard unsafe session != nil else { return }
        unsafe nghttp2_submit_ping(session, 0, nil)
        transport?.queueFlush()
    }

    /// Reads nothing more from the client, as if the network had swallowed it.
    package func pauseReading() { transport?.pause(true) }

    /// Reads again.
    package func resumeReading() { transport?.pause(false) }

    /// Ends the connection.
    package func close(_ end: HTTP2ServerEnd) {
        guard let transport else { return }
        switch end {
        case .graceful:
            guard unsafe session != nil else { return close(.notify) }
            // Ends by itself once the answers under way are out (`transportFlushed`).
            unsafe nghttp2_submit_goaway(session, 0, lastStreamID, 0, nil, 0)
            isClosing = true
            transport.queueFlush()
        case .notify: gone { transport.close() }
        case .fin: gone { transport.abandon() }
        case .abort: gone { transport.close(reset: true) }
        case .alert: gone { transport.refuse() }
        }
    }

    private func gone(_ end: () -> Void) {
        guard transport != nil else { return }
        end()
        transport = nil
        if let handshakeTimer { loop.cancel(handshakeTimer) }
        handshakeTimer = nil
        server?.forget(self)
        if wasOpened { handler.closed(self) } else { server?.failedHandshakes += 1 }
    }

    // MARK: Delivery

    private func deliver() {
        guard !isDelivering else { return }
        isDelivering = true
        defer { isDelivering = false }
        while !events.isEmpty {
            let batch = events
            events.removeAll(keepingCapacity: true)
            for event in batch where transport != nil { deliver(event) }
        }
    }

    private func deliver(_ event: Event) {
        switch event {
        case .request(let id):
            // A stream that has been reset meanwhile is gone from the table.
            guard let stream = streams[id] else { return }
            handler.received(HTTP2ServerRequest(streamID: id, fields: stream.fields, body: stream.body), on: self)
        case .closed(let id, let code):
            streams[id] = nil
            handler.streamClosed(id, code: code, on: self)
        }
    }
}

extension HTTP2ServerConnection: TransportOwner {
    func transportOpened(_ transport: Transport) {
        if let handshakeTimer { loop.cancel(handshakeTimer) }
        handshakeTimer = nil
        if configuration.requiresALPN && transport.stream.selectedALPN != "h2" { return close(.notify) }
        unsafe session = makeServerSession(for: self, answersPings: configuration.answersPings)
        wasOpened = true
        if let settings = configuration.initialSettings {
            submitSettings(settings)
        } else {
            // Whatever is read would be acknowledged, and SETTINGS must come first.
            transport.pause(true)
        }
        handler.opened(self)
    }

    func transportReceived(_ bytes: UnsafeRawBufferPointer) {
        let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        let result = unsafe nghttp2_session_mem_recv(session, start, bytes.count)
        if result < 0 { return close(.notify) }
        deliver()
        transport?.queueFlush()
    }

    func transportFill(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        defer { deliver() }
        var used = 0
        while used < buffer.count {
            if unsafe (chunk?.count ?? 0) == 0 {
                if !raw.isEmpty {
                    let count = min(raw.count, buffer.count - used)
                    unsafe buffer[used...].copyBytes(from: raw[..<count])
                    raw.removeFirst(count)
                    used += count
                    continue
                }
                var start: UnsafePointer<UInt8>?
                let count = unsafe nghttp2_session_mem_send(session, &start)
                if count < 0 {
                    close(.notify)
                    return 0
                }
                if count == 0 { break }
                unsafe chunk = unsafe UnsafeRawBufferPointer(start: start, count: count)
            }
            guard let bytes = unsafe chunk else { break }
            let count = min(bytes.count, buffer.count - used)
            unsafe buffer[used...].copyBytes(from: bytes[..<count])
            unsafe chunk = unsafe UnsafeRawBufferPointer(rebasing: bytes[count...])
            used += count
        }
        return used
    }

    func transportFlushed() {
        // nghttp2 wants no more when it has ended the session over an error of the client's, or the client has left.
        let isOver = unsafe nghttp2_session_want_read(session) == 0 && !isLeaving
        guard isOver || isClosing && !streams.contains(where: { $0.value.isAnswered }) else { return }
        if let transport { gone { transport.finish() } }
    }

    func transportEnded(_ fault: HTTP2Fault) { gone {} }
}
