// The statements of the queue as they stand in sql/objects: claim_broadcasts, claim_batches, renew, look, release, release_lost,
// cancel, finalise and sweep. Each takes the locks that the SQL takes, in its order; nil means that it would have to wait.

import PushModel

extension QueueModel {
    // MARK: claim_broadcasts

    /// Locks the notification, looks at it again and cuts the next `count` batches.
    func beginCut(_ state: QueueState, _ worker: Int, count: UInt8) -> QueueState? {
        let party = Party(worker: worker)
        guard state.status == .pending || (state.status == .sending && state.isWalking), state.canLock(party),
            state.cursor + count <= 2
        else { return nil }
        var next = state
        next.lock = party
        next.set(
            party,
            Transaction(
                kind: .cut, owner: party, units: count == 2 ? 0b11 : 1 << state.cursor))
        return next
    }

    // MARK: claim_batches

    /// The batches that one statement finds and locks, with the notification FOR SHARE: those that are ready, those that are lost.
    func takeable(_ state: QueueState, _ worker: Int) -> UInt8 {
        let party = Party(worker: worker)
        let mustShare = mutation != .claimWithoutLockOnTheParent
        guard state.status.allowsSending, !mustShare || state.lock == .nobody || state.lock == party else { return 0 }
        let me = state.worker(worker)
        var found: UInt8 = 0
        for i in 0..<2 {
            let batch = state.batch(i)
            let isLost = batch.state == .leased && figures.isLost[Int(batch.age)] && figures.mayRescue[Int(me.link)]
            guard batch.lock == .nobody, batch.state == .ready || isLost else { continue }
            // The model has room for two units of a batch in a worker's memory.
            guard me[i].phase == .none || me[i + 2].phase == .none else { continue }
            found |= 1 << i
        }
        return found
    }

    func beginTake(_ state: QueueState, _ worker: Int, _ units: UInt8) -> QueueState {
        let party = Party(worker: worker)
        var next = state
        if mutation != .claimWithoutLockOnTheParent { next.shares |= party.bit }
        for i in 0..<2 where units & 1 << i != 0 {
            var batch = next.batch(i)
            batch.lock = party
            next.set(i, batch)
        }
        next.set(party, Transaction(kind: .take, owner: party, units: units))
        return next
    }

    /// The commit of either claim: the batches are leased, and the worker has the answer, unless it is frozen.
    func commitClaim(_ state: QueueState, _ party: Party) -> QueueState {
        var next = state
        let transaction = state.transaction(party)
        var granted: UInt8 = 0
        for i in 0..<2 where transaction.units & 1 << i != 0 {
            if transaction.kind == .take, state.batch(i).state == .leased, scene.isAtMostOnce {
                unseat(&next, i)
                bookUnknown(&next, i)
            } else {
                unseat(&next, i)
                if state.cancel != .none { next.breach = .leasedAfterCancel }
                var batch = next.batch(i)
                batch.state = .leased
                batch.owner = transaction.owner
                batch.age = 0
                next.set(i, batch)
                granted |= 1 << i
            }
        }
        if transaction.kind == .cut {
            next.status = .sending
            next.cursor += transaction.units == 0b11 ? 2 : 1
            next.isWalking = next.cursor < 2
        }
        next.unlock(party)
        guard party == .workerA || party == .workerB else { return next }
        var worker = next.worker(party.worker)
        worker.granted = granted
        worker.grantedAge = 0
        next.set(party.worker, worker)
        if !worker.isFrozen { receive(&next, party.worker) }
        return next
    }

    /// The answer to a claim: units to send, with a deadline counted from the question.
    func receive(_ state: inout QueueState, _ index: Int) {
        var worker = state.worker(index)
        for i in 0..<2 where worker.granted & 1 << i != 0 {
            if worker[i].phase != .none { worker[i + 2] = worker[i] }
            let asked = mutation == .deadlineFromTheAnswer ? 0 : worker.grantedAge
            worker[i] = Unit(phase: .waiting, isCurrent: isHeld(state, i, by: index), asked: asked)
        }
        worker.granted = 0
        worker.grantedAge = 0
        state.set(index, worker)
    }

    /// Whether the latest lease is the one that this worker was given last; a frozen worker's may have been taken since.
    private func isHeld(_ state: QueueState, _ i: Int, by index: Int) -> Bool {
        let batch = state.batch(i)
        return batch.state == .leased && batch.owner == Party(worker: index)
    }

    /// The present lease of a batch ends for whoever has it.
    ///
    /// A holder that slept with something written may have sent it.
    func unseat(_ state: inout QueueState, _ i: Int) {
        for index in 0..<2 {
            var worker = state.worker(index)
            for place in [i, i + 2] where worker[place].isCurrent {
                if worker.isFrozen || worker.hasSlept, worker[place].phase.isTouched {
                    var device = state.device(i)
                    device.isExcused = true
                    state.set(i, device)
                }
                worker[place].isCurrent = false
                state.set(index, worker)
            }
        }
        state.transactionA.current &= ~(1 << i)
        state.transactionB.current &= ~(1 << i)
        state.stray.current &= ~(1 << i)
    }

    /// pgpush_book_unknown.
    func bookUnknown(_ state: inout QueueState, _ i: Int) {
        var batch = state.batch(i)
        batch.state = .done
        batch.unknown += 1
        state.set(i, batch)
    }

    // MARK: One statement, one transaction: renew, look, release, release_lost, cancel

    func renew(_ state: QueueState, _ index: Int, _ place: Int) -> QueueState? {
        var next = state
        var (worker, batch) = (state.worker(index), state.batch(place & 1))
        guard batch.lock == .nobody else { return nil }
        if worker[place].isCurrent && batch.state == .leased {
            batch.age = 0
            next.set(place & 1, batch)
            worker[place].asked = 0
        } else {
            worker[place].isStopped = true
        }
        next.set(index, worker)
        return next
    }

    func look(_ state: QueueState, _ index: Int) -> QueueState? {
        guard !state.status.allowsSending else { return nil }
        var next = state
        var worker = state.worker(index)
        for place in 0..<4 where worker[place].phase == .waiting || worker[place].phase == .onTheWire {
            worker[place].isStopped = true
        }
        next.set(index, worker)
        return next
    }

    /// Gives a unit back of which nothing was sent.
    func release(_ state: QueueState, _ index: Int, _ place: Int) -> QueueState? {
        var next = state
        var (worker, batch) = (state.worker(index), state.batch(place & 1))
        guard batch.lock == .nobody else { return nil }
        if worker[place].isCurrent && batch.state == .leased {
            batch.state = .ready
            batch.owner = .nobody
            batch.age = 0
            next.set(place & 1, batch)
        }
        worker[place] = Unit()
        next.set(index, worker)
        return next
    }

    /// After a claim whose outcome is not known: what is leased to this worker and not in its memory goes back.
    ///
    /// The server may still be at that claim, so it is done again until that cannot be any more.
    func releaseLost(_ state: QueueState, _ index: Int) -> QueueState? {
        var next = state
        var worker = state.worker(index)
        for i in 0..<2 where isHeld(state, i, by: index) && !worker[i].isCurrent && !worker[i + 2].isCurrent {
            var batch = state.batch(i)
            guard batch.lock == .nobody else { return nil }
            batch.state = .ready
            batch.owner = .nobody
            batch.age = 0
            next.set(i, batch)
        }
        worker.isInDoubt = state.stray.kind != .none
        next.set(index, worker)
        return next
    }

    func cancel(_ state: QueueState) -> QueueState? {
        guard state.canLock(.nobody), !state.status.isFinal else { return nil }
        var next = state
        if state.status == .pending || mutation == .cancelIgnoresWhatIsOut {
            next.status = .cancelled
            next.cancel = state.status == .pending ? .cancelled : .cancelling
        } else {
            next.status = .cancelling
            next.cancel = .cancelling
        }
        next.isWalking = false
        return next
    }
}
