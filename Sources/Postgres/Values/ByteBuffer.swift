// The bytes of parameters. One growing block whose memory is kept between uses, so that a settle of thousands of elements
// allocates nothing once it is warm; numbers are written in network byte order.

import Glibc

/// A growing block of bytes; not shared between threads.
@safe final class ByteBuffer {
    /// The server refuses messages over 1 GB; all parameters of one statement must stay below.
    static let limit = 1 << 30 - 1 << 16

    private var base: UnsafeMutableRawPointer?
    private(set) var capacity = 0
    private(set) var count = 0
    /// Set when an append would have gone past the limit; what was appended since is missing.
    private(set) var isOverfull = false

    init() {}

    deinit { unsafe free(base) }

    /// The bytes; good until the next append.
    var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

    /// Forgets the bytes and keeps the memory.
    func removeAll() {
        count = 0
        isOverfull = false
    }

    /// Makes room for `length` bytes more and returns where they begin; nil past the limit.
    private func extend(by length: Int) -> UnsafeMutableRawPointer? {
        let (total, overflow) = count.addingReportingOverflow(length)
        // An empty text needs an address too: a null pointer would be NULL.
        if unsafe overflow || total > capacity || base == nil, !grow(to: total, overflow) { return nil }
        let start = unsafe base.map { unsafe $0 + count }
        count = total
        return unsafe start
    }

    private func grow(to total: Int, _ overflow: Bool) -> Bool {
        guard !overflow, total <= ByteBuffer.limit else {
            isOverfull = true
            return false
        }
        let wanted = min(max(total, capacity * 2, 256), ByteBuffer.limit)
        guard let grown = unsafe realloc(base, wanted) else {
            isOverfull = true
            return false
        }
        unsafe base = grown
        capacity = wanted
        return true
    }

    /// Makes room for `length` bytes more without appending them.
    func reserve(_ length: Int) {
        let (total, overflow) = count.addingReportingOverflow(length)
        if overflow || total > capacity { _ = grow(to: total, overflow) }
    }

    func append<T: FixedWidthInteger>(_ value: T) {
        guard let start = unsafe extend(by: MemoryLayout<T>.size) else { return }
        unsafe start.storeBytes(of: value.bigEndian, as: T.self)
    }

    func append(_ source: UnsafeRawBufferPointer) {
        guard let start = unsafe extend(by: source.count), let from = source.baseAddress else { return }
        unsafe memcpy(start, from, source.count)
    }

    /// Appends the UTF-8 bytes of `text`; returns how many.
    func append(utf8 text: String) -> Int {
        var text = text
        return text.withUTF8 { utf8 in
            unsafe append(UnsafeRawBufferPointer(utf8))
            return utf8.count
        }
    }

    /// Replaces four bytes that were written before.
    func overwrite(_ value: Int32, at offset: Int) {
        guard let base = unsafe base, offset >= 0, offset + 4 <= count else { return }
        unsafe (base + offset).storeBytes(of: value.bigEndian, as: Int32.self)
    }
}
