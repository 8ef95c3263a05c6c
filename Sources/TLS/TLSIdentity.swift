// A certificate chain with its private key: what a server shows, and a client with certificate authentication.

import COpenSSL

/// A certificate, the certificates above it, and the private key that belongs to it; immutable.
@safe package final class TLSIdentity: Sendable {
    nonisolated(unsafe) let certificate: OpaquePointer
    nonisolated(unsafe) let chain: [OpaquePointer]
    nonisolated(unsafe) let key: OpaquePointer

    /// Reads PEM: the leaf certificate first, then those above it; the key unencrypted.
    ///
    /// - Throws: `certificate` when a part cannot be read or the key belongs to another certificate.
    package init(certificateChainPEM: [UInt8], privateKeyPEM: [UInt8]) throws(TLSError) {
        let certificates = unsafe readCertificates(certificateChainPEM)
        guard let leaf = unsafe certificates.first else {
            throw TLSError(.certificate, "no certificate in PEM form (-----BEGIN CERTIFICATE-----) found")
        }
        guard let key = unsafe Self.readKey(privateKeyPEM) else {
            unsafe certificates.forEach { unsafe X509_free($0) }
            throw TLSError(.certificate, "the private key of the certificate is not readable as unencrypted PEM")
        }
        unsafe certificate = leaf
        unsafe chain = Array(certificates.dropFirst())
        unsafe self.key = key
        let belongs = unsafe X509_check_private_key(certificate, key) == 1
        ErrorQueue.clear()
        guard belongs else {
            throw TLSError(.certificate, "the private key does not belong to the certificate")
        }
    }

    /// Takes over objects that belong together.
    init(adopting certificate: OpaquePointer, chain: [OpaquePointer], key: OpaquePointer) {
        unsafe self.certificate = certificate
        unsafe self.chain = chain
        unsafe self.key = key
    }

    deinit {
        unsafe X509_free(certificate)
        unsafe chain.forEach { unsafe X509_free($0) }
        unsafe EVP_PKEY_free(key)
    }

    private static func readKey(_ pem: [UInt8]) -> OpaquePointer? {
        defer { ErrorQueue.clear() }
        return unsafe MemoryBIO.reading(pem) { unsafe PEM_read_bio_PrivateKey($0, nil, refusePassphrase, nil) } ?? nil
    }

    /// Puts the identity into an SSL_CTX.
    func install(in context: OpaquePointer) throws(TLSError) {
        ErrorQueue.clear()
        var installed = unsafe SSL_CTX_use_certificate(context, certificate) == 1
        installed = unsafe installed && SSL_CTX_use_PrivateKey(context, key) == 1
        unsafe chain.forEach { installed = unsafe installed && pgpush_ctx_add_chain(context, $0) == 1 }
        guard installed else { throw ErrorQueue.failure(.certificate, "the certificate cannot be used") }
    }
}

/// All certificates of a PEM text in order, none when there is none; the caller frees them.
func readCertificates(_ pem: [UInt8]) -> [OpaquePointer] {
    defer { ErrorQueue.clear() }
    return unsafe MemoryBIO.reading(pem) { bio in
        var found: [OpaquePointer] = unsafe []
        while let next = unsafe PEM_read_bio_X509(bio, nil, refusePassphrase, nil) { unsafe found.append(next) }
        return unsafe found
    } ?? []
}
