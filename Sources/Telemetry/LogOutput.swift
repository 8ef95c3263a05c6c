// Where records go: one write(2) each to standard error, or wherever a test wants them.
//
// Contract: writing a record never waits for the reader of the log as far as a plain descriptor allows. A pipe, socket
// or terminal is asked with poll(2) first; when it would block, the record is dropped and counted, and the next record that
// gets through is preceded by one that says how many were lost. O_NONBLOCK is not set, because the open file is shared with
// other processes.

import Glibc

/// A destination of log lines with the least level it wants; shared by all loggers of a process.
package final class LogOutput: Sendable {
    /// Takes one whole line; false when it could not be taken without waiting.
    package typealias Writer = @Sendable (_ line: [UInt8]) -> Bool

    package let settings: LogSettings
    private let writer: Writer
    private let clock: @Sendable () -> WallTime
    /// Guards the writer, so that lines are whole and the question "can it be written" stays true until the write.
    private let lost = Lock<UInt64>(0)

    package init(
        _ settings: LogSettings, clock: @escaping @Sendable () -> WallTime = { WallTime.now() },
        writer: @escaping Writer
    ) {
        self.settings = settings
        self.writer = writer
        self.clock = clock
    }

    /// Standard error.
    package static func standardError(_ settings: LogSettings = LogSettings()) -> LogOutput {
        descriptor(STDERR_FILENO, settings)
    }

    /// A descriptor that stays open for the life of the output and belongs to the caller.
    package static func descriptor(_ descriptor: Int32, _ settings: LogSettings) -> LogOutput {
        LogOutput(settings) { line in LogDescriptor.write(line, to: descriptor) }
    }

    /// How many records have been lost and not yet reported.
    package var dropped: UInt64 { lost.withLock { $0 } }

    func write(
        _ level: LogLevel, _ label: String, _ message: StaticString, _ context: LogFields, _ fields: LogFields
    ) {
        let time = clock()
        let line = LogLine.render(
            settings.format, time: time, level: level, label: label, message: message, context: context, fields: fields)
        lost.withLock { lost in
            if lost > 0 {
                let report = LogLine.render(
                    settings.format, time: time, level: .warning, label: "log",
                    message: "records were lost because the log could not be written", context: LogFields(),
                    fields: [.dropped: lost])
                if writer(report) { lost = 0 }
            }
            if lost > 0 || !writer(line) { lost += 1 }
        }
    }
}

/// Writes to a descriptor without waiting for its reader.
enum LogDescriptor {
    static func write(_ line: [UInt8], to descriptor: Int32) -> Bool {
        guard isWritable(descriptor) else { return false }
        // Interrupted before anything was written: again, but not for ever.
        for _ in 0..<8 {
            let count = unsafe line.withUnsafeBytes { bytes in
                unsafe Glibc.write(descriptor, bytes.baseAddress, bytes.count)
            }
            if count >= 0 { return count == line.count }
            if errno != EINTR { return false }
        }
        return false
    }

    /// A pipe is writable when a page (PIPE_BUF) is free, which is why lines are at most that long.
    private static func isWritable(_ descriptor: Int32) -> Bool {
        var question = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&question, 1, 0) == 1 && question.revents & Int16(POLLOUT) != 0
    }
}

/// Keeps the lines in memory, for tests; at most the first 100,000.
package final class LogCapture: Sendable {
    private let stored = Lock<[String]>([])

    package init() {}

    package var lines: [String] { stored.withLock { $0 } }

    /// An output whose lines land here; everything is written unless told otherwise.
    package func output(_ settings: LogSettings = LogSettings(level: .trace)) -> LogOutput {
        LogOutput(settings) { line in
            self.stored.withLock { lines in
                if lines.count < 100_000 { lines.append(String(decoding: line.dropLast(), as: UTF8.self)) }
            }
            return true
        }
    }
}
