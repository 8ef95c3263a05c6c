// What may stand in a header. Everything that reaches one was checked at INSERT already; this is the second lock on the door.

/// Checks of header values.
package enum HeaderValue {
    /// Bytes of the longest collapse id.
    package static let longestCollapseID = 64

    /// Whether a text can be a header's value: no CR, LF, NUL or other control character, no blank at either end.
    ///
    /// Other characters than ASCII pass as UTF-8 only where `unicode` says so (RFC 9110 §5.5 lets a field carry them).
    package static func isSound(_ text: String, unicode: Bool = false) -> Bool {
        guard let first = text.utf8.first, let last = text.utf8.last, first != 0x20, last != 0x20 else { return false }
        return text.utf8.count <= 1024
            && text.utf8.allSatisfy { ($0 >= 0x20 && $0 < 0x7f) || ($0 >= 0x80 && unicode) }
    }

    static func check(_ text: String, _ header: String, unicode: Bool = false) throws(APNsError) -> String {
        guard isSound(text, unicode: unicode) else {
            let allowed = unicode ? "printable characters" : "visible ASCII"
            throw APNsError(.content, header, "cannot stand in a header: it may hold only \(allowed)")
        }
        return text
    }
}
