// People hand keys over in many spellings: a file, an environment value with literal `\n`, one line with blanks for
// breaks, quotes around it, base64 of the whole file, the bare base64 body. This file turns each of them into the DER
// bytes of one key, without looking at the key itself, and says of anything else what it is. Pure; never prints key text.

/// One private or public key in DER, taken out of whatever wrapping it came in.
struct KeyText: Equatable {
    /// The label of the PEM block it stood in; nil when there was none.
    let label: String?
    let der: [UInt8]

    /// Unwraps `input`.
    ///
    /// - Throws: `TLSError.Code.keyForm` in one line that says what the bytes are instead of a key.
    static func unwrap(_ input: [UInt8], depth: Int = 0) throws(TLSError) -> KeyText {
        if isDER(input) { return KeyText(label: nil, der: input) }
        if input.starts(with: [0xFF, 0xFE]) || input.starts(with: [0xFE, 0xFF]) {
            throw TLSError(.keyForm, "the key is UTF-16 text; save it as plain ASCII")
        }
        let text = trimmed(unescaped(input))
        guard !text.isEmpty else { throw TLSError(.keyForm, "the key is empty") }
        if let begin = firstRange(of: Array("-----BEGIN".utf8), in: text[...]) {
            return try block(in: text[begin.lowerBound...])
        }
        guard depth < 2, let decoded = Base64.decode(text.filter { !isBlank($0) }), !decoded.isEmpty else {
            throw TLSError(.keyForm, "this is not a private key: neither PEM (-----BEGIN PRIVATE KEY-----) nor base64")
        }
        if isDER(decoded) { return KeyText(label: nil, der: decoded) }
        if decoded[0] == 0x30 { throw truncated }
        return try unwrap(decoded, depth: depth + 1)
    }

    static let truncated = TLSError(.keyForm, "the private key is cut off or damaged; copy the whole file again")

    /// Whether the bytes are one DER SEQUENCE from first to last.
    private static func isDER(_ bytes: [UInt8]) -> Bool {
        guard bytes.count > 8, bytes[0] == 0x30 else { return false }
        switch bytes[1] {
        case ..<0x80: return bytes.count == 2 + Int(bytes[1])
        case 0x81: return bytes.count == 3 + Int(bytes[2])
        case 0x82: return bytes.count == 4 + Int(bytes[2]) << 8 + Int(bytes[3])
        default: return false
        }
    }

    // MARK: Text

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    /// Runs of backslashes with the `n`, `r` or `t` after them become a line break: base64 has no backslash.
    private static func unescaped(_ input: [UInt8]) -> [UInt8] {
        guard input.contains(UInt8(ascii: "\\")) else { return input }
        var result: [UInt8] = []
        result.reserveCapacity(input.count)
        var index = 0
        while index < input.count {
            guard input[index] == UInt8(ascii: "\\") else {
                result.append(input[index])
                index += 1
                continue
            }
            while index < input.count && input[index] == UInt8(ascii: "\\") { index += 1 }
            if index < input.count && "nrt".utf8.contains(input[index]) { index += 1 }
            result.append(0x0A)
        }
        return result
    }

    /// Without a byte-order mark, blanks, quotes and NULs at either end.
    private static func trimmed(_ input: [UInt8]) -> [UInt8] {
        var slice = input[...]
        if slice.starts(with: [0xEF, 0xBB, 0xBF]) { slice = slice.dropFirst(3) }
        func isMargin(_ byte: UInt8) -> Bool { isBlank(byte) || byte == 0 || "\"'`".utf8.contains(byte) }
        while let first = slice.first, isMargin(first) { slice.removeFirst() }
        while let last = slice.last, isMargin(last) { slice.removeLast() }
        return Array(slice)
    }

    private static func firstRange(of pattern: [UInt8], in text: ArraySlice<UInt8>) -> Range<Int>? {
        guard text.count >= pattern.count else { return nil }
        for start in text.startIndex...(text.endIndex - pattern.count) where text[start...].starts(with: pattern) {
            return start..<(start + pattern.count)
        }
        return nil
    }

    // MARK: PEM

    /// The first block that holds a key; parameters and certificates before it are passed over.
    private static func block(in text: ArraySlice<UInt8>) throws(TLSError) -> KeyText {
        var rest = text
        var passedOver: String?
        while let begin = firstRange(of: Array("-----BEGIN ".utf8), in: rest) {
            guard let mark = firstRange(of: Array("-----".utf8), in: rest[begin.upperBound...]),
                let end = firstRange(of: Array("-----END ".utf8), in: rest[mark.upperBound...])
            else { throw truncated }
            let label = String(decoding: rest[begin.upperBound..<mark.lowerBound], as: UTF8.self)
            let body = rest[mark.upperBound..<end.lowerBound]
            rest = rest[end.upperBound...]
            if label.hasSuffix("PARAMETERS") || label.hasSuffix("CERTIFICATE") {
                passedOver = label
                continue
            }
            return try key(label: label, body: body)
        }
        guard passedOver?.hasSuffix("CERTIFICATE") == true else { throw truncated }
        throw TLSError(.keyForm, "this is a certificate; a P-256 private key is needed")
    }

    private static func key(label: String, body: ArraySlice<UInt8>) throws(TLSError) -> KeyText {
        if label.hasPrefix("ENCRYPTED") || firstRange(of: Array("ENCRYPTED".utf8), in: body) != nil {
            throw encrypted
        }
        guard label.hasSuffix("PRIVATE KEY") || label.hasSuffix("PUBLIC KEY"), !label.hasPrefix("OPENSSH") else {
            let shown = label.prefix(40).filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == " ") }
            throw TLSError(.keyForm, "this is a PEM block '\(shown)'; a P-256 private key (.p8) is needed")
        }
        guard let der = Base64.decode(body.filter { !isBlank($0) }), !der.isEmpty else { throw truncated }
        return KeyText(label: label, der: der)
    }

    static let encrypted = TLSError(.keyForm, "the private key is encrypted; give it without a passphrase")
}
