// Turns a record into one line of at most 4096 bytes: a write of that size to a pipe is atomic (PIPE_BUF), so lines of
// several threads and processes never mix. Text from outside cannot break a line or a terminal: control characters are escaped.

/// Renders records; the line always ends in a line break.
enum LogLine {
    static let limit = 4096
    private static let valueLimit = 1024

    static func render(
        _ format: LogFormat, time: WallTime, level: LogLevel, label: String, message: StaticString,
        context: LogFields, fields: LogFields
    ) -> [UInt8] {
        var line: [UInt8] = []
        line.reserveCapacity(256)
        switch format {
        case .text: text(&line, time, level, label, message, context, fields)
        case .json: json(&line, time, level, label, message, context, fields)
        }
        line.append(UInt8(ascii: "\n"))
        return line
    }

    private static func text(
        _ line: inout [UInt8], _ time: WallTime, _ level: LogLevel, _ label: String, _ message: StaticString,
        _ context: LogFields, _ fields: LogFields
    ) {
        time.append(to: &line)
        line.append(UInt8(ascii: " "))
        line.append(contentsOf: level.name.utf8)
        line.append(UInt8(ascii: " "))
        line.append(contentsOf: label.utf8)
        line.append(contentsOf: ": ".utf8)
        line.append(contentsOf: String(describing: message).utf8)
        for (key, value) in context.pairs + fields.pairs {
            let mark = line.count
            line.append(UInt8(ascii: " "))
            line.append(contentsOf: key.text.utf8)
            line.append(UInt8(ascii: "="))
            append(value, quoting: .whereNeeded, to: &line)
            if line.count > limit - 8 {
                line.removeSubrange(mark...)
                line.append(contentsOf: " ...".utf8)
                return
            }
        }
    }

    private static func json(
        _ line: inout [UInt8], _ time: WallTime, _ level: LogLevel, _ label: String, _ message: StaticString,
        _ context: LogFields, _ fields: LogFields
    ) {
        line.append(contentsOf: "{\"time\":\"".utf8)
        time.append(to: &line)
        line.append(contentsOf: "\",\"level\":\"".utf8)
        line.append(contentsOf: level.name.utf8)
        line.append(contentsOf: "\",\"label\":".utf8)
        appendQuoted(label, to: &line)
        line.append(contentsOf: ",\"message\":".utf8)
        appendQuoted(String(describing: message), to: &line)
        for (key, value) in context.pairs + fields.pairs {
            let mark = line.count
            line.append(UInt8(ascii: ","))
            appendQuoted(key.text, to: &line)
            line.append(UInt8(ascii: ":"))
            append(value, quoting: .always, to: &line)
            if line.count > limit - 32 {
                line.removeSubrange(mark...)
                line.append(contentsOf: ",\"log.truncated\":true".utf8)
                break
            }
        }
        line.append(UInt8(ascii: "}"))
    }

    private enum Quoting { case always, whereNeeded }

    private static func append(_ value: LogValue, quoting: Quoting, to line: inout [UInt8]) {
        switch value {
        case .signed(let number): line.append(contentsOf: String(number).utf8)
        case .unsigned(let number): line.append(contentsOf: String(number).utf8)
        case .flag(let flag): line.append(contentsOf: (flag ? "true" : "false").utf8)
        case .real(let number) where number.isFinite: line.append(contentsOf: String(number).utf8)
        case .real(let number): appendQuoted(String(number), to: &line)
        case .text(let text) where quoting == .whereNeeded && isPlain(text): line.append(contentsOf: text.utf8)
        case .text(let text): appendQuoted(text, to: &line)
        }
    }

    /// Whether a value can stand in a text line without quotes.
    private static func isPlain(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= valueLimit
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    /// Appends a JSON string of at most `valueLimit` bytes of text, cut between characters.
    private static func appendQuoted(_ text: String, to line: inout [UInt8]) {
        line.append(UInt8(ascii: "\""))
        var used = 0
        for scalar in text.unicodeScalars {
            used += UTF8.width(scalar)
            if used > valueLimit {
                line.append(contentsOf: "...".utf8)
                break
            }
            switch scalar.value {
            case 0x22, 0x5c:
                line.append(UInt8(ascii: "\\"))
                line.append(UInt8(truncatingIfNeeded: scalar.value))
            case 0x0a: line.append(contentsOf: "\\n".utf8)
            // Control characters, C1 controls and the direction marks that can make a line lie to its reader.
            case 0..<0x20, 0x7f..<0xa0, 0x200e...0x200f, 0x2028...0x202e, 0x2066...0x2069:
                appendEscape(scalar.value, to: &line)
            default: line.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
        line.append(UInt8(ascii: "\""))
    }

    private static func appendEscape(_ value: UInt32, to line: inout [UInt8]) {
        line.append(contentsOf: "\\u".utf8)
        for shift in [12, 8, 4, 0] as [UInt32] {
            let nibble = UInt8(truncatingIfNeeded: (value >> shift) & 0xf)
            line.append(nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10)
        }
    }
}
