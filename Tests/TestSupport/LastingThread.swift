// A thread that never ends, to start children on. The kernel kills a child that asked for it when its parent dies, and by parent
// it means the thread that started the child: threads of a pool come and go, and would take children with them.

import Foundation

/// Runs jobs one after the other on one thread that lasts as long as the process.
final class LastingThread: @unchecked Sendable {
    static let shared = LastingThread()

    private let condition = NSCondition()
    private var jobs: [() -> Void] = []

    private init() {
        Thread { [self] in
            while true { next()() }
        }.start()
    }

    private func next() -> () -> Void {
        condition.withLock {
            while jobs.isEmpty { condition.wait() }
            return jobs.removeFirst()
        }
    }

    /// Runs a job on the thread and waits for its result.
    func run<T: Sendable>(_ job: @escaping @Sendable () throws -> T) throws -> T {
        let box = ResultBox<T>()
        condition.withLock {
            jobs.append { box.put(Result { try job() }) }
            condition.signal()
        }
        return try box.take().get()
    }
}

private final class ResultBox<T: Sendable>: @unchecked Sendable {
    private let done = DispatchSemaphore(value: 0)
    private var result: Result<T, any Error>?  // written before `done`, read after it

    func put(_ result: Result<T, any Error>) {
        self.result = result
        done.signal()
    }

    func take() -> Result<T, any Error> {
        done.wait()
        return result ?? .failure(CommandError(description: "the job left no result"))
    }
}

extension ChildProcess {
    /// Starts a program that dies with this process, whatever ends this process.
    ///
    /// - Parameters:
    ///   - command: the program and its arguments.
    ///   - account: options of setpriv that give up root, if need be.
    ///   - environment: the whole environment; nil: ours.
    ///   - errors: descriptor for standard error; nil: /dev/null.
    ///   - output: descriptor for standard output; nil: /dev/null.
    ///   - signal: what ends it; one with children of its own wants a chance to end them.
    /// - Returns: the process.
    /// - Throws: when it cannot be started.
    static func mortal(
        _ command: [String], account: [String] = [], environment: [String: String]? = nil, errors: Int32? = nil,
        output: Int32? = nil, by signal: String = "KILL"
    ) throws -> ChildProcess {
        try LastingThread.shared.run {
            try ChildProcess(
                "/usr/bin/setpriv", ["--pdeathsig", signal] + account + ["--"] + command, environment: environment,
                output: output, errors: errors)
        }
    }
}
