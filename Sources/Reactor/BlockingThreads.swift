// Work that blocks (name look-ups, file reads) runs on threads of its own, never on a loop. A few at once are
// enough; what comes on top waits in line, bounded, and whoever asked keeps a deadline of their own.

import CLinux
import Telemetry

/// A bounded set of short-lived threads for calls that block.
package final class BlockingThreads: Sendable {
    /// The set that the whole process shares.
    package static let shared = BlockingThreads(limit: 8, queueLimit: 256)

    private let limit: Int
    private let queueLimit: Int
    private let state = Lock(State())

    private struct State {
        var running = 0
        var waiting: [@Sendable () -> Void] = []
    }

    /// At most `limit` threads at once and `queueLimit` calls in line.
    package init(limit: Int, queueLimit: Int) {
        self.limit = limit
        self.queueLimit = queueLimit
    }

    /// Runs `work` on a thread; false when too many calls are in line or no thread can be had.
    package func run(_ work: @escaping @Sendable () -> Void) -> Bool {
        let decision = state.withLock { state -> Bool? in
            if state.running < limit {
                state.running += 1
                return true
            }
            guard state.waiting.count < queueLimit else { return nil }
            state.waiting.append(work)
            return false
        }
        switch decision {
        case .none: return false
        case .some(false): return true
        case .some(true): return begin(work)
        }
    }

    private func begin(_ work: @escaping @Sendable () -> Void) -> Bool {
        let body = ThreadBody { [self] in
            work()
            while let next = takeNext() { next() }
        }
        var thread = pthread_t()
        let box = unsafe Unmanaged.passRetained(body)
        guard unsafe pthread_create(&thread, nil, runThreadBody, box.toOpaque()) == 0 else {
            unsafe box.release()
            state.withLock { $0.running -= 1 }
            return false
        }
        pthread_detach(thread)
        return true
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.running -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}
