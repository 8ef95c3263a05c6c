// A reader for JSON as it comes from outside: strict syntax, UTF-8 checked, depth bounded, duplicate keys kept
// (two `aps` keys are a fault worth seeing, and a dictionary would hide it).

/// A JSON value; objects keep their order and their duplicates.
package enum JSONText: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case real(Double)
    case string(String)
    case array([JSONText])
    case object([Member])

    /// One pair of an object.
    package struct Member: Equatable, Sendable {
        package let key: String
        package let value: JSONText
    }

    /// Reads a whole text; nil when it is not JSON, not UTF-8 or nested deeper than 512.
    package init?(_ bytes: [UInt8]) {
        guard String(validating: bytes, as: UTF8.self) != nil else { return nil }
        var reader = JSONReader(bytes: bytes)
        guard let value = reader.readWhole() else { return nil }
        self = value
    }

    /// The value of the first member with this key, when this is an object that has one.
    package subscript(_ key: String) -> JSONText? { members?.first { $0.key == key }?.value }

    /// The members, when this is an object.
    package var members: [Member]? {
        if case .object(let members) = self { members } else { nil }
    }

    /// The text, when this is a string.
    package var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// The number, when this is a whole number written without fraction or exponent.
    package var whole: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The number, when this is one.
    package var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .real(let value): value
        default: nil
        }
    }

    /// Whether this is an object.
    package var isObject: Bool { members != nil }
}

/// Recursive descent over the bytes; every step is bounds-checked and the depth is bounded.
private struct JSONReader {
    let bytes: [UInt8]
    var at = 0
    var depth = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    mutating func readWhole() -> JSONText? {
        guard let value = readValue() else { return nil }
        skipBlanks()
        return at == bytes.count ? value : nil
    }

    mutating func skipBlanks() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { at += 1 }
    }

    mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        at += 1
        return true
    }

    mutating func readValue() -> JSONText? {
        skipBlanks()
        switch next {
        case UInt8(ascii: "{"): return nested { $0.readObject() }
        case UInt8(ascii: "["): return nested { $0.readArray() }
        case UInt8(ascii: "\""): return readString().map(JSONText.string)
        case UInt8(ascii: "t"): return readWord("true", .bool(true))
        case UInt8(ascii: "f"): return readWord("false", .bool(false))
        case UInt8(ascii: "n"): return readWord("null", .null)
        default: return readNumber()
        }
    }

    mutating func nested(_ read: (inout JSONReader) -> JSONText?) -> JSONText? {
        guard depth < 512 else { return nil }
        depth += 1
        defer { depth -= 1 }
        at += 1
        return read(&self)
    }

    mutating func readWord(_ word: StaticString, _ value: JSONText) -> JSONText? {
        for byte in word.description.utf8 where !take(byte) { return nil }
        return value
    }

    mutating func readObject() -> JSONText? {
        var members: [JSONText.Member] = []
        skipBlanks()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipBlanks()
            guard next == UInt8(ascii: "\""), let key = readString() else { return nil }
            skipBlanks()
            guard take(UInt8(ascii: ":")), let value = readValue() else { return nil }
            members.append(JSONText.Member(key: key, value: value))
            skipBlanks()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { return nil }
        }
    }

    mutating func readArray() -> JSONText? {
        var elements: [JSONText] = []
        skipBlanks()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            guard let value = readValue() else { return nil }
            elements.append(value)
            skipBlanks()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { return nil }
        }
    }

    mutating func readString() -> String? {
        at += 1
        let start = at
        var pieces: String?
        var from = start
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                let last = String(decoding: bytes[from..<at], as: UTF8.self)
                at += 1
                return pieces.map { $0 + last } ?? last
            case UInt8(ascii: "\\"):
                pieces = (pieces ?? "") + String(decoding: bytes[from..<at], as: UTF8.self)
                guard let scalar = readEscape() else { return nil }
                pieces?.unicodeScalars.append(scalar)
                from = at
            case 0..<0x20: return nil
            default: at += 1
            }
        }
        return nil
    }

    /// Reads one escape; half a surrogate pair is syntax that JSON allows and becomes U+FFFD.
    mutating func readEscape() -> Unicode.Scalar? {
        at += 1
        guard let byte = next else { return nil }
        at += 1
        switch byte {
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "u"): return readCodePoint()
        default: return nil
        }
    }

    mutating func readCodePoint() -> Unicode.Scalar? {
        guard let high = readHex4() else { return nil }
        guard (0xD800..<0xDC00).contains(high) else { return Unicode.Scalar(high) ?? "\u{FFFD}" }
        let mark = at
        if take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")), let low = readHex4(), (0xDC00..<0xE000).contains(low) {
            return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
        }
        at = mark
        return "\u{FFFD}"
    }

    mutating func readHex4() -> UInt32? {
        guard at + 4 <= bytes.count else { return nil }
        var value: UInt32 = 0
        for byte in bytes[at..<at + 4] {
            guard let digit = hexDigit(byte) else { return nil }
            value = value << 4 | UInt32(digit)
        }
        at += 4
        return value
    }

    mutating func readNumber() -> JSONText? {
        let start = at
        _ = take(UInt8(ascii: "-"))
        guard let first = next, isDigit(first) else { return nil }
        if first == UInt8(ascii: "0") { at += 1 } else { skipDigits() }
        var isWhole = true
        if take(UInt8(ascii: ".")) {
            isWhole = false
            guard skipDigits() > 0 else { return nil }
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard skipDigits() > 0 else { return nil }
        }
        let text = String(decoding: bytes[start..<at], as: UTF8.self)
        if isWhole, let value = Int64(text) { return .integer(value) }
        return Double(text).map(JSONText.real)
    }

    @discardableResult
    mutating func skipDigits() -> Int {
        let start = at
        while let byte = next, isDigit(byte) { at += 1 }
        return at - start
    }
}

/// Whether the byte is an ASCII digit.
func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

/// The value of a hexadecimal digit in either case.
func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x61...0x66: byte - 0x57
    case 0x41...0x46: byte - 0x37
    default: nil
    }
}
