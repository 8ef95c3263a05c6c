// What all connections of one kind share: trusted authorities, identity, protocol versions, ALPN. Contexts are made
// once at start, where a bad file must stop the process with one clear line, and are shared by all lanes afterwards.

import COpenSSL

/// Where a client finds the authorities that it trusts.
package enum TLSTrust: Sendable, Equatable {
    /// The system's bundle (Debian: ca-certificates; SSL_CERT_FILE and SSL_CERT_DIR are heeded).
    case system
    /// Only the certificates in this PEM file.
    case bundleFile(String)
    /// Only these PEM certificates.
    case pem([UInt8])
}

/// Settings of the connections that we open; there is no way to switch verification off.
@safe package final class TLSClientContext: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer

    /// `certificate` is shown to servers that ask for one; `alpn` is in order of preference.
    ///
    /// - Throws: `trust`, `file` or `certificate`, naming the cause.
    package init(trust: TLSTrust, certificate: TLSIdentity? = nil, alpn: [String] = ["h2"]) throws(TLSError) {
        unsafe pointer = try unsafe makeContext(TLS_client_method())
        unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
        try load(trust)
        try unsafe certificate?.install(in: pointer)
        let names = wireNames(alpn)
        guard unsafe names.isEmpty || SSL_CTX_set_alpn_protos(pointer, names, UInt32(names.count)) == 0 else {
            throw TLSError(.library, "ALPN names refused")
        }
    }

    deinit { unsafe SSL_CTX_free(pointer) }

    private func load(_ trust: TLSTrust) throws(TLSError) {
        switch trust {
        case .system:
            guard unsafe SSL_CTX_set_default_verify_paths(pointer) == 1 else {
                throw ErrorQueue.failure(.trust, "the system's CA certificates cannot be loaded")
            }
        case .bundleFile(let path):
            let pem = try readSmallFile(path, limit: 16 << 20)
            guard try addTrusted(pem) > 0 else {
                throw TLSError(.trust, "\(path) holds no CA certificate in PEM form (-----BEGIN CERTIFICATE-----)")
            }
        case .pem(let pem):
            guard try addTrusted(pem) > 0 else { throw TLSError(.trust, "no CA certificate in PEM form given") }
        }
    }

    private func addTrusted(_ pem: [UInt8]) throws(TLSError) -> Int {
        try unsafe addAuthorities(pem, to: pointer)
    }
}

/// As what a server refuses every client certificate, however good it is; the client is told by the alert that belongs to it.
package enum ClientRefusal: Sendable { case revoked, expired }

/// Settings of the connections that we accept.
@safe package final class TLSServerContext: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer
    private let names: ProtocolNames

    /// A context for one identity.
    ///
    /// With `clientCA` (PEM), clients are asked for a certificate, and one that does not verify ends the handshake; a
    /// client without one is let in; `clientsRefusedAs` lets nobody in who shows one. `alpn` is what we speak, best first; a client that offers none of it is served
    /// without ALPN, and with an empty list ALPN is off.
    ///
    /// - Throws: `certificate` or `trust`, naming the cause.
    package init(
        identity: TLSIdentity, clientCA: [UInt8]? = nil, clientsRefusedAs refusal: ClientRefusal? = nil,
        alpn: [String] = ["h2"]
    ) throws(TLSError) {
        names = ProtocolNames(wireNames(alpn))
        unsafe pointer = try unsafe makeContext(TLS_server_method())
        unsafe SSL_CTX_set_num_tickets(pointer, 0)
        try unsafe identity.install(in: pointer)
        if !names.wire.isEmpty {
            unsafe SSL_CTX_set_alpn_select_cb(pointer, selectProtocol, Unmanaged.passUnretained(names).toOpaque())
        }
        guard let clientCA else { return }
        guard try unsafe addAuthorities(clientCA, to: pointer) > 0 else {
            throw TLSError(.trust, "no CA certificate for clients given")
        }
        switch refusal {
        case nil: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
        case .revoked: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, refuseAsRevoked)
        case .expired: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, refuseAsExpired)
        }
    }

    /// The same from PEM texts.
    package convenience init(
        certificateChainPEM: [UInt8], privateKeyPEM: [UInt8], clientCA: [UInt8]? = nil, alpn: [String] = ["h2"]
    ) throws(TLSError) {
        let identity = try TLSIdentity(certificateChainPEM: certificateChainPEM, privateKeyPEM: privateKeyPEM)
        try self.init(identity: identity, clientCA: clientCA, alpn: alpn)
    }

    deinit { unsafe SSL_CTX_free(pointer) }
}

/// ALPN names in wire form, kept at a stable place for the callback.
private final class ProtocolNames: Sendable {
    let wire: [UInt8]
    init(_ wire: [UInt8]) { self.wire = wire }
}

/// Picks our best protocol that the client offers; none in common: the connection goes on without ALPN.
private func selectProtocol(
    _: OpaquePointer?, chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, length: UnsafeMutablePointer<UInt8>?,
    offered: UnsafePointer<UInt8>?, offeredLength: UInt32, context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context = unsafe context, let chosen = unsafe chosen else { return SSL_TLSEXT_ERR_NOACK }
    let names = unsafe Unmanaged<ProtocolNames>.fromOpaque(context).takeUnretainedValue()
    var selected: UnsafeMutablePointer<UInt8>?
    let agreed = unsafe names.wire.withUnsafeBufferPointer { ours in
        // The result points into `offered` or, only without an agreement, into ours.
        unsafe SSL_select_next_proto(
            &selected, length, ours.baseAddress, UInt32(ours.count), offered, offeredLength)
    }
    guard agreed == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_NOACK }
    unsafe chosen.pointee = unsafe UnsafePointer(selected)
    return SSL_TLSEXT_ERR_OK
}

private func refuseAsRevoked(_: Int32, _ verification: OpaquePointer?) -> Int32 {
    unsafe X509_STORE_CTX_set_error(verification, X509_V_ERR_CERT_REVOKED)
    return 0
}

private func refuseAsExpired(_: Int32, _ verification: OpaquePointer?) -> Int32 {
    unsafe X509_STORE_CTX_set_error(verification, X509_V_ERR_CERT_HAS_EXPIRED)
    return 0
}

/// What clients and servers have in common: TLS 1.2 at least, forward secrecy and AEAD, partial writes, read-ahead.
private func makeContext(_ method: OpaquePointer?) throws(TLSError) -> OpaquePointer {
    pgpush_ignore_sigpipe()
    ErrorQueue.clear()
    guard let context = unsafe SSL_CTX_new(method) else { throw ErrorQueue.failure(.library, "no TLS context") }
    var ready = unsafe pgpush_ctx_minimum_tls12(context) == 1
    ready = unsafe ready && SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1
    guard ready else {
        unsafe SSL_CTX_free(context)
        throw ErrorQueue.failure(.library, "TLS 1.2 cannot be set up")
    }
    unsafe pgpush_ctx_partial_writes(context)
    unsafe pgpush_ctx_no_session_cache(context)
    unsafe pgpush_ctx_no_renegotiation(context)
    unsafe pgpush_ctx_read_ahead(context)
    unsafe SSL_CTX_set_default_read_buffer_len(context, 32_768)
    return unsafe context
}

/// Adds PEM certificates to the authorities that `context` trusts; returns how many there were.
private func addAuthorities(_ pem: [UInt8], to context: OpaquePointer) throws(TLSError) -> Int {
    let certificates = unsafe readCertificates(pem)
    defer { unsafe certificates.forEach { unsafe X509_free($0) } }
    let store = unsafe SSL_CTX_get_cert_store(context)
    ErrorQueue.clear()
    guard unsafe certificates.allSatisfy({ unsafe X509_STORE_add_cert(store, $0) == 1 }) else {
        throw ErrorQueue.failure(.trust, "a CA certificate cannot be used")
    }
    return unsafe certificates.count
}

/// ALPN's form: each name after its length in one byte.
private func wireNames(_ names: [String]) -> [UInt8] {
    names.flatMap { name in UInt8(exactly: name.utf8.count).map { [$0] + name.utf8 } ?? [] }
}
