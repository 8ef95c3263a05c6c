// The server's side of nghttp2: streams and the callbacks that fill them. No callback calls the handler or nghttp2's
// send and receive functions; they leave events behind.

import CNGHTTP2

/// What is known of one stream.
final class ServerStream {
    var fields: [(name: String, value: String)] = []
    var body: [UInt8] = []
    var isAnswered = false
    var answer: [UInt8] = []
    var sent = 0
    var partSize = 1
    var trailers: [(name: String, value: String)] = []
}

/// A server session whose callbacks reach `connection`, which must outlive it.
func makeServerSession(for connection: HTTP2ServerConnection, answersPings: Bool) -> OpaquePointer? {
    var option: OpaquePointer?
    unsafe nghttp2_option_new(&option)
    defer { unsafe nghttp2_option_del(option) }
    unsafe nghttp2_option_set_no_closed_streams(option, 1)
    unsafe nghttp2_option_set_no_auto_ping_ack(option, answersPings ? 0 : 1)
    var session: OpaquePointer?
    let user = unsafe Unmanaged.passUnretained(connection).toOpaque()
    unsafe nghttp2_session_server_new2(&session, serverCallbacks.pointer, user, option)
    return unsafe session
}

/// nghttp2's table of callbacks, made once for the process.
@safe struct SessionCallbacks: @unchecked Sendable {
    let pointer: OpaquePointer?

    init(_ set: (OpaquePointer?) -> Void) {
        var made: OpaquePointer?
        unsafe nghttp2_session_callbacks_new(&made)
        unsafe set(made)
        unsafe pointer = unsafe made
    }
}

private let serverCallbacks = unsafe SessionCallbacks { callbacks in
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, serverBeganHeaders)
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, serverGotHeader)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, serverGotData)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, serverGotFrame)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, serverClosedStream)
}

private func connection(_ user: UnsafeMutableRawPointer?) -> HTTP2ServerConnection? {
    unsafe user.map { unsafe Unmanaged<HTTP2ServerConnection>.fromOpaque($0).takeUnretainedValue() }
}

private func serverBeganHeaders(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let header = unsafe frame?.pointee.hd, let connection = unsafe connection(user) else { return 0 }
    if connection.streams[header.stream_id] == nil { connection.streams[header.stream_id] = ServerStream() }
    return 0
}

private func serverGotHeader(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, name: UnsafePointer<UInt8>?, nameLength: Int,
    value: UnsafePointer<UInt8>?, valueLength: Int, _: UInt8, user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let header = unsafe frame?.pointee.hd, let stream = unsafe connection(user)?.streams[header.stream_id]
    else { return 0 }
    unsafe stream.fields.append(
        (
            name: String(decoding: UnsafeBufferPointer(start: name, count: nameLength), as: UTF8.self),
            value: String(decoding: UnsafeBufferPointer(start: value, count: valueLength), as: UTF8.self)
        ))
    return 0
}

private func serverGotData(
    _: OpaquePointer?, _: UInt8, streamID: Int32, data: UnsafePointer<UInt8>?, length: Int,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection = unsafe connection(user), let stream = connection.streams[streamID] else { return 0 }
    let room = max(0, connection.bodyLimit - stream.body.count)
    unsafe stream.body.append(contentsOf: UnsafeBufferPointer(start: data, count: min(room, length)))
    return 0
}

private func serverGotFrame(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let header = unsafe frame?.pointee.hd, header.type == FrameType.data || header.type == FrameType.headers,
        let connection = unsafe connection(user)
    else { return 0 }
    let isComplete =
        connection.answersHeaders ? header.type == FrameType.headers : header.flags & FrameFlag.endStream != 0
    if isComplete { connection.events.append(.request(header.stream_id)) }
    return 0
}

private func serverClosedStream(
    _: OpaquePointer?, streamID: Int32, code: UInt32, user: UnsafeMutableRawPointer?
) -> Int32 {
    // The record stays until the event is delivered: nghttp2 is done with it, and so are its callbacks.
    unsafe connection(user)?.events.append(.closed(streamID, code))
    return 0
}

/// Hands out the answer's body one DATA frame at a time, then the trailers.
func readServerBody(
    session: OpaquePointer?, streamID: Int32, buffer: UnsafeMutablePointer<UInt8>?, length: Int,
    flags: UnsafeMutablePointer<UInt32>?, source: UnsafeMutablePointer<nghttp2_data_source>?,
    _: UnsafeMutableRawPointer?
) -> Int {
    guard let pointer = unsafe source?.pointee.ptr, let buffer = unsafe buffer, let flags = unsafe flags
    else { return 0 }
    let stream = unsafe Unmanaged<ServerStream>.fromOpaque(pointer).takeUnretainedValue()
    let count = min(length, stream.partSize, stream.answer.count - stream.sent)
    for index in 0..<count { unsafe buffer[index] = stream.answer[stream.sent + index] }
    stream.sent += count
    guard stream.sent == stream.answer.count else { return count }
    unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
    if !stream.trailers.isEmpty {
        unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue)
        unsafe withHeaderList(stream.trailers) { list, count in
            _ = unsafe nghttp2_submit_trailer(session, streamID, list, count)
        }
    }
    return count
}
