// Device tokens as people paste them, brought into the one form that the database keeps. The SQL (sql/objects/token.sql) does the
// same for everything that is stored; this is for a push that goes past the database, and a test holds the two against each other.

/// A device token out of a text.
package enum DeviceTokenText {
    private static let margins: Set<Unicode.Scalar> = [" ", "\t", "\r", "\n", "\u{c}", "\u{b}", "\u{a0}"]

    /// The normal form: lower-case hex without `<>`, blanks and line end.
    ///
    /// - Throws: `malformed` with the reason when there is no token in the text.
    package static func normalised(_ text: String, named name: String) throws(APNsError) -> String {
        var scalars = Array(text.unicodeScalars)[...]
        while let first = scalars.first, margins.contains(first) { scalars.removeFirst() }
        while let last = scalars.last, margins.contains(last) { scalars.removeLast() }
        if scalars.count >= 2, scalars.first == "<", scalars.last == ">" { scalars = scalars.dropFirst().dropLast() }
        var token = String.UnicodeScalarView()
        for scalar in scalars where scalar != " " { token.append(scalar) }
        let normal = String(token).lowercased()
        if let fault = fault(normal) {
            let shown = normal.unicodeScalars.prefix(12).map { String($0) }.joined()
            let cut = normal.unicodeScalars.count > 12 ? "…" : ""
            throw APNsError(
                .malformed, name, "'\(CleanText.cleaned(Array(shown.utf8)))\(cut)' is not a device token: \(fault)")
        }
        return normal
    }

    /// Why a text in normal form is no token.
    private static func fault(_ text: String) -> String? {
        if text.isEmpty { return "it is empty" }
        if text.contains("...") || text.contains("…") || text.contains("length=") {
            return "it is a shortened description of the token, the rest of it is lost"
        }
        let bytes = text.utf8
        guard bytes.allSatisfy({ HexDigit.value($0) != nil }) else {
            return "it holds characters that are not hex digits"
        }
        if bytes.count % 2 == 1 { return "it has an odd number of hex digits (\(bytes.count))" }
        if bytes.count < 8 { return "it has fewer than 8 hex digits" }
        return bytes.count > 400 ? "it has more than 400 hex digits" : nil
    }
}
