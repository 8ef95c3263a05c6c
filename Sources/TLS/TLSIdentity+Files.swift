// Certificates as Apple's customers have them: a .p12 that Keychain has exported, often under a cipher that OpenSSL 3 counts among the
// legacy ones, or a .pem with everything in it in any order, its key perhaps under a password.
//
// Whatever it was, it goes through PEM into the common library context: a key that lives in another one cannot be used for TLS.

import COpenSSL

extension TLSIdentity {
    /// Reads a certificate with its key from a .p12 or .pem file; its contents decide which it is.
    ///
    /// - Parameters:
    ///   - path: The file, at most 1 MB.
    ///   - password: What protects it; nil and empty mean that nothing does.
    /// - Throws: `file` or `certificate`, with the remedy; never with anything out of the file.
    package convenience init(file path: String, password: String?) throws(TLSError) {
        try self.init(contents: try readSmallFile(path, limit: 1 << 20), password: password)
    }

    /// The same from the bytes of the file.
    package convenience init(contents: [UInt8], password: String?) throws(TLSError) {
        // A PKCS#12 file is binary and begins with a SEQUENCE.
        try self.init(
            pem: contents.first == 0x30 ? try Self.pem(ofPKCS12: contents, password) : contents, password: password)
    }

    /// Certificates and one key in any order, the key in any PEM form, encrypted or not.
    private convenience init(pem: [UInt8], password: String?) throws(TLSError) {
        let certificates = unsafe readCertificates(pem)
        guard unsafe !certificates.isEmpty else {
            throw TLSError(
                .certificate,
                "holds no certificate: a .p12, or a .pem with -----BEGIN CERTIFICATE----- and the private key, is needed"
            )
        }
        let key: OpaquePointer
        do throws(TLSError) {
            unsafe key = try unsafe Self.key(in: pem, password)
        } catch {
            unsafe certificates.forEach { unsafe X509_free($0) }
            throw error
        }
        let owner = unsafe certificates.firstIndex { unsafe X509_check_private_key($0, key) == 1 }
        ErrorQueue.clear()
        guard let owner else {
            unsafe certificates.forEach { unsafe X509_free($0) }
            unsafe EVP_PKEY_free(key)
            throw TLSError(.certificate, "the private key belongs to none of the certificates: export both together")
        }
        var chain = unsafe certificates
        let leaf = unsafe chain.remove(at: owner)
        unsafe self.init(adopting: leaf, chain: chain, key: key)
    }

    private static func key(in pem: [UInt8], _ password: String?) throws(TLSError) -> OpaquePointer {
        ErrorQueue.clear()
        let password = password ?? ""
        let isEncrypted = contains(pem, "ENCRYPTED")
        let key = unsafe MemoryBIO.reading(pem) { bio in
            guard isEncrypted, !password.isEmpty else {
                return unsafe PEM_read_bio_PrivateKey(bio, nil, refusePassphrase, nil)
            }
            // Without a callback OpenSSL takes the argument for the password.
            var text = Array(password.utf8) + [0]
            return unsafe text.withUnsafeMutableBytes { unsafe PEM_read_bio_PrivateKey(bio, nil, nil, $0.baseAddress) }
        }
        let isUnsupported = pgpush_err_take_unsupported() == 1
        if let key = unsafe key ?? nil { return unsafe key }
        guard contains(pem, "PRIVATE KEY-----") else {
            throw TLSError(.certificate, "holds no private key: export certificate and key together")
        }
        guard isEncrypted else { throw TLSError(.certificate, "the private key in it is damaged: export it anew") }
        guard !isUnsupported else {
            throw TLSError(
                .certificate,
                """
                the private key in it is encrypted with an old cipher: convert the key by 'openssl pkey -provider legacy \
                -provider default -in FILE -aes256 -out KEY.pem' and put it in the place of the old one
                """)
        }
        throw TLSError(
            .certificate,
            password.isEmpty ? "the private key in it needs a password" : "the password does not open the private key")
    }

    private static func contains(_ bytes: [UInt8], _ text: String) -> Bool {
        let wanted = Array(text.utf8)
        guard bytes.count >= wanted.count else { return false }
        return (0...(bytes.count - wanted.count)).contains { bytes[$0..<($0 + wanted.count)].elementsEqual(wanted) }
    }

    // MARK: PKCS#12

    private static func pem(ofPKCS12 bytes: [UInt8], _ password: String?) throws(TLSError) -> [UInt8] {
        var (result, pem) = convert(bytes, password, legacy: false)
        if result == PGPUSH_PKCS12_CIPHER { (result, pem) = convert(bytes, password, legacy: true) }
        switch result {
        case PGPUSH_PKCS12_READ: return pem
        case PGPUSH_PKCS12_PASSWORD:
            let isGiven = password?.isEmpty == false
            throw TLSError(.certificate, isGiven ? "the password does not open it" : "it needs a password")
        case PGPUSH_PKCS12_NO_KEY:
            throw TLSError(.certificate, "holds no private key: export certificate and key together")
        case PGPUSH_PKCS12_NO_CERTIFICATE:
            throw TLSError(.certificate, "holds no certificate that belongs to its key: export both together")
        case PGPUSH_PKCS12_NO_LEGACY:
            throw TLSError(
                .certificate,
                """
                is encrypted with an old cipher, and OpenSSL's legacy provider is not installed: convert it by \
                'openssl pkcs12 -legacy -in FILE -nodes -out FILE.pem' where it is
                """)
        case PGPUSH_PKCS12_NO_MAC:
            throw TLSError(
                .certificate,
                "has no check sum (MAC), which OpenSSL wants: convert it by 'openssl pkcs12 -nomacver -in FILE -nodes -out FILE.pem'"
            )
        case PGPUSH_PKCS12_CIPHER:
            throw TLSError(
                .certificate,
                "is encrypted in a way that OpenSSL does not know: convert it by 'openssl pkcs12 -legacy -in FILE -nodes -out FILE.pem'"
            )
        default: throw TLSError(.certificate, "is neither a .p12 nor a .pem file, or is damaged")
        }
    }

    private static func convert(
        _ bytes: [UInt8], _ password: String?, legacy: Bool
    ) -> (pgpush_pkcs12_result, [UInt8]) {
        var result = PGPUSH_PKCS12_NOT_ONE
        let pem = unsafe MemoryBIO.reading(bytes) { input in
            unsafe MemoryBIO.writing { output in
                let code = unsafe (password ?? "").withCString {
                    unsafe pgpush_pkcs12_to_pem(input, $0, legacy ? 1 : 0, output)
                }
                result = pgpush_pkcs12_result(rawValue: UInt32(bitPattern: code))
                return result == PGPUSH_PKCS12_READ
            }
        }
        ErrorQueue.clear()
        return (result, (pem ?? nil) ?? [])
    }
}
