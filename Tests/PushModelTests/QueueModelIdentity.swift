// Which states are the same. Every field of a state is one byte, so it is compared and hashed as the bytes that it is: that is
// what makes hundreds of thousands of them a matter of seconds, also in a debug build. The two workers are alike, so of two states
// that differ only in their names one stands for both.

import Glibc

extension QueueState: Hashable {
    static func == (left: QueueState, right: QueueState) -> Bool { left.compared(with: right) == 0 }

    func hash(into hasher: inout Hasher) {
        withUnsafeBytes(of: self) { hasher.combine(bytes: $0) }
    }

    private func compared(with other: QueueState) -> Int32 {
        withUnsafeBytes(of: self) { mine in
            withUnsafeBytes(of: other) { others in
                guard let mine = mine.baseAddress, let others = others.baseAddress else { return 0 }
                return memcmp(mine, others, MemoryLayout<QueueState>.size)
            }
        }
    }

    /// With the workers' names exchanged.
    var swapped: QueueState {
        var state = self
        state.workerA = workerB
        state.workerB = workerA
        state.transactionA = transactionB
        state.transactionB = transactionA
        state.transactionA.owner = state.transactionA.owner.swapped
        state.transactionB.owner = state.transactionB.owner.swapped
        state.stray.owner = stray.owner.swapped
        state.lock = lock.swapped
        state.shares = shares & ~(Party.workerA.bit | Party.workerB.bit)
        if shares & Party.workerA.bit != 0 { state.shares |= Party.workerB.bit }
        if shares & Party.workerB.bit != 0 { state.shares |= Party.workerA.bit }
        state.batch0.owner = batch0.owner.swapped
        state.batch0.lock = batch0.lock.swapped
        state.batch1.owner = batch1.owner.swapped
        state.batch1.lock = batch1.lock.swapped
        return state
    }

    /// The one of the two that stands for both, and whether it is the other one.
    var representative: (state: QueueState, isSwapped: Bool) {
        let other = swapped
        return other.compared(with: self) < 0 ? (other, true) : (self, false)
    }
}
