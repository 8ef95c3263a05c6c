// The way in from a thread that has no loop: `main` of a command line verb, or a test.

import CLinux

extension EventLoop {
    /// Runs `body` on this loop and blocks the calling thread, which must be another one, until it has ended.
    package func runBlocking<T: Sendable>(
        _ body: @escaping @Sendable (isolated LoopActor) async throws -> T
    ) throws -> T {
        precondition(!isCurrent, "a loop cannot wait for itself")
        let outcome = Outcome<T>()
        let actor = LoopActor(loop: self)
        Task(executorPreference: taskExecutor) {
            do {
                outcome.set(.success(try await actor.run(body)))
            } catch {
                outcome.set(.failure(error))
            }
        }
        return try outcome.wait().get()
    }
}

/// A result that one thread waits for and another brings.
@safe private final class Outcome<T: Sendable>: @unchecked Sendable {
    private let done: UnsafeMutablePointer<sem_t> = .allocate(capacity: 1)
    private var result: Result<T, any Error>?

    init() {
        unsafe done.initialize(to: sem_t())
        unsafe sem_init(done, 0, 0)
    }

    deinit {
        unsafe sem_destroy(done)
        unsafe done.deallocate()
    }

    func set(_ value: Result<T, any Error>) {
        result = value
        unsafe sem_post(done)
    }

    func wait() -> Result<T, any Error> {
        while unsafe sem_wait(done) != 0 {}
        guard let result else { preconditionFailure("the result is set before the semaphore is posted") }
        return result
    }
}
