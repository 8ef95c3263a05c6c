// nghttp2's constants and header lists in Swift's types.

import CNGHTTP2

/// Frame types as they stand in a frame header (RFC 9113 §6).
enum FrameType {
    static let data = UInt8(NGHTTP2_DATA.rawValue)
    static let headers = UInt8(NGHTTP2_HEADERS.rawValue)
    static let resetStream = UInt8(NGHTTP2_RST_STREAM.rawValue)
    static let settings = UInt8(NGHTTP2_SETTINGS.rawValue)
    static let ping = UInt8(NGHTTP2_PING.rawValue)
    static let goAway = UInt8(NGHTTP2_GOAWAY.rawValue)
}

enum FrameFlag {
    static let endStream = UInt8(NGHTTP2_FLAG_END_STREAM.rawValue)
    static let ack = UInt8(NGHTTP2_FLAG_ACK.rawValue)
}

/// nghttp2's error number as a fault.
func protocolFault(_ number: Int) -> HTTP2Fault {
    let text = unsafe nghttp2_strerror(Int32(clamping: number)).map { unsafe String(cString: $0) } ?? "error \(number)"
    return HTTP2Fault(.protocolError, native: number, "HTTP/2 failed: \(text)")
}

/// Lends header fields to nghttp2 for the time of one call; it copies what it keeps.
func withHeaderList<T>(
    _ fields: [(name: String, value: String)], _ body: (UnsafeMutablePointer<nghttp2_nv>?, Int) -> T
) -> T {
    var bytes: [UInt8] = []
    for field in fields {
        bytes.append(contentsOf: field.name.utf8)
        bytes.append(contentsOf: field.value.utf8)
    }
    return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
        var list: [nghttp2_nv] = unsafe []
        var offset = 0
        for field in fields {
            let (nameLength, valueLength) = (field.name.utf8.count, field.value.utf8.count)
            let name = unsafe buffer.baseAddress.map { unsafe $0 + offset }
            let value = unsafe name.map { unsafe $0 + nameLength }
            unsafe list.append(
                nghttp2_nv(name: name, value: value, namelen: nameLength, valuelen: valueLength, flags: 0))
            offset += nameLength + valueLength
        }
        return unsafe list.withUnsafeMutableBufferPointer { unsafe body($0.baseAddress, $0.count) }
    }
}
