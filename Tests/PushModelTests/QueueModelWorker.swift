// What happens outside the database: requests, faults, and the passing of time.

import PushModel

extension QueueModel {
    // MARK: Requests

    /// Starts a request, if the worker's own deadline allows it.
    ///
    /// Whether that was right is judged here.
    func start(_ state: QueueState, _ index: Int, _ place: Int) -> QueueState? {
        var worker = state.worker(index)
        let unit = worker[place]
        guard unit.phase == .waiting, !unit.isStopped, figures.maySend[Int(unit.asked)] else { return nil }
        var next = state
        let i = place & 1
        var device = state.device(i)
        if !unit.isCurrent || state.batch(i).state != .leased { next.breach = .sentWithoutLease }
        if state.cancel == .cancelled { next.breach = .sentAfterCancel }
        let isRepeat = device.isDelivered || device.wires > 0
        if isRepeat && !device.isExcused { next.breach = .sentTwice }
        if scene.isAtMostOnce && (isRepeat || device.isDoubtful) { next.breach = .sentTwice }
        device.isStarted = true
        device.wires += 1
        worker[place].phase = .onTheWire
        worker[place].clock = 0
        next.set(i, device)
        next.set(index, worker)
        return next
    }

    /// A request ends; what follows, the product's rules say.
    func end(_ state: QueueState, _ index: Int, _ place: Int, _ end: RequestEnd) -> QueueState {
        var next = state
        let i = place & 1
        var (worker, device) = (state.worker(index), state.device(i))
        let attempt = state.batch(i).attempt
        device.wires -= 1
        if end == .accepted { device.isDelivered = true }
        if end == .unanswered { device.isDoubtful = true }
        var unit = worker[place]
        unit.clock = 0
        unit.asked = 0
        switch figures.fates[Int(end.rawValue)] {
        case .accepted: unit.phase = .accepted
        case .rejected, .hold: unit.phase = .rejected
        case .retryLater(let kind): unit.phase = figures.isTriedAgain(kind, attempt: attempt) ? .again : .rejected
        case .unknown:
            let isRepeated = !scene.isAtMostOnce && figures.isTriedAgain(.unanswered, attempt: attempt)
            unit.phase = isRepeated ? .again : .unknown
        case .resend:
            unit.phase = .waiting
            unit.asked = worker[place].asked
        }
        if unit.phase.isEnded { unit.isStopped = false }
        worker[place] = unit
        next.set(i, device)
        next.set(index, worker)
        return next
    }

    // MARK: Faults

    /// All that the worker knew is gone; what its transaction does is up to the server.
    func crash(_ state: QueueState, _ index: Int, goesOn: Bool) -> QueueState? {
        guard var next = cutOff(state, index, goesOn: goesOn) else { return nil }
        let worker = state.worker(index)
        for place in 0..<4 where worker[place].phase.isTouched {
            var device = next.device(place & 1)
            if worker[place].phase == .onTheWire {
                device.wires -= 1
                device.isDoubtful = true
            }
            device.isExcused = true
            next.set(place & 1, device)
        }
        next.set(index, Worker(isConnected: state.isDatabaseUp))
        for i in 0..<2 where next.batch(i).owner == Party(worker: index) {
            var batch = next.batch(i)
            batch.owner = .gone
            next.set(i, batch)
        }
        if next.stray.owner == Party(worker: index) { next.stray.owner = .gone }
        return next
    }

    func freeze(_ state: QueueState, _ index: Int) -> QueueState {
        var next = state
        var worker = state.worker(index)
        worker.isFrozen = true
        worker.hasSlept = true
        worker.isLate = false
        next.set(index, worker)
        return next
    }

    func wake(_ state: QueueState, _ index: Int) -> QueueState {
        var next = state
        var worker = state.worker(index)
        worker.isFrozen = false
        next.set(index, worker)
        if worker.granted != 0 { receive(&next, index) }
        return next
    }

    /// The connection breaks.
    ///
    /// A transaction under way is rolled back or done all the same.
    func disconnect(_ state: QueueState, _ index: Int, goesOn: Bool) -> QueueState? {
        let transaction = state.transaction(Party(worker: index))
        guard var next = cutOff(state, index, goesOn: goesOn) else { return nil }
        var worker = next.worker(index)
        worker.isConnected = false
        worker.link = 0
        if transaction.kind == .cut || transaction.kind == .take {
            worker.isInDoubt = mutation != .nothingAfterALostClaim
        }
        // What could not be finalised is left to the sweep.
        if transaction.kind == .finalise { worker.mustFinalise = false }
        next.set(index, worker)
        return next
    }

    /// The server loses the client of a transaction.
    private func cutOff(_ state: QueueState, _ index: Int, goesOn: Bool) -> QueueState? {
        let party = Party(worker: index)
        var next = state
        let transaction = state.transaction(party)
        guard goesOn else {
            next.unlock(party)
            return next
        }
        guard transaction.kind != .none, state.stray.kind == .none else { return nil }
        let locks = (state.lock == party, state.shares & party.bit != 0)
        next.unlock(party)
        next.stray = transaction
        if locks.0 { next.lock = .stray }
        if locks.1 { next.shares |= Party.stray.bit }
        for i in 0..<2 where state.batch(i).lock == party {
            var batch = next.batch(i)
            batch.lock = .stray
            next.set(i, batch)
        }
        return next
    }

    func outage(_ state: QueueState) -> QueueState {
        var next = state
        for index in 0..<2 {
            let broken = disconnect(next, index, goesOn: false) ?? next
            next = broken
        }
        next.unlock(.sweeper)
        next.unlock(.stray)
        next.sweepLink = 0
        next.isDatabaseUp = false
        return next
    }

    // MARK: Time

    /// Whether the worker has something to do that does not wait.
    private func isOwing(_ state: QueueState, _ index: Int) -> Bool {
        let worker = state.worker(index)
        return !worker.isFrozen && state.isDatabaseUp
            && (!worker.isConnected || worker.isInDoubt || worker.hasEnded || holdsInVain(worker))
    }

    /// Whether something waits that may not be sent any more; it goes back like what has ended.
    private func holdsInVain(_ worker: Worker) -> Bool {
        for place in 0..<4 where worker[place].phase == .waiting {
            if worker[place].isStopped || !figures.maySend[Int(worker[place].asked)] { return true }
        }
        return false
    }

    /// All ages grow by one, when nothing is overdue.
    func tick(_ state: QueueState) -> QueueState? {
        guard state.isQuiet else { return nil }
        var next = state
        if state.isDatabaseUp { next.sweepLink = min(state.sweepLink + 1, figures.oldestLink) }
        for index in 0..<2 {
            var worker = state.worker(index)
            let owes = isOwing(state, index)
            if worker.isLate && owes { return nil }
            worker.isLate = owes
            if worker.isConnected { worker.link = min(worker.link + 1, figures.oldestLink) }
            if worker.granted != 0 { worker.grantedAge = min(worker.grantedAge + 1, figures.oldestAsked) }
            for place in 0..<4 where worker[place].phase == .waiting || worker[place].phase == .onTheWire {
                worker[place].asked = min(worker[place].asked + 1, figures.oldestAsked)
                guard worker[place].phase == .onTheWire else { continue }
                if worker[place].clock >= Figures.request {
                    guard worker.isFrozen else { return nil }
                    continue
                }
                worker[place].clock += 1
            }
            next.set(index, worker)
        }
        for i in 0..<2 where state.batch(i).state == .leased {
            var batch = next.batch(i)
            batch.age = min(batch.age + 1, figures.oldestLease)
            next.set(i, batch)
        }
        return next
    }

    /// Brings what makes no difference into one form, so that equal situations are equal states.
    func settled(_ state: QueueState) -> QueueState {
        var next = state
        for index in 0..<2 {
            var worker = state.worker(index)
            if worker.isLate && !isOwing(state, index) { worker.isLate = false }
            if worker.hasSlept && !worker.isFrozen && !worker.hasTouched { worker.hasSlept = false }
            next.set(index, worker)
        }
        return next
    }
}
