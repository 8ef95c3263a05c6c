// How actors and tasks get onto a loop. Two sibling objects over one loop: a type that is both kinds at once
// hits a slow path of the runtime, and a serial executor alone sends each resumed task through the global pool
// first (two thread switches, 15–34 µs against 1–1.6 µs).

/// The executor of the actors that live on a loop.
package final class LoopSerialExecutor: SerialExecutor, @unchecked Sendable {
    private unowned let loop: EventLoop

    init(loop: EventLoop) { self.loop = loop }

    package func enqueue(_ job: consuming ExecutorJob) { loop.enqueue(UnownedJob(job)) }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor { unsafe UnownedSerialExecutor(ordinary: self) }

    package func checkIsolated() { precondition(loop.isCurrent, "this code belongs to the loop \(loop.name)") }

    package func isIsolatingCurrentContext() -> Bool? { loop.isCurrent }
}

/// The preferred executor of the tasks that serve a loop's actors.
package final class LoopTaskExecutor: TaskExecutor, @unchecked Sendable {
    private unowned let loop: EventLoop

    init(loop: EventLoop) { self.loop = loop }

    package func enqueue(_ job: consuming ExecutorJob) { loop.enqueue(UnownedJob(job)) }

    package func asUnownedTaskExecutor() -> UnownedTaskExecutor { unsafe UnownedTaskExecutor(ordinary: self) }
}

/// An actor on a loop: a place for loop-confined objects and the async code that drives them.
package actor LoopActor {
    /// The loop this actor runs on.
    package nonisolated let loop: EventLoop

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe loop.serialExecutor.asUnownedSerialExecutor()
    }

    /// Makes an actor on `loop`.
    package init(loop: EventLoop) { self.loop = loop }

    /// Runs `body` on the loop.
    package func run<T: Sendable>(_ body: @Sendable (isolated LoopActor) async throws -> T) async rethrows -> T {
        try await body(self)
    }
}
