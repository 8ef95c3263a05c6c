// A client session over nghttp2. What makes it quick: one header list per connection, of which only path and id change from
// push to push; strings that nghttp2 points at instead of copying; the slot's index as the stream's user data.

import CNGHTTP2
import Glibc
import Reactor

/// A client session over nghttp2; its callbacks reach it by address, so it must be kept until it is freed.
@safe final class NGHTTP2ClientSession: ClientSession {
    private(set) var openStreams = 0
    private(set) var hasEvents = false
    private(set) var fault = HTTP2Fault(.protocolError, "HTTP/2 failed")

    let table: RequestTable
    private let number: UInt32
    private let session: OpaquePointer
    private let names: SessionNames
    private var chunk = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    private var fill: UInt32 = 0
    private var fillTime = MonotonicTime(nanoseconds: 0)
    private var ended = EndedStreams()
    private var spareEnded = EndedStreams()
    private var events = SessionEvents()

    // The header list, and whose template stands in it.
    private var list: UnsafeMutablePointer<nghttp2_nv>
    private var listCapacity: Int
    private var listCount = 0
    private var listHead: UInt64 = 0
    private var hasBody = false
    /// The value for what is submitted, and those that header lists inside nghttp2 may still point at.
    private var authorization: HTTP2SharedValue?
    private var formerAuthorizations: [HTTP2SharedValue] = []
    private var authorizationField = unsafe nghttp2_nv()

    // The stream of the last callback: answers come as several callbacks in a row.
    private var recentStream: Int32 = 0
    private var recentSlot: Int32 = -1

    init?(table: RequestTable, number: UInt32, names: SessionNames) {
        self.table = table
        self.number = number
        self.names = names
        listCapacity = 64
        unsafe list = .allocate(capacity: listCapacity)
        var option: OpaquePointer?
        unsafe nghttp2_option_new(&option)
        defer { unsafe nghttp2_option_del(option) }
        unsafe nghttp2_option_set_no_closed_streams(option, 1)
        unsafe nghttp2_option_set_peer_max_concurrent_streams(option, 1)
        var made: OpaquePointer?
        let result = unsafe nghttp2_session_client_new2(&made, clientCallbacks.pointer, nil, option)
        guard result == 0, let made = unsafe made else {
            unsafe list.deallocate()
            return nil
        }
        unsafe session = unsafe made
        unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
        let settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: 65_535),
        ]
        unsafe nghttp2_submit_settings(session, 0, settings, settings.count)
        unsafe nghttp2_session_set_local_window_size(session, 0, 0, 1 << 20)
    }

    deinit {
        unsafe nghttp2_session_del(session)
        unsafe list.deallocate()
    }

    var peerMaxConcurrentStreams: UInt32 {
        unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
    }

    var isOver: Bool {
        unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0 && chunk.count == 0
    }

    // MARK: Requests

    func beginFill(authorization value: HTTP2SharedValue?, at now: MonotonicTime) -> UInt32 {
        fillTime = now
        if value !== authorization {
            if let authorization { formerAuthorizations.append(authorization) }
            authorization = value
            unsafe authorizationField = unsafe names.authorizationTemplate
            unsafe authorizationField.value = unsafe value?.bytes.baseAddress
            unsafe authorizationField.valuelen = value?.count ?? 0
        }
        fill &+= 1
        return fill
    }

    func submit(_ index: Int32) -> Bool {
        let slot = unsafe table.slots + Int(index)
        load(unsafe slot.pointee.head)
        let path = unsafe slot.pointee.request.path
        unsafe list[HTTP2RequestHead.pathIndex].value = unsafe mutable(path)
        unsafe list[HTTP2RequestHead.pathIndex].valuelen = path.count
        var count = listCount
        let id = unsafe slot.pointee.request.id
        if id.count > 0 {
            unsafe list[count] = unsafe names.idTemplate
            unsafe list[count].value = unsafe mutable(id)
            unsafe list[count].valuelen = id.count
            count += 1
        }
        if unsafe authorizationField.valuelen > 0 {
            unsafe list[count] = unsafe authorizationField
            count += 1
        }
        return unsafe open(index, slot, count)
    }

    private func open(_ index: Int32, _ slot: UnsafeMutablePointer<RequestSlot>, _ count: Int) -> Bool {
        let user = unsafe UnsafeMutableRawPointer(bitPattern: Int(index) + 1)
        let stream: Int32
        if !hasBody {
            stream = unsafe nghttp2_submit_request(session, nil, list, count, nil, user)
            unsafe slot.pointee.flags.insert(.written)
            unsafe slot.pointee.fill = fill
        } else {
            var provider = unsafe nghttp2_data_provider(
                source: nghttp2_data_source(ptr: user), read_callback: clientReadsBody)
            stream = unsafe nghttp2_submit_request(session, nil, list, count, &provider, user)
        }
        guard stream > 0 else { return false }
        unsafe slot.pointee.streamID = stream
        openStreams += 1
        return true
    }

    /// Puts the head's template into the header list, unless it is there already.
    private func load(_ head: Int32) {
        let entry = unsafe table.heads.entries + Int(head)
        let serial = unsafe entry.pointee.serial
        guard serial != listHead, let template = unsafe entry.pointee.template else { return }
        listCount = unsafe entry.pointee.templateCount
        if listCount + 2 > listCapacity {
            unsafe list.deallocate()
            listCapacity = listCount + 2
            unsafe list = .allocate(capacity: listCapacity)
        }
        unsafe list.update(from: template, count: listCount)
        unsafe list[HTTP2RequestHead.authorityIndex].value = unsafe names.authority.bytes.baseAddress
        unsafe list[HTTP2RequestHead.authorityIndex].valuelen = names.authority.count
        hasBody = unsafe entry.pointee.bodyCount > 0
        listHead = serial
    }

    private func mutable(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutablePointer<UInt8>? {
        // nghttp2 takes its strings by mutable pointers and only reads them.
        unsafe UnsafeMutablePointer(mutating: bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
    }

    func abandon(_ index: Int32, code: UInt32) {
        let stream = unsafe table.slots[Int(index)].streamID
        guard stream > 0 else { return }
        recentStream = 0
        unsafe nghttp2_session_set_stream_user_data(session, stream, nil)
        unsafe nghttp2_submit_rst_stream(session, 0, stream, code)
    }

    // MARK: Bytes

    func receive(_ bytes: UnsafeRawBufferPointer) -> HTTP2Fault? {
        let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        let result = unsafe nghttp2_session_mem_recv(session, start, bytes.count)
        return result < 0 ? protocolFault(result) : nil
    }

    func produce(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let target = buffer.baseAddress else { return 0 }
        var used = 0
        while true {
            if unsafe chunk.count == 0 {
                var start: UnsafePointer<UInt8>?
                let count = unsafe nghttp2_session_mem_send(session, &start)
                if count < 0 {
                    fault = protocolFault(count)
                    return -1
                }
                if count == 0 {
                    // Every header list is out, so nothing points at former authorizations any more.
                    if !formerAuthorizations.isEmpty { formerAuthorizations.removeAll() }
                    return used
                }
                unsafe chunk = unsafe UnsafeRawBufferPointer(start: start, count: count)
            }
            let count = unsafe min(chunk.count, buffer.count - used)
            guard count > 0, let source = unsafe chunk.baseAddress else { return used }
            unsafe memcpy(target + used, source, count)
            unsafe chunk = unsafe UnsafeRawBufferPointer(start: source + count, count: chunk.count - count)
            used += count
        }
    }

    // MARK: Events

    func takeEnded() -> EndedStreams {
        swap(&ended, &spareEnded)
        return spareEnded
    }

    func takeEvents() -> SessionEvents {
        hasEvents = false
        let taken = events
        events = SessionEvents()
        return taken
    }

    func settingsCame() {
        events.settings = true
        hasEvents = true
    }

    func goAwayCame(_ fault: HTTP2Fault, _ debugData: [UInt8]) {
        // Of two in a row, the one that says something.
        if events.goAway == nil || !debugData.isEmpty { events.goAway = (fault, debugData) }
        hasEvents = true
    }

    private func completed(_ slot: Int32, _ stream: Int32) {
        events.complete.append((slot: slot, stream: stream))
        hasEvents = true
    }

    func ping() { unsafe nghttp2_submit_ping(session, 0, nil) }

    func goAway() { unsafe nghttp2_submit_goaway(session, 0, 0, 0, nil, 0) }

    // MARK: Callbacks (NGHTTP2ClientCallbacks.swift)

    /// The slot of a stream; nil when nobody waits for it any more.
    func slot(of stream: Int32) -> Int32? {
        if stream == recentStream { return recentSlot < 0 ? nil : recentSlot }
        let user = unsafe nghttp2_session_get_stream_user_data(session, stream)
        recentStream = stream
        recentSlot = Int32(truncatingIfNeeded: Int(bitPattern: user) - 1)
        return recentSlot < 0 ? nil : recentSlot
    }

    /// Copies the next part of a body; negative, which resets it, for a stream that is not the slot's any more or is past its time.
    func readBody(
        _ index: Int, _ stream: Int32, _ buffer: UnsafeMutablePointer<UInt8>, _ length: Int,
        _ flags: UnsafeMutablePointer<UInt32>
    ) -> Int {
        guard index >= 0, index < table.capacity, unsafe table.slots[index].streamID == stream,
            unsafe table.slots[index].connection == number, unsafe !table.slots[index].request.isPast(fillTime)
        else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        let slot = unsafe table.slots + index
        let head = unsafe table.heads.entries + Int(slot.pointee.head)
        let sent = unsafe slot.pointee.bodySent
        let count = unsafe min(length, head.pointee.bodyCount - sent)
        if count > 0, let body = unsafe head.pointee.body { unsafe memcpy(buffer, body + sent, count) }
        unsafe slot.pointee.bodySent = sent + count
        if unsafe sent + count == head.pointee.bodyCount {
            unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
            unsafe slot.pointee.flags.insert(.written)
            unsafe slot.pointee.fill = fill
        }
        return count
    }

    /// A header field of an answer.
    func received(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, stream: Int32) {
        guard let index = slot(of: stream) else { return }
        let slot = unsafe table.slots + Int(index)
        if unsafe name.count == 7 && name[0] == UInt8(ascii: ":") {
            // nghttp2 lets only three digits pass.
            var status: UInt16 = 0
            for index in 0..<value.count { status = status &* 10 &+ UInt16(unsafe value[index] &- 48) }
            // 1xx announce an answer and are none.
            if status >= 200 { unsafe slot.pointee.incomingStatus = status }
        } else if !names.kept.isEmpty, unsafe slot.pointee.incomingStatus != 0 {
            unsafe keep(name, value, index)
        }
    }

    private func keep(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, _ index: Int32) {
        for kept in names.kept where unsafe kept.bytes.count == name.count && kept.bytes.elementsEqual(name) {
            unsafe table.slots[Int(index)].flags.insert(.hasExtra)
            let text = unsafe String(decoding: value.prefix(1024), as: UTF8.self)
            table.extras[index, default: ResponseExtra()].fields.append((name: kept.text, value: text))
            return
        }
    }

    /// A piece of an answer's body.
    func received(_ data: UnsafeBufferPointer<UInt8>, stream: Int32) {
        guard data.count > 0, let index = slot(of: stream) else { return }
        unsafe table.slots[Int(index)].flags.insert(.hasExtra)
        var extra = table.extras.removeValue(forKey: index) ?? ResponseExtra()
        let room = max(0, names.bodyLimit - extra.body.count)
        unsafe extra.body.append(contentsOf: data.prefix(room))
        extra.received += data.count
        // Nobody answers a push with a book: what comes beyond reason is cut off by a reset.
        if extra.received > 16 * names.bodyLimit { completed(index, stream) }
        table.extras[index] = extra
    }

    /// A header block is complete; `ends`: and with it the peer's side of the stream.
    func headersComplete(_ stream: Int32, ends: Bool) {
        guard let index = slot(of: stream) else { return }
        unsafe table.slots[Int(index)].status = unsafe table.slots[Int(index)].incomingStatus
        if ends { peerEnded(stream) }
    }

    /// The peer's side of the stream has ended.
    func peerEnded(_ stream: Int32) {
        guard let index = slot(of: stream) else { return }
        let slot = unsafe table.slots + Int(index)
        unsafe slot.pointee.flags.insert(.answered)
        // While our own side is open, the stream does not end by itself.
        if unsafe !slot.pointee.flags.contains(.written) { completed(index, stream) }
    }

    func streamClosed(_ stream: Int32, code: UInt32) {
        openStreams -= 1
        guard let index = slot(of: stream) else { return }
        recentStream = 0
        ended.append(EndedStream(slot: index, stream: stream, code: code))
    }

    func notSent(_ stream: Int32, error: Int32) {
        let harmless = [
            NGHTTP2_ERR_START_STREAM_NOT_ALLOWED, NGHTTP2_ERR_STREAM_CLOSING, NGHTTP2_ERR_STREAM_CLOSED,
            NGHTTP2_ERR_SESSION_CLOSING, NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE,
        ]
        guard let index = slot(of: stream) else { return }
        unsafe table.slots[Int(index)].flags.remove(.written)
        let isHarmless = harmless.contains { $0.rawValue == error }
        unsafe table.slots[Int(index)].flags.insert(isHarmless ? .unsent : .unsendable)
    }
}

/// The strings that the sessions of a pool point at, and what they keep of answers.
@safe final class SessionNames {
    struct Kept {
        let text: String
        let bytes: [UInt8]
    }

    let authority: HTTP2SharedValue
    let kept: [Kept]
    let bodyLimit: Int
    let idTemplate: nghttp2_nv
    let authorizationTemplate: nghttp2_nv
    private let idName: HTTP2SharedValue
    private let authorizationName = HTTP2SharedValue("authorization")

    init(_ configuration: HTTP2PoolConfiguration) {
        authority = HTTP2SharedValue(configuration.authority)
        idName = HTTP2SharedValue(configuration.idField)
        kept = configuration.responseFields.map { Kept(text: $0, bytes: Array($0.utf8)) }
        bodyLimit = configuration.bodyLimit
        unsafe idTemplate = unsafe SessionNames.entry(idName, indexed: false)
        // nghttp2 never indexes this one, whatever the flag says.
        unsafe authorizationTemplate = unsafe SessionNames.entry(authorizationName, indexed: true)
    }

    private static func entry(_ name: HTTP2SharedValue, indexed: Bool) -> nghttp2_nv {
        unsafe nghttp2_nv(
            name: name.bytes.baseAddress, value: name.bytes.baseAddress, namelen: name.count, valuelen: 0,
            flags: headerFlags(indexed: indexed))
    }
}
