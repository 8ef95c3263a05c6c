// Runs a command to its end, both its pipes drained while it runs, so that much output cannot block it.

import Foundation

/// What a finished command left behind.
package struct CommandResult: Sendable {
    /// Exit code; 128 + signal when a signal ended it.
    package let status: Int32
    package let output: String
    package let errors: String
}

/// A command that could not be started, or did not succeed.
package struct CommandError: Error, CustomStringConvertible {
    package let description: String
}

/// Short-lived commands of tests.
package enum Subprocess {
    /// Runs a command and waits for its end.
    ///
    /// - Parameters:
    ///   - executable: a path.
    ///   - arguments: without the command's name.
    ///   - environment: the whole environment; nil inherits ours.
    ///   - input: what it reads on standard input.
    /// - Returns: what it wrote, and how it ended.
    /// - Throws: when it cannot be started.
    package static func run(
        _ executable: String, _ arguments: [String], environment: [String: String]? = nil, input: String = ""
    ) throws -> CommandResult {
        let (stdin, stdout, stderr) = (try ClosedPipe(), try ClosedPipe(), try ClosedPipe())
        let process = try ChildProcess(
            executable, arguments, environment: environment, input: stdin.reader.fileDescriptor,
            output: stdout.writer.fileDescriptor, errors: stderr.writer.fileDescriptor)
        for end in [stdin.reader, stdout.writer, stderr.writer] { try end.close() }
        let errors = Collector(stderr.reader)
        Thread {
            try? stdin.writer.write(contentsOf: Data(input.utf8))
            try? stdin.writer.close()
        }.start()
        let output = stdout.reader.readDataToEndOfFile()
        let errorText = errors.finish()
        return CommandResult(
            status: process.wait(), output: String(decoding: output, as: UTF8.self), errors: errorText)
    }

    /// Runs a command that must succeed; returns its output.
    @discardableResult
    package static func require(
        _ executable: String, _ arguments: [String], environment: [String: String]? = nil, input: String = ""
    ) throws -> String {
        let result = try run(executable, arguments, environment: environment, input: input)
        guard result.status == 0 else {
            throw CommandError(
                description: "\(executable) \(arguments.joined(separator: " ")): status \(result.status)\n"
                    + result.output + result.errors)
        }
        return result.output
    }
}

/// Reads a pipe to its end on a thread of its own.
private final class Collector: @unchecked Sendable {
    private let done = DispatchSemaphore(value: 0)
    private var data = Data()  // written by the thread before `done`, read after it

    init(_ handle: FileHandle) {
        let thread = Thread { [self] in
            data = handle.readDataToEndOfFile()
            done.signal()
        }
        thread.start()
    }

    func finish() -> String {
        done.wait()
        return String(decoding: data, as: UTF8.self)
    }
}
