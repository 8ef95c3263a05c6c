// Reads the JSON of the configuration file, strictly and with line numbers: a person wrote it and wants to know where the mistake is.
// Two members of one name are a mistake, so is anything that JSON does not know (comments, commas at the end). Written by hand,
// since a decoder that can do this would bring megabytes into a worker that has few.

/// A JSON value and the line on which it begins.
struct JSONNode: Equatable {
    indirect enum Value: Equatable {
        case null
        case bool(Bool)
        /// As it stands there.
        case number(String)
        case text(String)
        case array([JSONNode])
        case object([JSONMember])
    }

    let value: Value
    let line: Int

    /// What it is, in words.
    var kind: String {
        switch value {
        case .null: "null"
        case .bool: "a truth value"
        case .number: "a number"
        case .text: "a text"
        case .array: "a list"
        case .object: "an object"
        }
    }
}

/// A member of an object.
struct JSONMember: Equatable {
    let key: String
    /// Where the key stands.
    let line: Int
    let node: JSONNode

    /// A name as messages say it.
    ///
    /// What is longer than any name of ours may be a key in the wrong place.
    static func shown(_ name: String) -> String {
        name.utf8.count <= 24 ? "\"\(DisplayText.cleaned(name))\"" : "a name of \(name.utf8.count) bytes"
    }
}

/// What is wrong with a JSON text.
struct JSONFault: Error, Equatable {
    let line: Int
    let problem: String
}

/// A reader of one JSON text.
struct JSONReader {
    private static let deepest = 16

    private let bytes: [UInt8]
    private var index = 0
    private var line = 1
    private var depth = 0

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Reads a whole text.
    static func read(_ bytes: [UInt8]) throws(JSONFault) -> JSONNode {
        var reader = JSONReader(bytes)
        guard String(validating: bytes, as: UTF8.self) != nil else {
            throw JSONFault(line: 1, problem: "is not text in UTF-8")
        }
        let node = try reader.node()
        reader.skipBlanks()
        guard reader.peek == nil else { throw reader.fault("there is something behind the end of the JSON text") }
        return node
    }

    // MARK: Values

    private mutating func node() throws(JSONFault) -> JSONNode {
        skipBlanks()
        let start = line
        return JSONNode(value: try value(), line: start)
    }

    private mutating func value() throws(JSONFault) -> JSONNode.Value {
        switch peek {
        case UInt8(ascii: "{"): return .object(try nested { reader throws(JSONFault) in try reader.members() })
        case UInt8(ascii: "["): return .array(try nested { reader throws(JSONFault) in try reader.elements() })
        case UInt8(ascii: "\""): return .text(try text())
        case UInt8(ascii: "-"), .some(UInt8(ascii: "0")...UInt8(ascii: "9")): return .number(try number())
        case nil: throw fault("the text ends in the middle")
        default:
            if take("true") { return .bool(true) }
            if take("false") { return .bool(false) }
            if take("null") { return .null }
            throw fault("a value is expected here")
        }
    }

    private mutating func nested<T>(
        _ body: (inout JSONReader) throws(JSONFault) -> T
    ) throws(JSONFault) -> T {
        guard depth < Self.deepest else { throw fault("it is nested too deeply") }
        depth += 1
        index += 1
        let result = try body(&self)
        depth -= 1
        return result
    }

    private mutating func members() throws(JSONFault) -> [JSONMember] {
        var members: [JSONMember] = []
        skipBlanks()
        if take("}") { return members }
        repeat {
            skipBlanks()
            let start = line
            guard peek == UInt8(ascii: "\"") else { throw fault("a name in quotes is expected here") }
            let key = try text()
            if let first = members.first(where: { $0.key == key }) {
                throw JSONFault(
                    line: start,
                    problem: "\(JSONMember.shown(key)) stands here a second time (first on line \(first.line))")
            }
            skipBlanks()
            guard take(":") else { throw fault("a colon is expected after \(JSONMember.shown(key))") }
            members.append(JSONMember(key: key, line: start, node: try node()))
            skipBlanks()
        } while take(",")
        guard take("}") else { throw fault("a comma or } is expected here") }
        return members
    }

    private mutating func elements() throws(JSONFault) -> [JSONNode] {
        var elements: [JSONNode] = []
        skipBlanks()
        if take("]") { return elements }
        repeat {
            elements.append(try node())
            skipBlanks()
        } while take(",")
        guard take("]") else { throw fault("a comma or ] is expected here") }
        return elements
    }

    private mutating func number() throws(JSONFault) -> String {
        let start = index
        while let byte = peek, "+-.0123456789eE".utf8.contains(byte) { index += 1 }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        guard Double(text) != nil else { throw fault("\(text.prefix(20)) is not a number") }
        return text
    }

    private mutating func text() throws(JSONFault) -> String {
        index += 1
        var found: [UInt8] = []
        while let byte = peek {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: found, as: UTF8.self)
            case UInt8(ascii: "\\"): found += Array(String(try escape()).utf8)
            case 0..<0x20: throw fault("a line break or control character stands inside a text")
            default: found.append(byte)
            }
        }
        throw fault("a text does not end")
    }

    private mutating func escape() throws(JSONFault) -> Unicode.Scalar {
        guard let byte = peek else { throw fault("a text does not end") }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return try scalar()
        default: throw fault("\\\(Unicode.Scalar(byte)) is not an escape that JSON knows")
        }
    }

    private mutating func scalar() throws(JSONFault) -> Unicode.Scalar {
        let unit = try hexUnit()
        if let scalar = Unicode.Scalar(unit) { return scalar }
        guard unit < 0xdc00, take("\\u") else { throw fault("half a character is escaped") }
        let low = try hexUnit()
        guard (0xdc00..<0xe000).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00))
        else { throw fault("half a character is escaped") }
        return scalar
    }

    private mutating func hexUnit() throws(JSONFault) -> UInt32 {
        let digits = bytes[index...].prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }),
            let unit = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw fault("\\u needs four hexadecimal digits") }
        index += 4
        return unit
    }

    // MARK: Bytes

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    private func fault(_ problem: String) -> JSONFault { JSONFault(line: line, problem: problem) }

    private mutating func skipBlanks() {
        while let byte = peek, [0x20, 0x09, 0x0a, 0x0d].contains(byte) {
            if byte == 0x0a { line += 1 }
            index += 1
        }
    }

    private mutating func take(_ word: StaticString) -> Bool {
        let wanted = Array(word.description.utf8)
        guard bytes[index...].starts(with: wanted) else { return false }
        index += wanted.count
        return true
    }
}
