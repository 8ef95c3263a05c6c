// The key that signs provider tokens: ECDSA on P-256, read from every form people have, refused in one clear line
// otherwise. Nothing is ever signed with a key of another kind, and key text never appears in an error.

import COpenSSL

/// An ECDSA P-256 private key for ES256 signatures.
///
/// Immutable, so it may be shared between threads: OpenSSL's key is only read, each signature has a context of its own.
@safe package final class P256PrivateKey: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer
    package let publicKey: P256PublicKey

    private init(owning pointer: OpaquePointer) throws(TLSError) {
        unsafe self.pointer = pointer
        do {
            publicKey = try unsafe P256PublicKey(publicPartOf: pointer)
        } catch {
            unsafe EVP_PKEY_free(pointer)
            throw error
        }
    }

    deinit { unsafe EVP_PKEY_free(pointer) }

    /// A new random key.
    package static func generate() throws(TLSError) -> P256PrivateKey {
        guard let pointer = unsafe pgpush_generate_p256() else {
            throw ErrorQueue.failure(.library, "no P-256 key could be made")
        }
        return try unsafe P256PrivateKey(owning: pointer)
    }

    /// Reads a key from text or bytes in any of these forms: PEM (PKCS#8 or SEC1, with or without EC PARAMETERS), with
    /// real or literal line breaks, blanks instead of them, or quotes around it; DER; base64 of either.
    ///
    /// - Throws: `keyForm` or `keyKind` with one line for the operator.
    package convenience init(_ contents: [UInt8]) throws(TLSError) {
        let text = try KeyText.unwrap(contents)
        let pointer = try unsafe Self.decode(text)
        do {
            try unsafe Self.check(pointer)
        } catch {
            unsafe EVP_PKEY_free(pointer)
            throw error
        }
        try unsafe self.init(owning: pointer)
    }

    /// The same for a string, as an environment variable gives it.
    package convenience init(_ contents: String) throws(TLSError) { try self.init(Array(contents.utf8)) }

    /// The same for the contents of a file of at most 64 KiB.
    package convenience init(file path: String) throws(TLSError) {
        try self.init(try readSmallFile(path, limit: 65_536))
    }

    // MARK: Reading

    private static func decode(_ text: KeyText) throws(TLSError) -> OpaquePointer {
        ErrorQueue.clear()
        let pointer = unsafe text.der.withUnsafeBufferPointer { der -> OpaquePointer? in
            var cursor = der.baseAddress
            return unsafe d2i_AutoPrivateKey(nil, &cursor, der.count)
        }
        ErrorQueue.clear()
        if let pointer = unsafe pointer { return unsafe pointer }
        throw explain(text)
    }

    /// Says what bytes that are no private key are instead.
    private static func explain(_ text: KeyText) -> TLSError {
        defer { ErrorQueue.clear() }
        return unsafe text.der.withUnsafeBufferPointer { der in
            func parses(_ decode: (inout UnsafePointer<UInt8>?) -> Bool) -> Bool {
                var cursor = der.baseAddress
                return unsafe decode(&cursor)
            }
            if unsafe parses({ unsafe freed(d2i_PUBKEY(nil, &$0, der.count), EVP_PKEY_free) }) {
                return TLSError(.keyForm, "this is a public key; a P-256 private key (.p8) is needed")
            }
            if unsafe parses({ unsafe freed(d2i_PKCS12(nil, &$0, der.count), PKCS12_free) }) {
                return TLSError(.keyForm, "this is a PKCS#12 file (.p12); a P-256 private key (.p8) is needed")
            }
            if unsafe parses({ unsafe freed(d2i_X509(nil, &$0, der.count), X509_free) }) {
                return TLSError(.keyForm, "this is a certificate; a P-256 private key (.p8) is needed")
            }
            if unsafe parses({ unsafe freed(d2i_X509_SIG(nil, &$0, der.count), X509_SIG_free) }) {
                return KeyText.encrypted
            }
            return KeyText.truncated
        }
    }

    private static func freed(_ object: OpaquePointer?, _ free: (OpaquePointer?) -> Void) -> Bool {
        guard unsafe object != nil else { return false }
        unsafe free(object)
        return true
    }

    /// Only a named P-256 key whose two halves belong together passes.
    private static func check(_ pointer: OpaquePointer) throws(TLSError) {
        let kind = unsafe keyKind(of: pointer)
        guard kind == "P-256" else {
            throw TLSError(.keyKind, "this is a key of kind \(kind); a P-256 (prime256v1, ES256) private key is needed")
        }
        guard let context = unsafe EVP_PKEY_CTX_new(pointer, nil) else {
            throw ErrorQueue.failure(.library, "the key cannot be checked")
        }
        defer {
            unsafe EVP_PKEY_CTX_free(context)
            ErrorQueue.clear()
        }
        guard unsafe EVP_PKEY_pairwise_check(context) == 1 else {
            throw TLSError(.keyForm, "the private key is damaged: its public half does not belong to it")
        }
    }

    // MARK: Use

    /// Signs with ES256.
    ///
    /// - Returns: the 64 bytes r || s of RFC 7518 §3.4.
    package func signES256(_ message: [UInt8]) throws(TLSError) -> [UInt8] {
        ErrorQueue.clear()
        guard let context = unsafe EVP_MD_CTX_new() else { throw ErrorQueue.failure(.library, "no memory to sign") }
        defer { unsafe EVP_MD_CTX_free(context) }
        var der = [UInt8](repeating: 0, count: 80)
        var length = der.count
        guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, pointer) == 1,
            unsafe EVP_DigestSign(context, &der, &length, message, message.count) == 1
        else { throw ErrorQueue.failure(.library, "the provider key could not sign") }
        guard let signature = ECDSASignature.raw(fromDER: Array(der.prefix(length))) else {
            throw ErrorQueue.failure(.library, "the signature has an unexpected form")
        }
        return signature
    }

    /// The key as unencrypted PKCS#8 PEM.
    package var pkcs8PEM: String {
        get throws(TLSError) {
            let bytes = unsafe MemoryBIO.writing { bio in
                unsafe PEM_write_bio_PKCS8PrivateKey(bio, pointer, nil, nil, 0, nil, nil) == 1
            }
            guard let bytes else { throw ErrorQueue.failure(.library, "the key cannot be written as PEM") }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

/// "P-256", another curve's name, or the algorithm's.
func keyKind(of pointer: OpaquePointer) -> String {
    guard let name = unsafe EVP_PKEY_get0_type_name(pointer) else { return "unknown" }
    guard unsafe EVP_PKEY_is_a(pointer, "EC") == 1 else { return unsafe String(cString: name) }
    var group = [CChar](repeating: 0, count: 80)
    var length = 0
    guard unsafe EVP_PKEY_get_group_name(pointer, &group, group.count, &length) == 1 else {
        return "EC without a curve name"
    }
    let curve = String(decoding: group.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    return curve == "prime256v1" ? "P-256" : curve
}
