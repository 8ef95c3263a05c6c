// Several threads at once, for tests of what happens side by side.

import Foundation

/// Runs `work` on as many threads as there are numbers; rethrows the first error.
func together(_ count: Int, _ work: @escaping @Sendable (Int) throws -> Void) throws {
    let failures = Failures()
    let group = DispatchGroup()
    for number in 0..<count {
        group.enter()
        Thread {
            do { try work(number) } catch { failures.add(error) }
            group.leave()
        }.start()
    }
    group.wait()
    if let first = failures.first { throw first }
}

/// Where threads wait for one another: nobody goes on before all have done their first step.
final class Gathering: Sendable {
    private let absent = DispatchGroup()

    init(of count: Int) { for _ in 0..<count { absent.enter() } }

    /// Takes the step, and waits for the others' (at most two minutes, should one never come).
    func pass<T>(_ step: () throws -> T) rethrows -> T {
        let result: T
        do {
            defer { absent.leave() }
            result = try step()
        }
        _ = absent.wait(timeout: .now() + 120)
        return result
    }
}

private final class Failures: @unchecked Sendable {
    private let lock = NSLock()
    private var errors: [any Error] = []
    func add(_ error: any Error) { lock.withLock { errors.append(error) } }
    var first: (any Error)? { lock.withLock { errors.first } }
}
