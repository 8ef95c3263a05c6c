// Writing JSON fast, also in a debug build: bytes are appended in runs, and only a text with something to escape is
// walked a second time.

/// A buffer of JSON lines.
package struct JSONLine: Sendable {
    /// The bytes so far.
    package private(set) var bytes: [UInt8] = []

    /// An empty buffer.
    package init() { bytes.reserveCapacity(64 << 10) }

    /// How many bytes wait.
    package var count: Int { bytes.count }

    /// Forgets the bytes and keeps their memory.
    package mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    /// Begins an object.
    package mutating func begin() { bytes.append(UInt8(ascii: "{")) }

    /// Ends the object and the line.
    package mutating func end() {
        closeBrace()
        bytes.append(UInt8(ascii: "\n"))
    }

    /// Begins an object under a key.
    package mutating func beginObject(_ key: StaticString) {
        self.key(key)
        begin()
    }

    /// Ends an inner object.
    package mutating func closeBrace() {
        if bytes.last == UInt8(ascii: ",") { bytes.removeLast() }
        bytes.append(UInt8(ascii: "}"))
    }

    /// Ends an inner object that more members follow.
    package mutating func endObject() {
        closeBrace()
        comma()
    }

    /// A whole number.
    package mutating func add(_ key: StaticString, _ number: some BinaryInteger) {
        self.key(key)
        raw(String(number))
        comma()
    }

    /// A text, or nothing at all for nil.
    package mutating func add(_ key: StaticString, _ text: String?) {
        guard let text else { return }
        self.key(key)
        string(text)
        comma()
    }

    /// A list of texts, or nothing at all for an empty one.
    package mutating func add(_ key: StaticString, _ texts: [String]) {
        guard !texts.isEmpty else { return }
        self.key(key)
        bytes.append(UInt8(ascii: "["))
        for (place, text) in texts.enumerated() {
            if place > 0 { comma() }
            string(text)
        }
        bytes.append(UInt8(ascii: "]"))
        comma()
    }

    /// A member whose name comes from outside.
    package mutating func add(name: String, _ text: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        string(text)
        comma()
    }

    /// A member that is JSON already, key and all.
    package mutating func add(member: [UInt8]) {
        bytes.append(contentsOf: member)
        comma()
    }

    /// The JSON of a text.
    package static func encode(_ text: String) -> [UInt8] {
        var line = JSONLine(empty: ())
        line.string(text)
        return line.bytes
    }

    private init(empty: Void) {}

    private mutating func comma() { bytes.append(UInt8(ascii: ",")) }

    private mutating func key(_ key: StaticString) {
        bytes.append(UInt8(ascii: "\""))
        unsafe bytes.append(contentsOf: UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func raw(_ text: String) {
        var text = text
        text.withUTF8 { unsafe bytes.append(contentsOf: $0) }
    }

    private mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            if unsafe needsEscaping(utf8) {
                for place in 0..<utf8.count { escape(unsafe utf8[place]) }
            } else {
                unsafe bytes.append(contentsOf: utf8)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case UInt8(ascii: "\n"): raw("\\n")
        case 0..<0x20: raw(byte < 0x10 ? "\\u000\(String(byte, radix: 16))" : "\\u00\(String(byte, radix: 16))")
        default: bytes.append(byte)
        }
    }
}

private func needsEscaping(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
    var place = 0
    while place < bytes.count {
        let byte = unsafe bytes[place]
        if byte < 0x20 || byte == 0x22 || byte == 0x5C { return true }
        place += 1
    }
    return false
}
