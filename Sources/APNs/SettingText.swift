// Text as people put it into settings and headers: what surrounds it, what may stand in it, and what of it may be
// repeated in a message.

/// Text of settings: what may be shown of it and what it may hold.
package enum SettingText {
    /// Without blanks, line breaks and quotes at either end: secrets mounted as files often end in a line break.
    static func trimmed(_ text: String) -> String {
        func isMargin(_ byte: UInt8) -> Bool { byte <= 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") }
        var bytes = Array(text.utf8)[...]
        while let first = bytes.first, isMargin(first) { bytes.removeFirst() }
        while let last = bytes.last, isMargin(last) { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: false
        }
    }

    /// The value in quotes when it is short and printable, else only its length: somebody may have put a key there.
    static func shown(_ text: String) -> String {
        if text.isEmpty { return "empty" }
        let isPrintable = text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f }
        return isPrintable && text.utf8.count <= 60 ? "\"\(text)\"" : "a text of \(text.utf8.count) bytes"
    }

    /// Whether a text is so much like key material that it must not be shown.
    package static func looksLikeKey(_ text: String) -> Bool {
        if text.contains("-----") || text.utf8.contains(0x0a) || text.contains("\\n") { return true }
        // Base64 of a P-256 key has 160 characters and more, and no dot; paths of that length are rare and have one.
        return text.utf8.count >= 90 && !text.utf8.contains(UInt8(ascii: "."))
    }
}
