// Reads the body of an answer. It comes from outside and may be anything: a JSON object as documented, cut off, HTML of a proxy,
// nothing, NUL bytes, broken UTF-8, numbers of any size. So the scanner is written by hand, has no recursion and bounds
// everything; members that were read completely before something odd count.
//
// `timestamp` (with a 410: since when the token is known to be dead) is documented in milliseconds. The rule:
// - a plain integer from 2008-01-01 to 2100-01-01 in milliseconds is taken as it is;
// - one in that range in *seconds* is taken as seconds: as milliseconds it would lie in January 1970;
// - everything else (text, fractions, exponents, negative, microseconds, 10^20) counts as absent.

/// What an answer's body says.
package struct AnswerBody: Sendable, Equatable {
    /// As Apple sent it, cleaned; empty when there is none.
    package let reason: String
    /// Milliseconds since 1970.
    package let timestamp: Int64?

    /// Reads at most the first 4096 bytes.
    package init(_ bytes: [UInt8]) {
        var scanner = AnswerScanner(bytes)
        scanner.scan()
        reason = CleanText.cleaned(scanner.reason)
        timestamp = scanner.timestamp.flatMap(AnswerBody.milliseconds)
    }

    private static let seconds: ClosedRange<Int64> = 1_199_145_600...4_102_444_800

    private static func milliseconds(_ number: Int64) -> Int64? {
        if seconds.contains(number / 1000) { return number }
        return seconds.contains(number) ? number * 1000 : nil
    }
}

/// Text of a peer, fit for a database and a log.
package enum CleanText {
    package static let limit = 200

    /// At most 200 characters (Unicode scalars) without control characters; broken UTF-8 becomes U+FFFD.
    package static func cleaned(_ bytes: some Collection<UInt8>) -> String {
        var result = String.UnicodeScalarView()
        var count = 0
        for scalar in String(decoding: bytes.prefix(4 * limit), as: UTF8.self).unicodeScalars {
            if count == limit { break }
            let isHidden =
                switch scalar.value {
                case 0..<0x20, 0x7f..<0xa0, 0x200e...0x200f, 0x2028...0x202e, 0x2066...0x2069, 0xfeff: true
                default: false
                }
            // No blanks at the beginning, no two in a row.
            if isHidden || scalar == " " {
                guard let last = result.last, last != " " else { continue }
                result.append(" ")
            } else {
                result.append(scalar)
            }
            count += 1
        }
        if result.last == " " { result.removeLast() }
        return String(result)
    }
}

/// A scanner of one JSON object that looks for two members on its first level; its pieces read other objects too.
struct AnswerScanner {
    private let bytes: ArraySlice<UInt8>
    private var index: Int
    private(set) var reason: [UInt8] = []
    private(set) var timestamp: Int64?

    /// Reads at most the first `limit` bytes.
    init(_ bytes: [UInt8], limit: Int = 4096) {
        self.bytes = bytes.prefix(limit)
        index = 0
    }

    mutating func scan() {
        if bytes.starts(with: [0xef, 0xbb, 0xbf]) { index = 3 }
        guard take(UInt8(ascii: "{")) else { return }
        repeat {
            skipBlanks()
            guard let key = string(limit: 16), take(UInt8(ascii: ":")) else { return }
            skipBlanks()
            switch key {
            case Array("reason".utf8) where peek == UInt8(ascii: "\""):
                guard let text = string(limit: 4 * CleanText.limit) else { return }
                reason = text
            case Array("timestamp".utf8):
                timestamp = integer()
                skipValue()
            default: skipValue()
            }
        } while take(UInt8(ascii: ","))
    }

    // MARK: Pieces

    var peek: UInt8? { index < bytes.endIndex ? bytes[index] : nil }

    private mutating func next() -> UInt8? {
        guard let byte = peek else { return nil }
        index += 1
        return byte
    }

    mutating func skipBlanks() {
        while let byte = peek, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { index += 1 }
    }

    mutating func take(_ byte: UInt8) -> Bool {
        skipBlanks()
        guard peek == byte else { return false }
        index += 1
        return true
    }

    /// The bytes of a string, unescaped, those beyond `limit` dropped; nil when it does not begin or does not end.
    mutating func string(limit: Int) -> [UInt8]? {
        guard next() == UInt8(ascii: "\"") else { return nil }
        var text: [UInt8] = []
        func add(_ piece: some Sequence<UInt8>) {
            for byte in piece where text.count < limit { text.append(byte) }
        }
        while let byte = next() {
            switch byte {
            case UInt8(ascii: "\""): return text
            case UInt8(ascii: "\\"):
                guard let escaped = escape() else { return nil }
                add(Array(String(escaped).utf8))
            default: add(CollectionOfOne(byte))
            }
        }
        return nil
    }

    /// What an escape stands for, U+FFFD for half a surrogate pair; nil at the end of the text.
    private mutating func escape() -> Unicode.Scalar? {
        guard let byte = next() else { return nil }
        switch byte {
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            guard let unit = hexUnit() else { return "\u{fffd}" }
            return pair(unit)
        default: return Unicode.Scalar(byte)
        }
    }

    private mutating func pair(_ unit: UInt32) -> Unicode.Scalar {
        guard (0xd800..<0xdc00).contains(unit) else { return Unicode.Scalar(unit) ?? "\u{fffd}" }
        let mark = index
        if next() == UInt8(ascii: "\\"), next() == UInt8(ascii: "u"), let low = hexUnit(),
            (0xdc00..<0xe000).contains(low)
        {
            return Unicode.Scalar(0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00)) ?? "\u{fffd}"
        }
        index = mark
        return "\u{fffd}"
    }

    /// Four hex digits; nothing is taken when there are none.
    private mutating func hexUnit() -> UInt32? {
        let mark = index
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next(), let digit = HexDigit.value(byte) else {
                index = mark
                return nil
            }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    /// A number without fraction and exponent that fits, else nil; what was not taken is left for `skipValue`.
    mutating func integer() -> Int64? {
        var number: Int64 = 0
        var digits = 0
        while let byte = peek, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") {
            index += 1
            digits += 1
            let (product, overflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, overflowed) = product.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            if overflow || overflowed { return nil }
            number = sum
        }
        let isWhole = peek.map { [0x20, 0x0a, 0x0d, 0x09, 0x2c, 0x7d].contains($0) } ?? true
        return digits > 0 && isWhole ? number : nil
    }

    /// Passes over the rest of a value of any kind and depth, up to the comma or the brace behind it.
    mutating func skipValue() {
        var depth = 0
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                guard string(limit: 0) != nil else { return }
                continue
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if depth == 0 { return }
                depth -= 1
            case UInt8(ascii: ",") where depth == 0: return
            default: break
            }
            index += 1
        }
    }
}
