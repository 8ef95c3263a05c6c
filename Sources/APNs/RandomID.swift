// Ids for requests that no notification stands behind: pushes by hand, and the management of channels.

/// Random UUIDs (version 4, RFC 9562), in lower case as Apple wants them.
package enum RandomID {
    package static func make() -> String {
        var random = SystemRandomNumberGenerator()
        let high = random.next() & ~0xf000 | 0x4000
        let low = random.next() & ~(0xc0 << 56) | 0x80 << 56
        var text = ""
        for place in 0..<32 {
            if [8, 12, 16, 20].contains(place) { text.append("-") }
            let word = place < 16 ? high : low
            text.unicodeScalars.append(Unicode.Scalar(HexDigit.lower(word >> UInt64((15 - place & 15) * 4))))
        }
        return text
    }
}
