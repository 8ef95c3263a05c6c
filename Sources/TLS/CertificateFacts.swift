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

extension TLSIdentity {
    /// What the certificate says about itself.
    package var facts: CertificateFacts {
        let subject = unsafe X509_get_subject_name(certificate)
        let der = unsafe encodedDER { unsafe i2d_X509(certificate, $0) } ?? []
        return unsafe CertificateFacts(
            commonName: Self.text(of: subject, NID_commonName) ?? "", userID: Self.text(of: subject, NID_userId),
            notBefore: pgpush_asn1_unix_time(X509_get0_notBefore(certificate)),
            notAfter: pgpush_asn1_unix_time(X509_get0_notAfter(certificate)), fingerprint: Self.fingerprint(der))
    }

    /// The DER value of the extension with this number (`1.2.3`); nil when the certificate has none.
    package func extensionValue(_ oid: String) -> [UInt8]? {
        guard let value = unsafe pgpush_x509_extension(certificate, oid) else { return nil }
        let length = unsafe ASN1_STRING_length(value)
        guard length > 0, let start = unsafe ASN1_STRING_get0_data(value) else { return [] }
        return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: Int(length)))
    }

    private static func text(of name: OpaquePointer?, _ nid: Int32) -> String? {
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

    private static func fingerprint(_ der: [UInt8]) -> String {
        ((try? SHA256.digest(der)) ?? []).map { byte in
            let text = String(byte, radix: 16)
            return text.utf8.count == 1 ? "0" + text : text
        }.joined()
    }
}
