// Ownership and error queue of OpenSSL in one place, so that the other files neither leak nor forget a stale error.

import COpenSSL
import Glibc

/// Owns one OpenSSL object and frees it with the function that belongs to it.
@safe final class Owned {
    let pointer: OpaquePointer
    private let release: (OpaquePointer) -> Void

    init?(_ pointer: OpaquePointer?, release: @escaping (OpaquePointer) -> Void) {
        guard let pointer = unsafe pointer else { return nil }
        unsafe self.pointer = pointer
        unsafe self.release = release
    }

    deinit { unsafe release(pointer) }
}

/// OpenSSL's per-thread error queue.
enum ErrorQueue {
    /// Empties the queue; called before each operation whose result is read from it.
    static func clear() { ERR_clear_error() }

    /// The newest error's reason number and text; empties the queue.
    static func take() -> (reason: Int, text: String) {
        let code = ERR_peek_last_error()
        ERR_clear_error()
        guard code != 0 else { return (0, "no reason given") }
        let reason = Int(pgpush_err_reason(code))
        guard let text = unsafe ERR_reason_error_string(code) else { return (reason, "error \(reason)") }
        return (reason, unsafe String(cString: text))
    }

    static func failure(_ code: TLSError.Code, _ what: String) -> TLSError {
        let (reason, text) = take()
        return TLSError(code, native: reason, "\(what): \(text)")
    }
}

/// Memory BIOs, used for PEM only; traffic goes straight to the descriptor.
enum MemoryBIO {
    /// Bytes that OpenSSL reads from; they must stay alive while `body` runs.
    static func reading<T>(_ bytes: [UInt8], _ body: (OpaquePointer) -> T) -> T? {
        guard let length = Int32(exactly: bytes.count) else { return nil }
        return unsafe bytes.withUnsafeBytes { raw in
            guard let bio = unsafe BIO_new_mem_buf(raw.baseAddress, length) else { return nil }
            defer { unsafe BIO_free(bio) }
            return unsafe body(bio)
        }
    }

    /// What `body` wrote, or nil when it returned false.
    static func writing(_ body: (OpaquePointer) -> Bool) -> [UInt8]? {
        guard let bio = unsafe BIO_new(BIO_s_mem()) else { return nil }
        defer { unsafe BIO_free(bio) }
        guard unsafe body(bio) else { return nil }
        var start: UnsafeMutablePointer<CChar>?
        let length = unsafe pgpush_bio_data(bio, &start)
        guard length > 0, let start = unsafe start else { return [] }
        return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: length))
    }
}

/// OpenSSL must never ask the terminal for a passphrase: no answer makes an encrypted key fail instead.
func refusePassphrase(
    _: UnsafeMutablePointer<CChar>?, _: Int32, _: Int32, _: UnsafeMutableRawPointer?
) -> Int32 { 0 }

/// The DER bytes of an object; `encode` is called twice, first for the length, as the i2d functions want it.
func encodedDER(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
    let length = encode(nil)
    guard length > 0 else { return nil }
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, count in
        var cursor = buffer.baseAddress
        count = unsafe Int(encode(&cursor))
    }
    return bytes.count == Int(length) ? bytes : nil
}

/// The first `limit` bytes of a small file.
///
/// - Throws: `TLSError.Code.file` with errno when it cannot be read or is larger than `limit`.
package func readSmallFile(_ path: String, limit: Int = 1 << 20) throws(TLSError) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw fileError(path, errno) }
    defer { close(descriptor) }
    var contents: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16_384)
    while true {
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        if count < 0 && errno == EINTR { continue }
        guard count >= 0 else { throw fileError(path, errno) }
        guard count > 0 else { return contents }
        contents.append(contentsOf: chunk[..<count])
        guard contents.count <= limit else {
            throw TLSError(.file, native: Int(EFBIG), "\(path) is larger than \(limit) bytes")
        }
    }
}

private func fileError(_ path: String, _ number: Int32) -> TLSError {
    TLSError(.file, native: Int(number), "cannot read \(path): \(unsafe String(cString: strerror(number)))")
}
