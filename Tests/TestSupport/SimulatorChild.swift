// Child processes by posix_spawn. Foundation's Process closes every possible descriptor in each child, which costs 70 ms
// where 20,000 are allowed, and it lets other children inherit the pipes.

package import Foundation
import Glibc

/// A process that this one has started; it is reaped even when nobody asks for its end.
package final class ChildProcess: @unchecked Sendable {
    /// Its process id.
    package let processID: Int32
    /// No child is made while a pipe is about that is not marked yet.
    private static let spawning = NSLock()

    private let ended = DispatchSemaphore(value: 0)
    private let lock = NSLock()
    private var status: Int32?

    /// Starts a program with these descriptors as its stdin, stdout and stderr.
    package init(
        _ path: String, _ arguments: [String], input: Int32, output: Int32, errors: Int32
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (place, descriptor) in [input, output, errors].enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(place))
        }
        var words = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var child: pid_t = 0
        let result = ChildProcess.spawning.withLock { posix_spawn(&child, path, &actions, nil, &words, environ) }
        guard result == 0 else { throw SimulatorFailure(description: "\(path): errno \(result)") }
        processID = child
        Thread { self.reap() }.start()
    }

    private func reap() {
        var code: Int32 = 0
        while waitpid(processID, &code, 0) < 0, errno == EINTR {}
        lock.withLock { status = code }
        ended.signal()
    }

    /// Sends a signal, unless the process has ended.
    package func send(_ signal: Int32) { lock.withLock { if status == nil { kill(processID, signal) } } }

    /// Waits for the end and kills the process when it does not come.
    ///
    /// - Returns: the exit code; nil when a signal ended it.
    package func exitCode(within limit: Duration) async -> Int32? {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { [self] in
                let patience = DispatchTime.now() + .nanoseconds(Int(limit / .nanoseconds(1)))
                if ended.wait(timeout: patience) == .timedOut {
                    send(SIGKILL)
                    ended.wait()
                }
                // Whoever else asks shall find it too.
                ended.signal()
                let code = lock.withLock { status ?? SIGKILL }
                continuation.resume(returning: code & 0x7F == 0 ? (code >> 8) & 0xFF : nil)
            }
        }
    }

    /// A pipe whose ends no other child inherits.
    package static func pipe() throws -> (reading: FileHandle, writing: FileHandle) {
        var ends: [Int32] = [-1, -1]
        let isMade = spawning.withLock {
            guard Glibc.pipe(&ends) == 0 else { return false }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            return true
        }
        guard isMade else { throw SimulatorFailure(description: "no pipe: errno \(errno)") }
        return (
            FileHandle(fileDescriptor: ends[0], closeOnDealloc: true),
            FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
        )
    }
}
