// `pgpush worker` as a process of its own, as a supervisor would run it: what it logs can be awaited, so can its end, and what it
// said is in the message of whatever goes wrong. It dies with the tests.

import Foundation
import Glibc

/// What can go wrong with a worker in a test; the text holds the end of its log.
package struct WorkerFailure: Error, CustomStringConvertible {
    package let description: String
}

/// A running, or ended, `pgpush worker`.
package final class WorkerProcess: @unchecked Sendable {
    private let process: ChildProcess
    private let lock = NSLock()
    private var text = ""
    private var hasEnded = false
    private var waiters: [Int: Waiter] = [:]
    private var waiterCount = 0

    private struct Waiter {
        let isMet: (String) -> Bool
        let continuation: CheckedContinuation<Bool, Never>
    }

    /// Starts `pgpush worker` with these options; the environment is the whole one.
    ///
    /// - Parameters:
    ///   - options: of the verb.
    ///   - environment: all of it.
    ///   - wrapper: a command and its options that gets the worker's command line appended, such as `prlimit`; `pid` is then the
    ///     wrapper's, unless it executes the worker in its own place.
    /// - Throws: when it cannot be started.
    package init(_ options: [String], environment: [String: String], within wrapper: [String] = []) throws {
        let pipe = try ClosedPipe()
        process = try ChildProcess.mortal(
            wrapper + [SimulatorProcess.executable("pgpush").path, "worker"] + options, environment: environment,
            errors: pipe.writer.fileDescriptor)
        try pipe.writer.close()
        read(pipe.reader)
    }

    deinit { process.signal(SIGKILL) }

    /// The process id.
    package var pid: Int32 { process.pid }

    /// What it has written to standard error so far.
    package var log: String { lock.withLock { text } }

    /// Whether it has not ended yet.
    package var isRunning: Bool { lock.withLock { !hasEnded } }

    /// The most memory that was resident so far, in kilobytes; nil once it has ended.
    package var peakMemory: Int? {
        let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        let line = status?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line.flatMap { Int($0.filter(\.isNumber)) }
    }

    /// Sends a signal, unless it has ended.
    package func signal(_ number: Int32) { process.signal(number) }

    // MARK: Waiting

    /// Waits until its log holds `part`, so many times.
    ///
    /// - Throws: `WorkerFailure` when it does not within the limit, or has ended without it.
    package func logs(_ part: String, times: Int = 1, within limit: Duration = .seconds(120)) async throws {
        guard await isMet(within: limit, { $0.count(of: part) >= times }) else {
            throw failure("did not log “\(part)” \(times) times within \(limit)")
        }
    }

    /// Waits until it has begun to work.
    package func hasStarted(within limit: Duration = .seconds(120)) async throws {
        try await logs("worker started", within: limit)
    }

    /// Waits for its end and returns the exit code, 128 + signal when a signal ended it.
    ///
    /// - Throws: `WorkerFailure` when it has not ended within the limit; it is killed then.
    package func exitCode(within limit: Duration = .seconds(180)) async throws -> Int32 {
        _ = await isMet(within: limit) { _ in false }
        guard !isRunning else {
            process.signal(SIGKILL)
            throw failure("did not end within \(limit)")
        }
        return process.wait()
    }

    /// Asks it to end, as a supervisor does, and waits for that.
    ///
    /// - Throws: `WorkerFailure` when it does not end within the limit, or not with exit code 0.
    package func stop(within limit: Duration = .seconds(120)) async throws {
        process.signal(SIGTERM)
        let code = try await exitCode(within: limit)
        guard code == 0 else { throw failure("ended with exit code \(code)") }
    }

    /// Ends it whatever it does.
    package func kill() async {
        process.signal(SIGKILL)
        _ = try? await exitCode(within: .seconds(60))
    }

    /// An error that says what happened, with the end of the log.
    package func failure(_ what: String) -> WorkerFailure {
        WorkerFailure(description: "worker \(pid) \(what); its log ends:\n\(log.suffix(4000))")
    }

    /// True when the log has met the condition; false after the limit, or when it has ended and never will.
    private func isMet(within limit: Duration, _ condition: @escaping @Sendable (String) -> Bool) async -> Bool {
        await withCheckedContinuation { continuation in
            let (number, known) = lock.withLock { () -> (Int, Bool?) in
                if condition(text) { return (0, true) }
                if hasEnded { return (0, false) }
                waiterCount += 1
                waiters[waiterCount] = Waiter(isMet: condition, continuation: continuation)
                return (waiterCount, nil)
            }
            if let known { return continuation.resume(returning: known) }
            DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(limit / .nanoseconds(1)))) {
                [weak self] in self?.finish(number, false)
            }
        }
    }

    private func finish(_ number: Int, _ result: Bool) {
        lock.withLock { waiters.removeValue(forKey: number) }?.continuation.resume(returning: result)
    }

    // MARK: Reading

    private func read(_ handle: FileHandle) {
        Thread { [self] in
            var bytes = [UInt8](repeating: 0, count: 65536)
            while case let count = Glibc.read(handle.fileDescriptor, &bytes, bytes.count), count != 0 {
                if count > 0 { add(String(decoding: bytes[..<count], as: UTF8.self)) } else if errno != EINTR { break }
            }
            process.wait()
            ended()
        }.start()
    }

    private func add(_ part: String) {
        let met = lock.withLock { () -> [Int] in
            text += part
            return waiters.filter { $0.value.isMet(text) }.map(\.key)
        }
        for number in met { finish(number, true) }
    }

    private func ended() {
        let left = lock.withLock { () -> [Int] in
            hasEnded = true
            return Array(waiters.keys)
        }
        for number in left { finish(number, false) }
    }
}

extension String {
    /// How often a text stands in it.
    package func count(of part: String) -> Int { components(separatedBy: part).count - 1 }
}
