// Log lines: what they look like, what cannot break them, and that a blocked reader holds nobody up.

import Glibc
import Telemetry
import Testing

extension LogKey {
    fileprivate static let host = LogKey("peer.host")
    fileprivate static let port = LogKey("peer.port")
    fileprivate static let took = LogKey("took")
    fileprivate static let text = LogKey("text")
}

private let noon = WallTime(seconds: 1_796_040_000, milliseconds: 7)

private func captured(_ settings: LogSettings, _ body: (Logger) -> Void) -> [String] {
    let lines = Lock<[String]>([])
    let output = LogOutput(settings, clock: { noon }) { line in
        lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
        return true
    }
    body(Logger(label: "net", output: output))
    return lines.withLock { $0 }
}

@Suite struct LogTests {
    @Test func textLine() {
        let lines = captured(LogSettings()) {
            $0.info("connected", [.host: "a.example", .port: 443, .took: Duration.milliseconds(1500)])
        }
        #expect(lines == ["2026-11-30T12:00:00.007Z info net: connected peer.host=a.example peer.port=443 took=1.5\n"])
    }

    @Test func jsonLine() {
        let lines = captured(LogSettings(format: .json)) {
            $0.warning("odd", [.text: "a\"b\\c\n\u{1}é", .port: UInt16(7), .took: Double.nan])
        }
        #expect(
            lines == [
                #"{"time":"2026-11-30T12:00:00.007Z","level":"warning","label":"net","message":"odd","#
                    + #""text":"a\"b\\c\n\u0001é","peer.port":7,"took":"nan"}"# + "\n"
            ])
    }

    @Test func absentValuesAreLeftOut() {
        let nothing: String? = nil
        let lines = captured(LogSettings()) { $0.info("x", [.host: nothing, .port: 1]) }
        #expect(lines == ["2026-11-30T12:00:00.007Z info net: x peer.port=1\n"])
    }

    @Test func fieldsOfUnwantedLevelsAreNotEvaluated() {
        var evaluated = 0
        func count() -> Int {
            evaluated += 1
            return evaluated
        }
        let lines = captured(LogSettings(level: .warning)) {
            $0.info("no", [.port: count()])
            $0.debug("no", [.port: count()])
            $0.error("yes", [.port: count()])
        }
        #expect(evaluated == 1)
        #expect(lines.count == 1)
    }

    @Test func childrenKeepContext() {
        let lines = captured(LogSettings()) {
            $0.child("tls", [.host: "h"]).child("x", [.port: 2]).notice("m", [.took: 3])
        }
        #expect(lines == ["2026-11-30T12:00:00.007Z notice x: m peer.host=h peer.port=2 took=3\n"])
    }

    @Test(arguments: LogFormat.allCases)
    func hostileTextStaysOnOneShortLine(_ format: LogFormat) {
        let texts = [
            "a\nb", "\u{1b}[2J", "\u{202e}evil", "\u{9b}31m", "\u{0}", "", "a b", String(repeating: "é", count: 90_000),
            String(repeating: "\u{1}", count: 5000),
        ]
        for text in texts {
            let lines = captured(LogSettings(format: format)) {
                $0.info("m", [.text: text, .host: text, .took: text, .port: 1])
            }
            #expect(lines.count == 1)
            let line = Array(lines[0].utf8)
            #expect(line.count <= 4096)
            #expect(line.last == UInt8(ascii: "\n"))
            #expect(!line.dropLast().contains { $0 < 0x20 || $0 == 0x7f })
            #expect(!lines[0].unicodeScalars.contains { (0x80..<0xa0).contains($0.value) || $0.value == 0x202e })
            if format == .json { #expect(lines[0].hasSuffix("}\n")) }
        }
    }

    @Test func settingsFromTheEnvironment() throws {
        let settings = try LogSettings(
            environment: ["X_LOG_LEVEL": "DEBUG", "X_LOG_FORMAT": "json"], prefix: "X_")
        #expect(settings == LogSettings(level: .debug, format: .json))
        #expect(try LogSettings(environment: ["X_LOG_LEVEL": ""], prefix: "X_") == LogSettings())
        #expect(throws: LogSettingsError.self) {
            try LogSettings(environment: ["X_LOG_FORMAT": "xml"], prefix: "X_")
        }
        do {
            _ = try LogSettings(environment: ["X_LOG_LEVEL": "loud"], prefix: "X_")
            Issue.record("accepted")
        } catch {
            #expect(
                error.description
                    == "X_LOG_LEVEL is \"loud\", but must be one of: trace, debug, info, notice, warning, error")
        }
    }

    @Test func timestamps() {
        #expect(WallTime(seconds: 0).iso8601 == "1970-01-01T00:00:00.000Z")
        #expect(WallTime(seconds: 951_782_399, milliseconds: 999).iso8601 == "2000-02-28T23:59:59.999Z")
        #expect(WallTime(seconds: 951_782_400).iso8601 == "2000-02-29T00:00:00.000Z")
        #expect(WallTime(seconds: 4_107_542_400).iso8601 == "2100-03-01T00:00:00.000Z")
        #expect(WallTime(seconds: -1).iso8601 == "1969-12-31T23:59:59.000Z")
        #expect(WallTime(seconds: -62_167_219_200).iso8601 == "0000-01-01T00:00:00.000Z")
        #expect(WallTime(seconds: .max, milliseconds: 1).iso8601 == "9999-12-31T23:59:59.001Z")
        #expect(WallTime(seconds: .min).iso8601 == "0000-01-01T00:00:00.000Z")
    }
}

@Suite struct LogOutputTests {
    @Test func aBlockedPipeDropsAndReports() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        defer { close(ends[1]) }
        let output = LogOutput.descriptor(ends[1], LogSettings())
        let logger = Logger(label: "l", output: output)
        let filler = String(repeating: "x", count: 1000)
        // Far more than a pipe holds; a write that waited would hang the test.
        for _ in 0..<1000 { logger.info("m", [.text: filler, .host: filler, .took: filler]) }
        let lost = output.dropped
        #expect(lost > 900)
        #expect(lost < 1000)

        drain(ends[0])
        logger.info("again")
        #expect(output.dropped == 0)
        let rest = drain(ends[0])
        let lines = rest.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasSuffix("log.dropped=\(lost)") == true)
        #expect(lines.last?.hasSuffix("l: again") == true)
    }

    @Test func aClosedDescriptorIsHarmless() {
        let output = LogOutput.descriptor(-1, LogSettings())
        Logger(label: "l", output: output).info("m")
        #expect(output.dropped == 1)
    }

    @Test func captureKeepsLines() {
        let capture = LogCapture()
        Logger(label: "a", output: capture.output()).trace("b", [.port: 1])
        #expect(capture.lines.count == 1)
        #expect(capture.lines[0].hasSuffix("trace a: b peer.port=1"))
    }

    /// Reads what is there without waiting for more.
    @discardableResult private func drain(_ descriptor: Int32) -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            var question = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&question, 1, 0) == 1 else { break }
            let count = read(descriptor, &chunk, chunk.count)
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

@Suite struct LogLimiterTests {
    private let second: UInt64 = 1_000_000_000

    @Test func aBurstThenOneAnInterval() {
        var limiter = LogLimiter<String>(interval: .seconds(10), burst: 2)
        #expect(limiter.admit("a", at: second) == 0)
        #expect(limiter.admit("a", at: second) == 0)
        #expect(limiter.admit("a", at: 2 * second) == nil)
        #expect(limiter.admit("a", at: 3 * second) == nil)
        #expect(limiter.admit("b", at: 3 * second) == 0)
        #expect(limiter.admit("a", at: 11 * second) == 2)
        #expect(limiter.admit("a", at: 12 * second) == 0)
        #expect(limiter.admit("a", at: 13 * second) == nil)
    }

    @Test func keysAreBounded() {
        var limiter = LogLimiter<Int>(interval: .seconds(10), keyLimit: 4)
        let admitted = (0..<100).filter { limiter.admit($0, at: second) != nil }
        #expect(admitted == [0, 1, 2, 3])
        #expect(limiter.admit(50, at: 20 * second) == 0)
    }
}
