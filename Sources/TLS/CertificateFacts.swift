// What stands in a certificate, as far as somebody asks: names, times, and extensions by their numbers. The meaning of Apple's own is
// not known here.

import COpenSSL

/// Facts of an X.509 certificate.
package struct CertificateFacts: Sendable, Equatable {
    /// The subject's common name, empty when there is none.
    package let commonName: String
    /// The subject's UID, where Apple writes the topic.
    package let userID: String?
    /// Seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64
    /// SHA-256 over the whole certificate, 64 hexadecimal digits.
    package let fingerprint: String
}

extension CertificateFacts {
    /// Reads a certificate in DER; nil when it is none.
    ///
    /// - Parameters:
    ///   - der: The certificate.
    ///   - oids: Numbers of extensions (`1.2.3`).
    /// - Returns: What it says, and the DER values of those extensions that it has.
    package static func read(
        _ der: [UInt8], extensions oids: [String]
    ) -> (facts: CertificateFacts, extensions: [String: [UInt8]])? {
        let certificate = unsafe der.withUnsafeBufferPointer { bytes in
            var cursor = bytes.baseAddress
            return unsafe d2i_X509(nil, &cursor, bytes.count)
        }
        ErrorQueue.clear()
        guard let certificate = unsafe certificate else { return nil }
        defer { unsafe X509_free(certificate) }
        var values: [String: [UInt8]] = [:]
        for oid in oids { values[oid] = unsafe extensionValue(oid, of: certificate) }
        return unsafe (CertificateFacts(of: certificate), values)
    }

    fileprivate init(of certificate: OpaquePointer) {
        let subject = unsafe X509_get_subject_name(certificate)
        commonName = unsafe text(of: subject, NID_commonName) ?? ""
        userID = unsafe text(of: subject, NID_userId)
        notBefore = unsafe pgpush_asn1_unix_time(X509_get0_notBefore(certificate))
        notAfter = unsafe pgpush_asn1_unix_time(X509_get0_notAfter(certificate))
        fingerprint = hexDigest(unsafe encodedDER { unsafe i2d_X509(certificate, $0) } ?? [])
    }
}

extension TLSIdentity {
    /// What the certificate says about itself.
    package var facts: CertificateFacts { unsafe CertificateFacts(of: certificate) }

    /// SHA-256 over all that is shown to a server, the certificates above included; 64 hexadecimal digits.
    package var chainFingerprint: String {
        hexDigest(
            unsafe ([certificate] + chain).reduce(into: []) { bytes, next in
                bytes += unsafe encodedDER { unsafe i2d_X509(next, $0) } ?? []
            })
    }

    /// The DER value of the extension with this number (`1.2.3`); nil when the certificate has none.
    package func extensionValue(_ oid: String) -> [UInt8]? { unsafe TLS.extensionValue(oid, of: certificate) }
}

private func extensionValue(_ oid: String, of certificate: OpaquePointer) -> [UInt8]? {
    guard let value = unsafe pgpush_x509_extension(certificate, oid) else { return nil }
    let length = unsafe ASN1_STRING_length(value)
    guard length > 0, let start = unsafe ASN1_STRING_get0_data(value) else { return [] }
    return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: Int(length)))
}

private func text(of name: OpaquePointer?, _ nid: Int32) -> String? {
    let place = unsafe X509_NAME_get_index_by_NID(name, nid, -1)
    guard place >= 0, let entry = unsafe X509_NAME_get_entry(name, place) else { return nil }
    var bytes: UnsafeMutablePointer<UInt8>?
    let length = unsafe ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(entry))
    guard length >= 0, let bytes = unsafe bytes else {
        ErrorQueue.clear()
        return nil
    }
    defer { unsafe pgpush_free(bytes) }
    return unsafe String(decoding: UnsafeBufferPointer(start: bytes, count: Int(length)), as: UTF8.self)
}

private func hexDigest(_ bytes: [UInt8]) -> String {
    ((try? SHA256.digest(bytes)) ?? []).map { byte in
        let text = String(byte, radix: 16)
        return text.utf8.count == 1 ? "0" + text : text
    }.joined()
}
