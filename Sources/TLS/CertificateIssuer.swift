// A certificate authority of our own, for the simulator and for tests: certificates that are good, expired, or for the
// wrong name are made here in milliseconds instead of lying about as files that expire one day.

import COpenSSL
import Glibc

/// A private authority that issues server and client certificates, P-256 throughout.
@safe package final class CertificateIssuer: Sendable {
    /// A certificate with its key, as PEM.
    package struct Issued: Sendable {
        package let certificatePEM: [UInt8]
        package let privateKeyPEM: [UInt8]
        package let certificateDER: [UInt8]

        /// Both in one PKCS#12 file, as a keychain exports them.
        package func pkcs12(password: String) throws(TLSError) -> [UInt8] {
            let identity = try TLSIdentity(certificateChainPEM: certificatePEM, privateKeyPEM: privateKeyPEM)
            ErrorQueue.clear()
            let file = unsafe PKCS12_create(
                password, "pgpush", identity.key, identity.certificate, nil, 0, 0, 2048, 2048, 0)
            defer { unsafe PKCS12_free(file) }
            guard unsafe file != nil, let der = unsafe encodedDER({ unsafe i2d_PKCS12(file, $0) }) else {
                throw ErrorQueue.failure(.certificate, "the certificate cannot be written as PKCS#12")
            }
            return der
        }
    }

    /// What a certificate is for.
    package enum Usage: Sendable { case server, client }

    nonisolated(unsafe) private let certificate: OpaquePointer
    nonisolated(unsafe) private let key: OpaquePointer

    /// A new authority; seconds count from now.
    package init(
        commonName: String = "Test CA", validFrom: Int = -3600, validTo: Int = 3650 * 86_400
    ) throws(TLSError) {
        ErrorQueue.clear()
        unsafe (certificate, key) = try unsafe Self.blank(commonName, validFrom, validTo)
        let extensions = [
            (NID_basic_constraints, "critical,CA:TRUE"), (NID_key_usage, "critical,keyCertSign,cRLSign"),
            (NID_subject_key_identifier, "hash"),
        ]
        try unsafe Self.extend(certificate, by: certificate, extensions)
        guard unsafe X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1,
            unsafe X509_sign(certificate, key, EVP_sha256()) > 0
        else { throw ErrorQueue.failure(.certificate, "the CA cannot be signed") }
    }

    /// The authority that was written with `certificatePEM` and `privateKeyPEM` before.
    package init(certificatePEM: [UInt8], privateKeyPEM: [UInt8]) throws(TLSError) {
        let identity = try TLSIdentity(certificateChainPEM: certificatePEM, privateKeyPEM: privateKeyPEM)
        unsafe X509_up_ref(identity.certificate)
        unsafe EVP_PKEY_up_ref(identity.key)
        unsafe certificate = unsafe identity.certificate
        unsafe key = unsafe identity.key
    }

    deinit {
        unsafe X509_free(certificate)
        unsafe EVP_PKEY_free(key)
    }

    /// The authority's certificate, for those who shall trust it.
    package var certificatePEM: [UInt8] {
        get throws(TLSError) { try unsafe pemOf(certificate) }
    }

    /// The authority's key, to keep it for later.
    package var privateKeyPEM: [UInt8] {
        get throws(TLSError) { try unsafe pemOf(key: key) }
    }

    /// Issues a certificate.
    ///
    /// `names` are DNS names and IP addresses (recognised by their form), none for clients; `validFrom` and `validTo` are
    /// seconds from now, negative for the past; `userID` is the UID of the subject, where Apple's client certificates
    /// carry the topic; `extensions` are further ones by number, with their DER values.
    ///
    /// - Returns: certificate and key.
    /// - Throws: `certificate` when subject, names or validity are not possible.
    package func issue(
        commonName: String = "localhost", names: [String] = ["localhost", "127.0.0.1"], usage: Usage = .server,
        validFrom: Int = -3600, validTo: Int = 365 * 86_400, userID: String? = nil,
        extensions own: [(oid: String, der: [UInt8])] = []
    ) throws(TLSError) -> Issued {
        ErrorQueue.clear()
        let (leaf, leafKey) = try unsafe Self.blank(commonName, validFrom, validTo, userID: userID)
        defer {
            unsafe X509_free(leaf)
            unsafe EVP_PKEY_free(leafKey)
        }
        var extensions: [(Int32, String)] = [
            (NID_basic_constraints, "critical,CA:FALSE"), (NID_key_usage, "critical,digitalSignature"),
            (NID_ext_key_usage, usage == .server ? "serverAuth" : "clientAuth"),
        ]
        if !names.isEmpty { extensions.append((NID_subject_alt_name, try Self.alternativeNames(names))) }
        try unsafe Self.extend(leaf, by: certificate, extensions)
        for (oid, der) in own where unsafe pgpush_x509_add_raw_extension(leaf, oid, der, Int32(der.count)) != 1 {
            throw ErrorQueue.failure(.certificate, "extension \(oid)")
        }
        guard unsafe X509_set_issuer_name(leaf, X509_get_subject_name(certificate)) == 1,
            unsafe X509_sign(leaf, key, EVP_sha256()) > 0,
            let der = unsafe encodedDER({ unsafe i2d_X509(leaf, $0) })
        else { throw ErrorQueue.failure(.certificate, "the certificate cannot be signed") }
        return unsafe Issued(
            certificatePEM: try pemOf(leaf), privateKeyPEM: try pemOf(key: leafKey), certificateDER: der)
    }

    // MARK: Parts

    /// A certificate with subject, validity, serial number and a fresh key, not yet signed.
    private static func blank(
        _ commonName: String, _ validFrom: Int, _ validTo: Int, userID: String? = nil
    ) throws(TLSError) -> (OpaquePointer, OpaquePointer) {
        guard let certificate = unsafe X509_new() else { throw ErrorQueue.failure(.library, "no certificate") }
        guard let key = unsafe pgpush_generate_p256() else {
            unsafe X509_free(certificate)
            throw ErrorQueue.failure(.library, "no key")
        }
        var serial: UInt64 = 0
        unsafe withUnsafeMutableBytes(of: &serial) { bytes in
            _ = unsafe RAND_bytes(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), 8)
        }
        let name = unsafe X509_get_subject_name(certificate)
        var ready = unsafe X509_set_version(certificate, 2) == 1
        ready = unsafe ready && ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1) == 1
        ready = unsafe ready && X509_gmtime_adj(X509_getm_notBefore(certificate), validFrom) != nil
        ready = unsafe ready && X509_gmtime_adj(X509_getm_notAfter(certificate), validTo) != nil
        ready = unsafe ready && X509_set_pubkey(certificate, key) == 1
        ready = unsafe ready && add(NID_commonName, commonName, to: name)
        if let userID { ready = unsafe ready && add(NID_userId, userID, to: name) }
        guard ready else {
            unsafe X509_free(certificate)
            unsafe EVP_PKEY_free(key)
            throw ErrorQueue.failure(.certificate, "the certificate's subject or validity is not possible")
        }
        return unsafe (certificate, key)
    }

    private static func add(_ nid: Int32, _ text: String, to name: OpaquePointer?) -> Bool {
        let bytes = Array(text.utf8)
        return unsafe X509_NAME_add_entry_by_NID(name, nid, MBSTRING_UTF8, bytes, Int32(bytes.count), -1, 0) == 1
    }

    private static func extend(
        _ certificate: OpaquePointer, by issuer: OpaquePointer, _ extensions: [(Int32, String)]
    ) throws(TLSError) {
        for (nid, value) in extensions where unsafe pgpush_x509_add_extension(certificate, issuer, nid, value) != 1 {
            throw ErrorQueue.failure(.certificate, "extension \(value)")
        }
    }

    /// "DNS:localhost,IP:127.0.0.1"; characters that OpenSSL's syntax would read otherwise are refused.
    private static func alternativeNames(_ names: [String]) throws(TLSError) -> String {
        var parts: [String] = []
        for name in names {
            guard name.utf8.allSatisfy({ isNameByte($0) }) else {
                throw TLSError(.certificate, "a certificate cannot be made for this name")
            }
            let address = unsafe a2i_IPADDRESS(name)
            parts.append((unsafe address == nil ? "DNS:" : "IP:") + name)
            unsafe ASN1_OCTET_STRING_free(address)
        }
        ErrorQueue.clear()
        return parts.joined(separator: ",")
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._:*".utf8.contains(byte)
        }
    }
}

private func pemOf(_ certificate: OpaquePointer) throws(TLSError) -> [UInt8] {
    guard let bytes = unsafe MemoryBIO.writing({ unsafe PEM_write_bio_X509($0, certificate) == 1 }) else {
        throw ErrorQueue.failure(.certificate, "the certificate cannot be written as PEM")
    }
    return bytes
}

private func pemOf(key: OpaquePointer) throws(TLSError) -> [UInt8] {
    let bytes = unsafe MemoryBIO.writing { unsafe PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) == 1 }
    guard let bytes else { throw ErrorQueue.failure(.certificate, "the key cannot be written as PEM") }
    return bytes
}
