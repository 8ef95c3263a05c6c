// The other half of an ES256 key: checks signatures (the simulator and the tests do), never makes one.

import COpenSSL

/// An ECDSA P-256 public key.
@safe package final class P256PublicKey: Sendable {
    nonisolated(unsafe) private let pointer: OpaquePointer

    /// Reads SubjectPublicKeyInfo as PEM, DER or base64 of either.
    ///
    /// - Throws: `keyForm` when it is no public key, `keyKind` when it is on another curve.
    package init(_ contents: [UInt8]) throws(TLSError) {
        let der = try KeyText.unwrap(contents).der
        unsafe self.pointer = try unsafe Self.decode(der)
    }

    /// Copies the public part of a private key.
    init(publicPartOf key: OpaquePointer) throws(TLSError) {
        guard let der = unsafe encodedDER({ unsafe i2d_PUBKEY(key, $0) }) else {
            throw ErrorQueue.failure(.library, "the key has no public half")
        }
        unsafe self.pointer = try unsafe Self.decode(der)
    }

    deinit { unsafe EVP_PKEY_free(pointer) }

    private static func decode(_ der: [UInt8]) throws(TLSError) -> OpaquePointer {
        ErrorQueue.clear()
        let pointer = unsafe der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var cursor = buffer.baseAddress
            return unsafe d2i_PUBKEY(nil, &cursor, buffer.count)
        }
        ErrorQueue.clear()
        guard let pointer = unsafe pointer else { throw TLSError(.keyForm, "this is not a public key") }
        let kind = unsafe keyKind(of: pointer)
        guard kind == "P-256" else {
            unsafe EVP_PKEY_free(pointer)
            throw TLSError(.keyKind, "this is a public key of kind \(kind); one on P-256 is needed")
        }
        return unsafe pointer
    }

    /// Whether `signature` (64 bytes r || s) is this key's ES256 signature of `message`; false for any other bytes.
    package func verifyES256(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        defer { ErrorQueue.clear() }
        guard let der = ECDSASignature.der(fromRaw: signature) else { return false }
        guard let context = unsafe EVP_MD_CTX_new() else { return false }
        defer { unsafe EVP_MD_CTX_free(context) }
        guard unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, pointer) == 1 else { return false }
        return unsafe EVP_DigestVerify(context, der, der.count, message, message.count) == 1
    }

    /// The key as SubjectPublicKeyInfo in PEM.
    package var pem: String {
        get throws(TLSError) {
            guard let bytes = unsafe MemoryBIO.writing({ unsafe PEM_write_bio_PUBKEY($0, pointer) == 1 }) else {
                throw ErrorQueue.failure(.library, "the public key cannot be written as PEM")
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

/// The two spellings of an ECDSA signature: OpenSSL's DER and the 64 bytes of JSON Web Signatures.
enum ECDSASignature {
    static func raw(fromDER der: [UInt8]) -> [UInt8]? {
        let signature = unsafe der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var cursor = buffer.baseAddress
            return unsafe d2i_ECDSA_SIG(nil, &cursor, buffer.count)
        }
        guard let signature = unsafe signature else { return nil }
        defer { unsafe ECDSA_SIG_free(signature) }
        var raw = [UInt8](repeating: 0, count: 64)
        let written = unsafe raw.withUnsafeMutableBufferPointer { buffer -> Bool in
            guard let base = buffer.baseAddress else { return false }
            return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + 32, 32) == 32
        }
        return written ? raw : nil
    }

    static func der(fromRaw raw: [UInt8]) -> [UInt8]? {
        guard raw.count == 64, let signature = unsafe ECDSA_SIG_new() else { return nil }
        defer { unsafe ECDSA_SIG_free(signature) }
        let r = unsafe raw.withUnsafeBufferPointer { unsafe BN_bin2bn($0.baseAddress, 32, nil) }
        let s = unsafe raw.withUnsafeBufferPointer { unsafe BN_bin2bn($0.baseAddress.map { unsafe $0 + 32 }, 32, nil) }
        guard unsafe ECDSA_SIG_set0(signature, r, s) == 1 else {
            unsafe BN_free(r)
            unsafe BN_free(s)
            return nil
        }
        return unsafe encodedDER { unsafe i2d_ECDSA_SIG(signature, $0) }
    }
}
