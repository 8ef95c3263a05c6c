// What may stand in a header. Everything that reaches one was checked at INSERT already; this is the second lock on the door.

/// Checks of header values.
package enum HeaderValue {
    /// Bytes of the longest collapse id.
    package static let longestCollapseID = 64

    /// Whether a text can be a header's value: visible ASCII and single blanks inside, so no CR, LF, NUL or TAB.
    package static func isSound(_ text: String) -> Bool {
        guard let first = text.utf8.first, let last = text.utf8.last, first != 0x20, last != 0x20 else { return false }
        return text.utf8.count <= 1024 && text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f }
    }

    static func check(_ text: String, _ header: String) throws(APNsError) -> String {
        guard isSound(text) else {
            throw APNsError(.content, header, "cannot stand in a header: it may hold only visible ASCII")
        }
        return text
    }
}
