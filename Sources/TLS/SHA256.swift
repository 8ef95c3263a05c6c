// SHA-256, for fingerprints in logs and tests; signatures hash inside OpenSSL.

import COpenSSL

/// The SHA-256 digest.
package enum SHA256 {
    /// The 32 bytes of the digest.
    package static func digest(_ bytes: [UInt8]) throws(TLSError) -> [UInt8] {
        var count: UInt32 = 0
        var result = [UInt8](repeating: 0, count: 32)
        guard unsafe EVP_Digest(bytes, bytes.count, &result, &count, EVP_sha256(), nil) == 1, count == 32 else {
            throw ErrorQueue.failure(.library, "SHA-256 failed")
        }
        return result
    }
}
