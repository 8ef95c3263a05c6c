// Base64 in the two alphabets that keys (RFC 4648 §4) and signed tokens (§5, no padding) use.

/// Base64 decoding that takes both alphabets, and encoding in either.
package enum Base64 {
    private static let standard = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let urlSafe = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Base64url without padding, as JSON Web Tokens are written.
    package static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> String {
        encode(bytes, urlSafe, padded: false)
    }

    /// Ordinary base64 with padding, on one line.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        encode(bytes, standard, padded: true)
    }

    /// The bytes of base64 or base64url text without blanks, padded or not; nil when it is neither.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        result.reserveCapacity(text.count * 3 / 4 + 3)
        var bits: UInt32 = 0
        var held = 0
        var digits = 0
        var padding = 0
        for byte in text {
            if byte == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0, let digit = value(of: byte) else { return nil }
            digits += 1
            bits = bits << 6 | digit
            held += 6
            if held >= 8 {
                held -= 8
                result.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        guard digits % 4 != 1, padding <= 2, padding == 0 || (digits + padding) % 4 == 0 else { return nil }
        return result
    }

    private static func value(of byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte) - 71
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte) + 4
        case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
        default: nil
        }
    }

    private static func encode(_ bytes: some Collection<UInt8>, _ alphabet: [UInt8], padded: Bool) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var bits: UInt32 = 0
        var held: UInt32 = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                text.append(alphabet[Int(bits >> held & 63)])
            }
        }
        if held > 0 { text.append(alphabet[Int(bits << (6 - held) & 63)]) }
        while padded && text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }
}
