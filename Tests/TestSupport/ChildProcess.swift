// Starts a program by posix_spawn. Foundation's Process notices the end of a child by a socket that the child inherits, so it waits
// for ever when the child leaves a daemon behind, as pg_ctl does; and here no child inherits any descriptor but its own three.

package import Foundation
import Glibc

/// A program that runs beside the test.
package final class ChildProcess: @unchecked Sendable {
    package let pid: pid_t
    private let lock = NSLock()
    private var status: Int32?

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - executable: a path.
    ///   - arguments: without the program's name.
    ///   - environment: the whole environment; nil: ours.
    ///   - input: descriptor for standard input; nil: /dev/null. The caller keeps all three and closes them.
    ///   - output: descriptor for standard output; nil: /dev/null.
    ///   - errors: descriptor for standard error; nil: /dev/null.
    /// - Throws: when it cannot be started.
    package init(
        _ executable: String, _ arguments: [String], environment: [String: String]? = nil, input: Int32? = nil,
        output: Int32? = nil, errors: Int32? = nil
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // Above the three first, so that none of them is overwritten before it has been copied.
        for (target, source) in [input, output, errors].enumerated() {
            if let source {
                posix_spawn_file_actions_adddup2(&actions, source, Int32(target))
            } else {
                posix_spawn_file_actions_addopen(&actions, Int32(target), "/dev/null", O_RDWR, 0)
            }
        }
        // Some more than are open now, for what other threads are opening meanwhile.
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        for other in 3..<(open.compactMap { Int32($0) }.max() ?? 2) + 32 {
            posix_spawn_file_actions_addclose(&actions, other)
        }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        let ours = ProcessInfo.processInfo.environment
        // Sanitized programs must report where those who run the tests look, however bare their environment is.
        let always = ours.filter { ["TSAN_OPTIONS", "ASAN_OPTIONS"].contains($0.key) }
        var clock = FastClock.current?.environment ?? [:]
        var arguments = arguments
        if executable.hasSuffix("/setpriv"), !clock.isEmpty, let place = arguments.lastIndex(of: "--") {
            // Not for setpriv itself: libfaketime's semaphore is named by the process and belongs to the account that it gives up.
            arguments.insert(contentsOf: ["/usr/bin/env"] + clock.map { "\($0.key)=\($0.value)" }, at: place + 1)
            clock = [:]
        }
        let variables = (environment ?? ours).merging(always) { $1 }.merging(clock) { $1 }
            .map { "\($0.key)=\($0.value)" }
        var words = ([executable] + arguments).map { strdup($0) } + [nil]
        var environment = variables.map { strdup($0) } + [nil]
        defer { (words + environment).forEach { free($0) } }
        var child = pid_t()
        let code = posix_spawn(&child, executable, &actions, &attributes, &words, &environment)
        guard code == 0 else {
            throw CommandError(description: "\(executable): \(String(cString: strerror(code)))")
        }
        pid = child
    }

    /// Waits for the end; returns the exit code, or 128 + signal when a signal ended it.
    @discardableResult
    package func wait() -> Int32 {
        lock.withLock {
            if let status { return status }
            var raw: Int32 = 0
            while waitpid(pid, &raw, 0) < 0, errno == EINTR {}
            return conclude(raw)
        }
    }

    /// The exit code once it has ended, or nil; does not wait.
    package var exitStatus: Int32? {
        lock.withLock {
            if let status { return status }
            var raw: Int32 = 0
            return waitpid(pid, &raw, WNOHANG) == pid ? conclude(raw) : nil
        }
    }

    /// Waits for the end without blocking the caller's thread, and kills the program when it does not come within `limit`.
    ///
    /// - Returns: as `wait`.
    package func end(within limit: Duration) async -> Int32 {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { [self] in
                let patience = ContinuousClock.now.advanced(by: limit)
                while exitStatus == nil, ContinuousClock.now < patience { usleep(5000) }
                if exitStatus == nil { signal(SIGKILL) }
                continuation.resume(returning: wait())
            }
        }
    }

    /// Sends a signal, unless it has been waited for already.
    package func signal(_ number: Int32) {
        lock.withLock { if status == nil { kill(pid, number) } }
    }

    private func conclude(_ raw: Int32) -> Int32 {
        let signal = raw & 0x7F
        let code = signal == 0 ? (raw >> 8) & 0xFF : 128 + signal
        status = code
        return code
    }
}

/// A pipe both of whose ends are closed in children.
package struct ClosedPipe {
    package let reader: FileHandle
    package let writer: FileHandle

    /// Makes a pipe.
    package init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw CommandError(description: "pipe: errno \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        reader = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        writer = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    }
}
