// The C side of a client session. Each callback finds its session by address, without touching a reference count, marks
// slots and leaves events; none calls nghttp2's send or receive functions, and none calls a handler.

import CNGHTTP2

/// The callbacks of all client sessions.
let clientCallbacks = unsafe SessionCallbacks { callbacks in
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, clientGotHeader)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, clientGotData)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, clientGotFrame)
    unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, clientDidNotSend)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, clientClosedStream)
}

@inline(__always)
private func with<T>(_ user: UnsafeMutableRawPointer?, _ none: T, _ body: (NGHTTP2ClientSession) -> T) -> T {
    guard let user = unsafe user else { return none }
    return unsafe Unmanaged<NGHTTP2ClientSession>.fromOpaque(user)._withUnsafeGuaranteedRef { body($0) }
}

private func clientGotHeader(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, name: UnsafePointer<UInt8>?, nameLength: Int,
    value: UnsafePointer<UInt8>?, valueLength: Int, _: UInt8, user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let stream = unsafe frame?.pointee.hd.stream_id else { return 0 }
    unsafe with(user, ()) { session in
        unsafe session.received(
            UnsafeBufferPointer(start: name, count: nameLength), UnsafeBufferPointer(start: value, count: valueLength),
            stream: stream)
    }
    return 0
}

private func clientGotData(
    _: OpaquePointer?, _: UInt8, stream: Int32, data: UnsafePointer<UInt8>?, length: Int,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe with(user, ()) { unsafe $0.received(UnsafeBufferPointer(start: data, count: length), stream: stream) }
    return 0
}

private func clientGotFrame(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame else { return 0 }
    let header = unsafe frame.pointee.hd
    switch header.type {
    case FrameType.headers:
        let ends = header.flags & FrameFlag.endStream != 0
        unsafe with(user, ()) { $0.headersComplete(header.stream_id, ends: ends) }
    case FrameType.data:
        if header.flags & FrameFlag.endStream != 0 { unsafe with(user, ()) { $0.peerEnded(header.stream_id) } }
    case FrameType.settings:
        if header.flags & FrameFlag.ack == 0 { unsafe with(user, ()) { $0.settingsCame() } }
    case FrameType.goAway:
        let goAway = unsafe frame.pointee.goaway
        let debug = unsafe UnsafeRawBufferPointer(start: goAway.opaque_data, count: goAway.opaque_data_len)
        let code = unsafe goAway.error_code
        let text = unsafe cleanedText(debug)
        let words = "the peer goes away: \(errorName(code))" + (text.isEmpty ? "" : " \(text)")
        let bytes = unsafe [UInt8](debug.prefix(HTTP2Farewell.limit))
        unsafe with(user, ()) { $0.goAwayCame(HTTP2Fault(.goAway, native: Int(code), words), bytes) }
    default: break
    }
    return 0
}

private func clientDidNotSend(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, error: Int32, user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let header = unsafe frame?.pointee.hd, header.type == FrameType.headers else { return 0 }
    unsafe with(user, ()) { $0.notSent(header.stream_id, error: error) }
    return 0
}

private func clientClosedStream(
    _: OpaquePointer?, stream: Int32, code: UInt32, user: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe with(user, ()) { $0.streamClosed(stream, code: code) }
    return 0
}

/// nghttp2 asks for the next part of a request body.
func clientReadsBody(
    _: OpaquePointer?, stream: Int32, buffer: UnsafeMutablePointer<UInt8>?, length: Int,
    flags: UnsafeMutablePointer<UInt32>?, source: UnsafeMutablePointer<nghttp2_data_source>?,
    user: UnsafeMutableRawPointer?
) -> Int {
    guard let buffer = unsafe buffer, let flags = unsafe flags, let source = unsafe source else { return 0 }
    let index = unsafe Int(bitPattern: source.pointee.ptr) - 1
    return unsafe with(user, 0) { unsafe $0.readBody(index, stream, buffer, length, flags) }
}
