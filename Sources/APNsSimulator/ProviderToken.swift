// The provider token (JWT) as Apple specifies it: ES256, key id in the header, team id and time of issue in the
// claims, base64url without padding, signature as the two raw 32-byte numbers. Apple itself has been seen to let
// other forms pass (DER signatures, padding, `iat` as a text); a double that did so would hide faults.

/// A provider token, read but not yet trusted.
package struct ProviderToken: Equatable, Sendable {
    /// The header's `kid`.
    package let keyID: String
    /// The claims' `iss`.
    package let teamID: String
    /// `iat`, seconds since 1970.
    package let issuedAt: Int64
    /// What the signature covers.
    package let signedBytes: [UInt8]
    /// r and s, 32 bytes each.
    package let signature: [UInt8]

    /// Reads the value of an `authorization` header; nil when it is not a well-formed ES256 provider token.
    package init?(authorization: String) {
        let words = authorization.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
        let parts = words[1].split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let head = base64URLDecode(parts[0]).flatMap(JSONText.init),
            let claims = base64URLDecode(parts[1]).flatMap(JSONText.init), let signature = base64URLDecode(parts[2])
        else { return nil }
        guard head["alg"]?.text == "ES256", let keyID = head["kid"]?.text, let teamID = claims["iss"]?.text,
            let issuedAt = claims["iat"]?.whole, signature.count == 64
        else { return nil }
        self.keyID = keyID
        self.teamID = teamID
        self.issuedAt = issuedAt
        self.signature = signature
        signedBytes = Array("\(parts[0]).\(parts[1])".utf8)
    }
}

/// Decodes base64url without padding; nil for any other text.
func base64URLDecode(_ text: Substring) -> [UInt8]? {
    guard text.utf8.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for byte in text.utf8 {
        guard let digit = base64URLDigit(byte) else { return nil }
        bits = bits << 6 | UInt32(digit)
        count += 6
        guard count >= 8 else { continue }
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        bits &= (1 << UInt32(count)) - 1
    }
    // Left-over bits that are not zero mean that the text was cut.
    return bits == 0 ? bytes : nil
}

private func base64URLDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x41...0x5A: byte - 0x41
    case 0x61...0x7A: byte - 0x61 + 26
    case 0x30...0x39: byte - 0x30 + 52
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
}
