// A name for a device token in logs. The token itself never appears there, whole or in part.

/// A short mark that is the same for the same token, whatever its spelling in upper or lower case.
package enum TokenFingerprint {
    /// Ten hexadecimal digits: 40 bits made from FNV-1a over the lower-case text.
    ///
    /// It tells tokens apart in a log; it is no secret and no key.
    package static func of(_ token: some Sequence<UInt8>) -> String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in token {
            let lower = byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte
            hash = (hash ^ UInt64(lower)) &* 0x0000_0100_0000_01b3
        }
        hash ^= hash >> 40
        var text = ""
        for shift in stride(from: 36, through: 0, by: -4) {
            let nibble = UInt8(truncatingIfNeeded: hash >> UInt64(shift)) & 0xf
            text.unicodeScalars.append(Unicode.Scalar(nibble < 10 ? 0x30 + nibble : 0x57 + nibble))
        }
        return text
    }

    /// The mark of a token given as text.
    package static func of(_ token: String) -> String { of(token.utf8) }
}
