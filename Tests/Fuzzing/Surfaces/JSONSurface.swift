// The JSON reader of the simulator against the grammar, and all writers of JSON lines against the reader: what was written is read
// back as it was, on one line, whatever the text was.

import APNsSimulator
import Telemetry

enum JSONSurface {
    static func examine(_ bytes: [UInt8]) throws(Finding) {
        let value = JSONText(bytes)
        let isJSON = JSONRules.accept(bytes)
        try require(
            (value != nil) == isJSON, "the reader takes exactly what the grammar allows", "grammar says \(isJSON)")
        if let value, isFinite(value) {
            let written = bytesOf(value)
            let again = JSONText(written)
            try require(
                again.map(bytesOf) == written, "what was read and written reads the same",
                String(decoding: written, as: UTF8.self))
        }
        try examineWriters(String(decoding: bytes, as: UTF8.self))
    }

    private static func examineWriters(_ text: String) throws(Finding) {
        var line = JSONLine()
        line.begin()
        line.add("a", text)
        line.add("b", [text, ""])
        line.add(name: text, text)
        line.end()
        try require(
            line.bytes.filter { $0 < 0x20 } == [0x0a], "a line has one line break and no control character", text)
        let read = JSONText(line.bytes)
        try require(isSame(read?["a"]?.text, text), "a text comes back as it was", text)
        try require(isSame(read?.members?.last?.key, text), "so does a name", text)
        try require(isSame(JSONText(JSONLine.encode(text))?.text, text), "so does a text alone", text)

        let capture = LogCapture()
        for format in LogFormat.allCases {
            let output = capture.output(LogSettings(level: .trace, format: format))
            Logger(label: "fuzz", output: output, context: [.error: text]).error("message", [.dropped: text])
        }
        try require(capture.lines.count == LogFormat.allCases.count, "a record is one line", text)
        for (format, line) in zip(LogFormat.allCases, capture.lines) {
            try require(line.utf8.count < 4096, "a record fits into one write", "\(line.utf8.count)")
            try require(!line.unicodeScalars.contains(where: isControl), "no control character gets into a log", line)
            guard format == .json else { continue }
            let record = JSONText(Array(line.utf8))
            try require(isSame(record?["message"]?.text, "message"), "a record is JSON", line)
        }
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7f..<0xa0).contains(scalar.value)
    }

    /// Byte for byte: String's own equality takes different spellings of a character for the same.
    private static func isSame(_ left: String?, _ right: String) -> Bool {
        left.map { Array($0.utf8) } == Array(right.utf8)
    }

    /// Whether all numbers in it can be written: 1e400 is JSON and no Double.
    private static func isFinite(_ value: JSONText) -> Bool {
        switch value {
        case .real(let number): number.isFinite
        case .array(let elements): elements.allSatisfy(isFinite)
        case .object(let members): members.allSatisfy { isFinite($0.value) }
        default: true
        }
    }

    private static func bytesOf(_ value: JSONText) -> [UInt8] {
        switch value {
        case .null: Array("null".utf8)
        case .bool(let flag): Array("\(flag)".utf8)
        case .integer(let number): Array("\(number)".utf8)
        case .real(let number): Array("\(number)".utf8)
        case .string(let text): JSONLine.encode(text)
        case .array(let elements): list(elements.map(bytesOf), "[", "]")
        case .object(let members): list(members.map { JSONLine.encode($0.key) + [0x3a] + bytesOf($0.value) }, "{", "}")
        }
    }

    private static func list(_ pieces: [[UInt8]], _ open: String, _ close: String) -> [UInt8] {
        Array(open.utf8) + Array(pieces.joined(separator: [0x2c])) + Array(close.utf8)
    }
}
