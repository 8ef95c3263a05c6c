// Whether a trust store holds an authority that a peer is known to need: better found out before a handshake fails at night.

import COpenSSL

/// An authority by the parts of its name.
package struct KnownAuthority: Sendable {
    package let commonName: String
    private let parts: [(Int32, String)]

    /// Above the certificates of Apple's push service since 2025 (developer.apple.com/news/?id=09za8wzy).
    package static let userTrustRSA = KnownAuthority(
        commonName: "USERTrust RSA Certification Authority",
        parts: [
            (NID_countryName, "US"), (NID_stateOrProvinceName, "New Jersey"), (NID_localityName, "Jersey City"),
            (NID_organizationName, "The USERTRUST Network"),
        ])

    /// The name as OpenSSL has it; the caller frees it.
    fileprivate func name() -> OpaquePointer? {
        let name = unsafe X509_NAME_new()
        for (nid, text) in parts + [(NID_commonName, commonName)] {
            let bytes = Array(text.utf8)
            _ = unsafe X509_NAME_add_entry_by_NID(name, nid, MBSTRING_UTF8, bytes, Int32(bytes.count), -1, 0)
        }
        return unsafe name
    }
}

extension TLSClientContext {
    /// Whether connections of this context would trust the authority.
    package func trusts(_ authority: KnownAuthority) -> Bool {
        defer { ErrorQueue.clear() }
        guard let search = unsafe X509_STORE_CTX_new() else { return false }
        defer { unsafe X509_STORE_CTX_free(search) }
        let name = unsafe authority.name()
        defer { unsafe X509_NAME_free(name) }
        guard unsafe X509_STORE_CTX_init(search, SSL_CTX_get_cert_store(pointer), nil, nil) == 1,
            let found = unsafe X509_STORE_CTX_get_obj_by_subject(search, X509_LU_X509, name)
        else { return false }
        unsafe X509_OBJECT_free(found)
        return true
    }
}
