// Cleans up after a test process, however it ends. A shell waits on a pipe whose other end only this process holds: when the
// process exits, is killed or crashes, the pipe closes, and the shell stops the server and removes the folder.

import Foundation

/// A command that runs when this process has ended, or when the watchdog is released by `fire`.
final class Watchdog: Sendable {
    private let process: ChildProcess
    private let leash: FileHandle

    /// Arms the watchdog.
    ///
    /// - Parameters:
    ///   - script: a shell script.
    ///   - environment: variables that it sees besides ours.
    ///   - arguments: its `$1`….
    /// - Throws: when there is no pipe or no shell to be had.
    init(script: String, environment: [String: String], arguments: [String]) throws {
        let pipe = try ClosedPipe()
        leash = pipe.writer
        // Signals of the terminal reach the whole group; cleaning up must outlive them.
        process = try ChildProcess(
            "/bin/sh", ["-c", "trap '' INT HUP TERM; cat >/dev/null\n" + script, "watchdog"] + arguments,
            environment: ProcessInfo.processInfo.environment.merging(environment) { $1 },
            input: pipe.reader.fileDescriptor)
        try pipe.reader.close()
    }

    /// Runs the script now and waits for its end.
    func fire() {
        try? leash.close()
        process.wait()
    }
}
