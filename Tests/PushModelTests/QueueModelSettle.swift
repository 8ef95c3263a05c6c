// settle, finalise and sweep, step by step.

import PushModel

extension QueueModel {
    // MARK: settle

    /// Takes what has ended to the database.
    ///
    /// Where devices are to be sent again, numbers for their batches are drawn first, which locks the notification.
    func beginSettle(_ state: QueueState, _ index: Int) -> QueueState? {
        let worker = state.worker(index)
        let party = Party(worker: index)
        var transaction = Transaction(kind: .settle, owner: party, step: 0)
        var again: UInt8 = 0
        for i in 0..<2 {
            let place = worker[i + 2].phase.isEnded ? i + 2 : i
            let unit = worker[place]
            guard unit.phase.isEnded else { continue }
            transaction.units |= 1 << i
            if place > 1 { transaction.olds |= 1 << i }
            if passesFence(state, unit.isCurrent, i, index) {
                transaction.current |= 1 << i
                if unit.phase == .again { again |= 1 << i }
            }
            if i == 0 { transaction.phase0 = unit.phase } else { transaction.phase1 = unit.phase }
        }
        guard transaction.units != 0 else { return nil }
        var next = state
        if again != 0, !state.status.isFinal {
            guard state.canLock(party) else { return nil }
            next.lock = party
            transaction.drawn = again
            transaction.step = 1
        }
        next.set(party, transaction)
        // Without numbers the first statement is the first batch's.
        return transaction.drawn == 0 ? stepSettle(next, party) : next
    }

    /// Owner and epoch of the batch's latest lease, as settle compares them.
    private func passesFence(_ state: QueueState, _ isCurrent: Bool, _ i: Int, _ index: Int) -> Bool {
        switch mutation {
        case .settleWithoutFence: true
        case .settleFencedByOwnerAlone: isCurrent || state.batch(i).owner == Party(worker: index)
        default: isCurrent
        }
    }

    /// Locks the next batch and sees whether it is still leased to us; nil while somebody else has it locked.
    func stepSettle(_ state: QueueState, _ party: Party) -> QueueState? {
        var next = state
        var transaction = state.transaction(party)
        let taken = transaction.step >> 4
        let left = transaction.units & ~taken
        guard left != 0 else { return finishInsideSettle(state, party) }
        let i = left & 1 != 0 ? 0 : 1
        var batch = state.batch(i)
        if transaction.current & 1 << i != 0 {
            guard batch.lock == .nobody else { return nil }
            if batch.state == .leased {
                batch.lock = party
                transaction.applied |= 1 << i
                next.set(i, batch)
            }
        }
        transaction.step |= 1 << (4 + UInt8(i))
        next.set(party, transaction)
        return next
    }

    /// Whether all of a settle's statements are done and only the commit is left.
    func isSettleReady(_ transaction: Transaction) -> Bool {
        transaction.step >> 4 & transaction.units == transaction.units
            && (mutation != .finaliseInsideSettle || transaction.step & 2 != 0)
    }

    /// The known mistake: `finalise` as the last statement of the settle.
    ///
    /// It sees what this transaction has closed and not what another one is about to close; where it finds something
    /// open it is content without locking the notification.
    private func finishInsideSettle(_ state: QueueState, _ party: Party) -> QueueState? {
        guard mutation == .finaliseInsideSettle else { return nil }
        var next = state
        var transaction = state.transaction(party)
        transaction.step |= 2
        decide(&next, &transaction, party)
        if transaction.outcome != .pending || transaction.givenUp != 0 {
            guard state.canLock(party) else { return nil }
            next.lock = party
        }
        next.set(party, transaction)
        return next
    }

    func commitSettle(_ state: QueueState, _ party: Party) -> QueueState {
        var next = state
        let transaction = state.transaction(party)
        for i in 0..<2 where transaction.applied & 1 << i != 0 { apply(&next, transaction, i) }
        conclude(&next, transaction)
        next.unlock(party)
        guard party == .workerA || party == .workerB else { return next }
        var worker = next.worker(party.worker)
        for i in 0..<2 where transaction.units & 1 << i != 0 {
            worker[transaction.olds & 1 << i == 0 ? i : i + 2] = Unit()
        }
        worker.mustFinalise = mutation != .finaliseInsideSettle && !next.status.isFinal
        next.set(party.worker, worker)
        return next
    }

    private func apply(_ state: inout QueueState, _ transaction: Transaction, _ i: Int) {
        var batch = state.batch(i)
        let phase = transaction.phase(i)
        switch phase {
        case .accepted: batch.accepted += 1
        case .rejected: batch.rejected += 1
        case .unknown: batch.unknown += 1
        default: break
        }
        if batch.accepted + batch.rejected + batch.unknown > 1 { state.breach = .countedTwice }
        batch.owner = .nobody
        batch.age = 0
        batch.state = .done
        if phase == .again, transaction.drawn & 1 << i != 0 {
            // The batch that the device moves to. Nothing is known any more of the lease of the old one.
            unseat(&state, i)
            batch.state = state.status == .sending ? .ready : .abandoned
            batch.attempt += 1
        }
        state.set(i, batch)
    }

    // MARK: finalise

    /// Looks, without a lock, whether there is anything to finish.
    func beginFinalise(_ state: QueueState, _ index: Int) -> QueueState? {
        let party = Party(worker: index)
        let isComplete =
            state.status == .cancelling
            || (state.status == .sending && !state.isWalking && !state.batch0.isOpen && !state.batch1.isOpen)
        var next = state
        if isComplete {
            next.set(party, Transaction(kind: .finalise, owner: party))
        } else {
            var worker = state.worker(index)
            worker.mustFinalise = false
            next.set(index, worker)
        }
        return next
    }

    /// Locks the notification and then looks again, in a snapshot of its own.
    func stepFinalise(_ state: QueueState, _ party: Party) -> QueueState? {
        guard state.canLock(party) else { return nil }
        var next = state
        next.lock = party
        var transaction = state.transaction(party)
        transaction.step = 1
        decide(&next, &transaction, party)
        next.set(party, transaction)
        return next
    }

    /// pgpush_finish: gives up what waits of a notification that is being cancelled, and finishes it when nothing is out.
    private func decide(_ state: inout QueueState, _ transaction: inout Transaction, _ party: Party) {
        guard !state.status.isFinal, !state.isWalking else { return }
        var total: (accepted: UInt8, other: UInt8) = (0, 0)
        for i in 0..<2 {
            var batch = state.batch(i)
            if state.status == .cancelling, batch.state == .ready, batch.lock == .nobody {
                batch.lock = party
                state.set(i, batch)
                transaction.givenUp |= 1 << i
                continue
            }
            let phase = transaction.kind == .settle ? transaction.phase(i) : .unknown
            let isClosedHere = transaction.applied & 1 << i != 0 && phase != .again
            guard !batch.isOpen || isClosedHere else { return }
            total.accepted += batch.accepted + (isClosedHere && phase == .accepted ? 1 : 0)
            total.other += batch.rejected + batch.unknown + (isClosedHere && phase != .accepted ? 1 : 0)
        }
        transaction.outcome =
            state.status == .cancelling ? .cancelled : total.accepted > 0 ? .sent : total.other > 0 ? .failed : .skipped
    }

    func commitFinish(_ state: QueueState, _ party: Party) -> QueueState {
        var next = state
        let transaction = state.transaction(party)
        if transaction.kind == .sweep {
            for i in 0..<2 where transaction.applied & 1 << i != 0 {
                unseat(&next, i)
                bookUnknown(&next, i)
            }
        }
        conclude(&next, transaction)
        next.unlock(party)
        if party == .workerA || party == .workerB {
            var worker = next.worker(party.worker)
            worker.mustFinalise = false
            next.set(party.worker, worker)
        }
        return next
    }

    private func conclude(_ state: inout QueueState, _ transaction: Transaction) {
        for i in 0..<2 where transaction.givenUp & 1 << i != 0 {
            var batch = state.batch(i)
            batch.state = .abandoned
            state.set(i, batch)
        }
        guard transaction.outcome != .pending else { return }
        if state.status.isFinal { state.breach = .finalStatusChanged }
        state.status = transaction.outcome
        state.isWalking = false
        state.isSentAtSet = transaction.outcome == .sent
        state.accepted = state.batch0.accepted + state.batch1.accepted
        state.rejected = state.batch0.rejected + state.batch1.rejected
        state.unknown = state.batch0.unknown + state.batch1.unknown
    }

    // MARK: sweep

    /// Locks a notification that somebody should have finished, books as unknown what is lost of a cancelled one, and decides.
    func beginSweep(_ state: QueueState) -> QueueState? {
        let isComplete =
            state.status == .cancelling
            || (state.status == .sending && !state.isWalking && !state.batch0.isOpen && !state.batch1.isOpen)
        guard isComplete, state.lock == .nobody, state.shares == 0 else { return nil }
        var next = state
        next.lock = .sweeper
        var transaction = Transaction(kind: .sweep, owner: .sweeper, step: 1)
        // After an outage every lease looks lost to a sweep, too.
        let mayTake = figures.mayRescue[Int(state.sweepLink)] || mutation == .sweepRightAfterAnOutage
        for i in 0..<2 where state.status == .cancelling && mayTake {
            var batch = state.batch(i)
            guard batch.state == .leased, figures.isLost[Int(batch.age)], batch.lock == .nobody else { continue }
            batch.lock = .sweeper
            next.set(i, batch)
            transaction.applied |= 1 << i
        }
        decide(&next, &transaction, .sweeper)
        guard transaction.outcome != .pending || transaction.applied != 0 || transaction.givenUp != 0 else {
            return nil
        }
        next.set(.sweeper, transaction)
        return next
    }
}
