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

private final class Failures: @unchecked Sendable {
    private let lock = NSLock()
    private var errors: [any Error] = []
    func add(_ error: any Error) { lock.withLock { errors.append(error) } }
    var first: (any Error)? { lock.withLock { errors.first } }
}
