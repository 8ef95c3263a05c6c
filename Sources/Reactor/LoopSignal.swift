// The one way in which a task of a loop waits for something that is not I/O: a flag that somebody raises, with
// an end to the wait.

/// A flag with at most one task waiting for it; loop-confined.
///
/// A signal raised while nobody waits is kept for the next wait, so no wake-up is lost; several are one.
package final class LoopSignal {
    private let loop: EventLoop
    private var waiter: CheckedContinuation<Bool, Never>?
    private var timer: LoopTimer?
    private var isRaised = false

    /// Makes a lowered flag on `loop`.
    package init(loop: EventLoop) { self.loop = loop }

    /// Wakes the waiting task, or lets the next wait return at once.
    package func raise() {
        guard let waiter else {
            isRaised = true
            return
        }
        finish(waiter, true)
    }

    /// Waits for the flag and lowers it; false when `timeout` passed first (nil: no end but the signal).
    package func wait(_ timeout: Duration? = nil) async -> Bool {
        if isRaised {
            isRaised = false
            return true
        }
        precondition(waiter == nil, "a signal has one waiter")
        return await withCheckedContinuation { continuation in
            waiter = continuation
            if let timeout {
                timer = loop.schedule(after: timeout) { [self] in
                    if let waiter { finish(waiter, false) }
                }
            }
        }
    }

    private func finish(_ continuation: CheckedContinuation<Bool, Never>, _ result: Bool) {
        waiter = nil
        if let timer { loop.cancel(timer) }
        timer = nil
        continuation.resume(returning: result)
    }
}
