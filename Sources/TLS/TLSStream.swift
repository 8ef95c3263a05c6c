// One TLS connection on a non-blocking socket. It never waits: each call says what it needs to go on, and the owner of
// the socket waits for that. The owner opens and closes the descriptor; this class only reads and writes it.
//
//   handshake() until .done ──> read / write at will ──> shutdown() ──> (owner closes the descriptor)

import COpenSSL
import Glibc

/// Result of one step of a connection.
package enum TLSStep: Equatable {
    /// So many bytes were read or written; 0 for a handshake that is complete.
    case done(Int)
    /// Nothing more until the socket is readable.
    case wantRead
    /// Nothing more until the socket is writable.
    case wantWrite
    /// The peer has ended the connection in order.
    case closed
    /// The connection is of no more use.
    case failed(TLSError)
}

/// TLS over one descriptor; it belongs to one loop.
@safe package final class TLSStream {
    private let ssl: OpaquePointer
    /// Kept alive: its callbacks point into it.
    private let context: AnyObject
    private let host: String?
    private var broken = false

    /// A client's side; the server must show a certificate for `host` (a DNS name, sent as SNI, or an IP address).
    package init(client context: TLSClientContext, descriptor: Int32, host: String) throws(TLSError) {
        unsafe ssl = try unsafe Self.make(context.pointer, descriptor)
        self.context = context
        self.host = host
        unsafe SSL_set_connect_state(ssl)
        unsafe SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        let isAddress = unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
        ErrorQueue.clear()
        guard unsafe isAddress || (SSL_set1_host(ssl, host) == 1 && pgpush_ssl_server_name(ssl, host) == 1) else {
            throw ErrorQueue.failure(.library, "host name cannot be used for TLS")
        }
    }

    /// A server's side.
    package init(server context: TLSServerContext, descriptor: Int32) throws(TLSError) {
        unsafe ssl = try unsafe Self.make(context.pointer, descriptor)
        self.context = context
        host = nil
        unsafe SSL_set_accept_state(ssl)
    }

    deinit { unsafe SSL_free(ssl) }

    private static func make(_ context: OpaquePointer, _ descriptor: Int32) throws(TLSError) -> OpaquePointer {
        ErrorQueue.clear()
        guard let ssl = unsafe SSL_new(context) else { throw ErrorQueue.failure(.library, "no TLS connection") }
        guard unsafe SSL_set_fd(ssl, descriptor) == 1 else {
            unsafe SSL_free(ssl)
            throw ErrorQueue.failure(.library, "no TLS connection")
        }
        return unsafe ssl
    }

    // MARK: Steps

    /// Goes on with the handshake; `.done(0)` once it is complete and, for a client, the peer verified.
    package func handshake() -> TLSStep {
        ErrorQueue.clear()
        let result = unsafe SSL_do_handshake(ssl)
        return result == 1 ? .done(0) : step(result, handshaking: true)
    }

    /// Reads what has arrived, at most `buffer.count` bytes; call again until `.wantRead`, or while `hasPending`.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> TLSStep {
        ErrorQueue.clear()
        var count = 0
        let result = unsafe SSL_read_ex(ssl, buffer.baseAddress, buffer.count, &count)
        return result == 1 ? .done(count) : step(result, handshaking: false)
    }

    /// Writes as much of `bytes` as the socket takes; after `.wantWrite` the same bytes must come first again.
    package func write(_ bytes: UnsafeRawBufferPointer) -> TLSStep {
        guard bytes.count > 0 else { return .done(0) }
        ErrorQueue.clear()
        var count = 0
        let result = unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count)
        return result == 1 ? .done(count) : step(result, handshaking: false)
    }

    /// Tells the peer that nothing more will come, as far as the socket takes it; does not wait for the answer.
    package func shutdown() {
        guard !broken else { return }
        ErrorQueue.clear()
        unsafe SSL_shutdown(ssl)
        ErrorQueue.clear()
    }

    /// Ends the connection by a fatal alert, as somebody does who cannot read what he was sent; for doubles of a server.
    ///
    /// OpenSSL sends one only by its own judgement, so it is given a record to read that no peer has encrypted.
    package func alert() {
        guard !broken, let garbage = unsafe BIO_new(BIO_s_mem()) else { return }
        // More than one record may hold, since the beginning of a real one may have been read already.
        let record = [0x17, 0x03, 0x03, 0x00, 0x40] + [UInt8](repeating: 0xAA, count: 64)
        for _ in 0..<400 { unsafe BIO_write(garbage, record, Int32(record.count)) }
        unsafe SSL_set0_rbio(ssl, garbage)
        var waste = [UInt8](repeating: 0, count: 16_384)
        // Whole records that had been read before are given out first.
        while case .done = unsafe waste.withUnsafeMutableBytes({ unsafe read(into: $0) }) {}
    }

    /// Whether bytes wait inside OpenSSL, for which the descriptor will not become readable.
    package var hasPending: Bool { unsafe SSL_has_pending(ssl) == 1 }

    // MARK: What was agreed

    /// The protocol agreed by ALPN; nil when none was.
    package var selectedALPN: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        unsafe SSL_get0_alpn_selected(ssl, &name, &length)
        guard length > 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// "TLSv1.3" and the like.
    package var version: String { unsafe SSL_get_version(ssl).map { unsafe String(cString: $0) } ?? "" }

    /// The peer's certificate in DER, when it showed one.
    package var peerCertificate: [UInt8]? {
        guard let certificate = unsafe SSL_get1_peer_certificate(ssl) else { return nil }
        defer { unsafe X509_free(certificate) }
        return unsafe encodedDER { unsafe i2d_X509(certificate, $0) }
    }

    // MARK: Faults

    private func step(_ result: Int32, handshaking: Bool) -> TLSStep {
        let systemError = errno
        switch unsafe SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .wantRead
        case SSL_ERROR_WANT_WRITE: return .wantWrite
        case SSL_ERROR_ZERO_RETURN where !handshaking: return .closed
        case SSL_ERROR_SYSCALL where systemError != 0: return fail(socketError(systemError, handshaking))
        case SSL_ERROR_SSL: return fail(protocolError(handshaking))
        default: return fail(ended(handshaking))
        }
    }

    private func fail(_ error: TLSError) -> TLSStep {
        broken = true
        ErrorQueue.clear()
        return .failed(error)
    }

    private func phase(_ handshaking: Bool) -> String { handshaking ? " during the TLS handshake" : "" }

    private func ended(_ handshaking: Bool) -> TLSError {
        TLSError(.truncated, "the peer closed the connection" + (handshaking ? phase(true) : " without a TLS close"))
    }

    private func socketError(_ number: Int32, _ handshaking: Bool) -> TLSError {
        let text = unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error"
        return TLSError(.socket, native: Int(number), "connection lost\(phase(handshaking)): \(text)")
    }

    private func protocolError(_ handshaking: Bool) -> TLSError {
        let verdict = unsafe SSL_get_verify_result(ssl)
        let (reason, text) = ErrorQueue.take()
        if reason == SSL_R_UNEXPECTED_EOF_WHILE_READING { return ended(handshaking) }
        if reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != Int(X509_V_OK) {
            let cause = unsafe String(cString: X509_verify_cert_error_string(verdict))
            let whose = host.map { "the certificate of \($0)" } ?? "the client's certificate"
            return TLSError(.verification, native: verdict, "\(whose) was not accepted: \(cause)")
        }
        if reason >= 1000 && reason < 1256 {
            return TLSError(.alert, native: reason, "the peer refused\(phase(handshaking)): \(text)")
        }
        return TLSError(.handshake, native: reason, "TLS failed\(phase(handshaking)): \(text)")
    }
}
