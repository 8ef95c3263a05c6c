// A UUID without Foundation: two words, as the owner of a lease is kept and compared.

/// The 128 bits of a UUID.
package struct PostgresUUID: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes, big endian.
    package let high: UInt64
    /// The last eight bytes, big endian.
    package let low: UInt64

    /// Makes a UUID from its two halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A random UUID of version 4.
    package static func random() -> PostgresUUID {
        var generator = SystemRandomNumberGenerator()
        let high = generator.next() & 0xffff_ffff_ffff_0fff | 0x4000
        let low = generator.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
        return PostgresUUID(high: high, low: low)
    }

    /// Reads the usual text form, 8-4-4-4-12 hex digits in either case; nil for anything else.
    package init?(_ text: String) {
        var digits = 0
        var words: (UInt64, UInt64) = (0, 0)
        for (index, character) in text.utf8.enumerated() {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard character == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard digits < 32, let digit = PostgresUUID.value(ofHexDigit: character) else { return nil }
            words.0 = words.0 << 4 | words.1 >> 60
            words.1 = words.1 << 4 | digit
            digits += 1
        }
        guard digits == 32 else { return nil }
        self.init(high: words.0, low: words.1)
    }

    /// The usual text form in lower case.
    package var description: String {
        var text = ""
        text.reserveCapacity(36)
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 { text.append("-") }
            let word = index < 16 ? high : low
            let digit = UInt8(truncatingIfNeeded: word >> UInt64(60 - index % 16 * 4) & 0xf)
            let letter = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            text.unicodeScalars.append(Unicode.Scalar(letter))
        }
        return text
    }

    private static func value(ofHexDigit character: UInt8) -> UInt64? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(character - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt64(character - UInt8(ascii: "a") + 10)
        case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt64(character - UInt8(ascii: "A") + 10)
        default: nil
        }
    }
}
