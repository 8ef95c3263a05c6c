// What goes into the pool. A request is three parts with different lives: the head (method, fields, body), shared by all
// requests of a notification; the authorization, shared by all requests of a credential; and the request itself, which is
// two borrowed byte ranges and two numbers. So a push costs no allocation and no reference count.

import CNGHTTP2
package import Reactor

/// A header field of a request head.
package struct HTTP2Field: Sendable {
    /// Whether the peer is told to remember the field (RFC 7541 §6.2).
    package enum Indexing: Sendable {
        /// Remembered: for values that come again.
        case incremental
        /// Not remembered: for values that change with each request or notification.
        case none
    }

    package let name: String
    package let value: String
    package let indexing: Indexing

    /// A field; `name` in lower case, both without CR, LF and NUL.
    package init(_ name: String, _ value: String, indexing: Indexing = .incremental) {
        self.name = name
        self.value = value
        self.indexing = indexing
    }
}

/// Bytes at an address that never changes, so that header lists may point at them; immutable.
@safe package final class HTTP2SharedValue: Sendable {
    nonisolated(unsafe) let bytes: UnsafeMutableBufferPointer<UInt8>

    package init(_ bytes: [UInt8]) {
        unsafe self.bytes = .allocate(capacity: max(1, bytes.count))
        _ = unsafe self.bytes.initialize(from: bytes)
        count = bytes.count
    }

    package convenience init(_ text: String) { self.init(Array(text.utf8)) }

    package let count: Int

    deinit { unsafe bytes.deallocate() }
}

/// Method, header fields and body that many requests have in common; immutable.
@safe package final class HTTP2RequestHead: Sendable {
    /// Where a connection puts what is its own or the request's.
    static let authorityIndex = 2
    static let pathIndex = 3

    /// The header list with places for authority and path.
    nonisolated(unsafe) let template: UnsafeMutableBufferPointer<nghttp2_nv>
    nonisolated(unsafe) let body: UnsafeMutableBufferPointer<UInt8>
    private let text: HTTP2SharedValue

    /// A head; an empty body means that requests end with their header block.
    package init(method: String = "POST", fields: [HTTP2Field], body: [UInt8]) {
        let all =
            [
                HTTP2Field(":method", method), HTTP2Field(":scheme", "https"), HTTP2Field(":authority", ""),
                HTTP2Field(":path", "", indexing: .none),
            ] + fields
        text = HTTP2SharedValue(all.flatMap { Array($0.name.utf8) + Array($0.value.utf8) })
        unsafe template = .allocate(capacity: all.count)
        var offset = 0
        for (index, field) in all.enumerated() {
            let (name, value) = (field.name.utf8.count, field.value.utf8.count)
            let start = unsafe text.bytes.baseAddress
            var entry = unsafe nghttp2_nv()
            unsafe entry.name = unsafe start.map { unsafe $0 + offset }
            unsafe entry.namelen = name
            unsafe entry.value = unsafe start.map { unsafe $0 + offset + name }
            unsafe entry.valuelen = value
            unsafe entry.flags = headerFlags(indexed: field.indexing == .incremental)
            unsafe template.initializeElement(at: index, to: entry)
            offset += name + value
        }
        unsafe self.body = .allocate(capacity: max(1, body.count))
        _ = unsafe self.body.initialize(from: body)
        bodyCount = body.count
    }

    package let bodyCount: Int

    deinit {
        unsafe template.deallocate()
        unsafe body.deallocate()
    }
}

/// nghttp2 points at our strings instead of copying them.
func headerFlags(indexed: Bool) -> UInt8 {
    let flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
    return UInt8(truncatingIfNeeded: indexed ? flags : flags | NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
}

/// Who knows the value of the `authorization` field at the moment; asked on the pool's loop.
package protocol HTTP2AuthorizationSource: AnyObject {
    /// nil: there is none now, so nothing is sent until `HTTP2Pool.authorizationChanged`.
    var authorization: HTTP2SharedValue? { get }
}

/// One request; a trivial value.
///
/// The memory of `path` and `id` must stay as it is until the request has ended.
@safe package struct HTTP2Request {
    /// The value of `:path`.
    package var path: UnsafeRawBufferPointer
    /// The value of the configuration's `idField`; empty: the field is left out.
    package var id: UnsafeRawBufferPointer
    /// Comes back with the outcome.
    package var tag: UInt64
    /// The request has ended by then, whatever happens.
    package var deadline: MonotonicTime
    /// From then on nothing of it is sent any more; what has not been started by then ends as `.notProcessed(.withdrawn)`.
    package var startBy: MonotonicTime

    package init(
        path: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer, tag: UInt64, deadline: MonotonicTime,
        startBy: MonotonicTime = .distantFuture
    ) {
        unsafe self.path = path
        unsafe self.id = id
        self.tag = tag
        self.deadline = deadline
        self.startBy = startBy
    }

    /// Whether it is too late to send anything of it.
    func isPast(_ now: MonotonicTime) -> Bool { min(deadline, startBy) <= now }
}

/// The three ways in which a request can end.
package enum HTTP2Outcome: Sendable {
    /// The peer has answered.
    case answered(HTTP2Response)
    /// The peer has certainly not acted on the request.
    case notProcessed(HTTP2Fault)
    /// The request was sent in full, and nobody knows what became of it.
    case unknown(HTTP2Fault)
}

/// An answer.
package struct HTTP2Response: Sendable {
    /// The final status; 1xx are passed over.
    package var status: UInt16
    /// The first `HTTP2PoolConfiguration.bodyLimit` bytes.
    package var body: [UInt8]
    /// Those of the configuration's `responseFields` that were there.
    package var fields: [(name: String, value: String)]
    /// The connection it came over, for `HTTP2Pool.retire`.
    package var connection: UInt32

    package init(
        status: UInt16, body: [UInt8] = [], fields: [(name: String, value: String)] = [], connection: UInt32 = 0
    ) {
        self.status = status
        self.body = body
        self.fields = fields
        self.connection = connection
    }

    /// The first value of a field.
    package subscript(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// What a peer said when it closed a connection (the debug data of GOAWAY).
package struct HTTP2Farewell: Sendable {
    /// How many bytes are kept.
    package static let limit = 4096
    /// The connection; it takes no more requests.
    package let connection: UInt32
    /// At most `limit` bytes of any kind, at least one.
    package let debugData: [UInt8]
}

/// Who is told what became of requests; called on the loop, never inside nghttp2, so the pool may be used at once.
package protocol HTTP2RequestHandler: AnyObject {
    /// Called exactly once for each request that `submit` took.
    func requestEnded(tag: UInt64, _ outcome: HTTP2Outcome)
    /// The queue was full and is now half empty.
    func poolHasSpace()
}
