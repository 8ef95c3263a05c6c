// RFC 8259 as a machine over bytes with a stack of its own: no recursion, no values, nothing in common with the reader it judges.

/// Decides whether bytes are one JSON text.
enum JSONRules {
    /// How deep arrays and objects may be nested.
    static let deepest = 512

    private enum Expectation {
        case value, valueOrEnd, keyOrEnd, key, colon, separator, end
    }

    /// Whether the bytes are UTF-8, one JSON value with nothing but blanks around it, and not nested too deep.
    static func accept(_ bytes: [UInt8]) -> Bool {
        guard isUTF8(bytes) else { return false }
        var stack: [UInt8] = []
        var expected = Expectation.value
        var place = 0

        while place < bytes.count {
            let byte = bytes[place]
            if [0x20, 0x09, 0x0a, 0x0d].contains(byte) {
                place += 1
                continue
            }
            switch (expected, byte) {
            case (.value, UInt8(ascii: "{")), (.valueOrEnd, UInt8(ascii: "{")), (.value, UInt8(ascii: "[")),
                (.valueOrEnd, UInt8(ascii: "[")):
                guard stack.count < deepest else { return false }
                stack.append(byte)
                expected = byte == UInt8(ascii: "{") ? .keyOrEnd : .valueOrEnd
                place += 1
            case (.keyOrEnd, UInt8(ascii: "}")), (.valueOrEnd, UInt8(ascii: "]")):
                stack.removeLast()
                expected = stack.isEmpty ? .end : .separator
                place += 1
            case (.separator, UInt8(ascii: "}")), (.separator, UInt8(ascii: "]")):
                // `{` and `}`, `[` and `]` are two apart in ASCII.
                guard let open = stack.popLast(), open + 2 == byte else { return false }
                expected = stack.isEmpty ? .end : .separator
                place += 1
            case (.separator, UInt8(ascii: ",")):
                expected = stack.last == UInt8(ascii: "{") ? .key : .value
                place += 1
            case (.colon, UInt8(ascii: ":")):
                expected = .value
                place += 1
            case (.key, UInt8(ascii: "\"")), (.keyOrEnd, UInt8(ascii: "\"")):
                guard let end = endOfString(bytes, place) else { return false }
                place = end
                expected = .colon
            case (.value, _), (.valueOrEnd, _):
                guard let end = endOfScalar(bytes, place) else { return false }
                place = end
                expected = stack.isEmpty ? .end : .separator
            default: return false
            }
        }
        return expected == .end
    }

    private static func endOfScalar(_ bytes: [UInt8], _ start: Int) -> Int? {
        if bytes[start] == UInt8(ascii: "\"") { return endOfString(bytes, start) }
        for word in ["true", "false", "null"] where bytes[start...].starts(with: word.utf8) {
            return start + word.utf8.count
        }
        return endOfNumber(bytes, start)
    }

    private static func endOfString(_ bytes: [UInt8], _ start: Int) -> Int? {
        var place = start + 1
        while place < bytes.count {
            switch bytes[place] {
            case UInt8(ascii: "\""): return place + 1
            case 0..<0x20: return nil
            case UInt8(ascii: "\\"):
                guard place + 1 < bytes.count else { return nil }
                if bytes[place + 1] == UInt8(ascii: "u") {
                    let digits = bytes[(place + 2)...].prefix(4)
                    guard digits.count == 4, digits.allSatisfy({ "0123456789abcdefABCDEF".utf8.contains($0) }) else {
                        return nil
                    }
                    place += 6
                } else {
                    guard "\"\\/bfnrt".utf8.contains(bytes[place + 1]) else { return nil }
                    place += 2
                }
            default: place += 1
            }
        }
        return nil
    }

    /// `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`, the longest piece that fits.
    private static func endOfNumber(_ bytes: [UInt8], _ start: Int) -> Int? {
        func digits(_ from: Int) -> Int {
            var place = from
            while place < bytes.count, (0x30...0x39).contains(bytes[place]) { place += 1 }
            return place
        }
        let first = bytes[start] == UInt8(ascii: "-") ? start + 1 : start
        var place = digits(first)
        guard place > first else { return nil }
        if bytes[first] == UInt8(ascii: "0") { place = first + 1 }
        if place < bytes.count, bytes[place] == UInt8(ascii: ".") {
            let end = digits(place + 1)
            guard end > place + 1 else { return nil }
            place = end
        }
        if place < bytes.count, bytes[place] | 0x20 == UInt8(ascii: "e") {
            var from = place + 1
            if from < bytes.count, "+-".utf8.contains(bytes[from]) { from += 1 }
            let end = digits(from)
            guard end > from else { return nil }
            place = end
        }
        return place
    }

    /// Table 3-7 of the Unicode standard.
    static func isUTF8(_ bytes: [UInt8]) -> Bool {
        var place = 0
        func follows(_ offset: Int, _ range: ClosedRange<UInt8> = 0x80...0xbf) -> Bool {
            place + offset < bytes.count && range.contains(bytes[place + offset])
        }
        while place < bytes.count {
            let length: Int
            switch bytes[place] {
            case 0x00...0x7f: length = 1
            case 0xc2...0xdf where follows(1): length = 2
            case 0xe0 where follows(1, 0xa0...0xbf) && follows(2): length = 3
            case 0xed where follows(1, 0x80...0x9f) && follows(2): length = 3
            case 0xe1...0xec where follows(1) && follows(2), 0xee...0xef where follows(1) && follows(2): length = 3
            case 0xf0 where follows(1, 0x90...0xbf) && follows(2) && follows(3): length = 4
            case 0xf1...0xf3 where follows(1) && follows(2) && follows(3): length = 4
            case 0xf4 where follows(1, 0x80...0x8f) && follows(2) && follows(3): length = 4
            default: return false
            }
            place += length
        }
        return true
    }
}
