// All that can happen next in a state.

import PushModel

/// One thing that happens.
struct Action {
    enum Verb: UInt8 {
        case cut, take, settle, finalise, goOn, commit, rollBack
        case renew, look, release, releaseLost, start, end, reconnect, wake
        case sweep, cancel, tick, restore
        case crash, freeze, disconnect, outage
    }
    var verb: Verb
    var party = Party.nobody
    /// A batch, a place in a worker's memory or a set of batches, by the verb.
    var place: UInt8 = 0
    var end = RequestEnd.accepted
    /// With a broken connection: whether the server goes on with the transaction.
    var goesOn = false

    /// Whether it is part of the way on once faults have ended and nobody cancels.
    var isProgress: Bool {
        switch verb {
        case .crash, .freeze, .disconnect, .outage, .cancel: false
        default: true
        }
    }
}

/// The model of one scene.
///
/// A class, since it is passed around more often than anything else.
final class QueueModel {
    let scene: Scene
    let figures: Figures
    var mutation: Mutation? { scene.mutation }

    init(_ scene: Scene) {
        self.scene = scene
        figures = Figures(scene.mutation)
    }

    /// A due notification, and two workers that have been there for long.
    var start: QueueState {
        var state = QueueState()
        state.workerA.link = figures.oldestLink
        state.workerB.link = figures.oldestLink
        state.sweepLink = figures.oldestLink
        return state
    }

    /// Whether the notification is over and nobody has anything left to do.
    func isAtRest(_ state: QueueState) -> Bool {
        state.status.isFinal && state.isQuiet && state.workerA.isAtRest && state.workerB.isAtRest
            && !state.batch0.isOpen && !state.batch1.isOpen
    }

    /// Calls `visit` with everything that may happen next.
    func successors(of state: QueueState, _ visit: (Action, QueueState) -> Void) {
        func add(_ action: Action, _ next: QueueState?) {
            if let next { visit(action, settled(next)) }
        }
        for index in 0..<2 {
            let party = Party(worker: index)
            step(state, party, add)
            guard !state.worker(index).isFrozen else {
                add(Action(verb: .wake, party: party), wake(state, index))
                continue
            }
            wire(state, index, add)
            if state.isDatabaseUp, state.transaction(party).kind == .none { calls(state, index, add) }
        }
        step(state, .sweeper, add)
        step(state, .stray, add)
        if state.stray.kind != .none {
            var next = state
            next.unlock(.stray)
            add(Action(verb: .rollBack, party: .stray), next)
        }
        if state.isDatabaseUp {
            if scene.isSwept, state.sweep.kind == .none {
                add(Action(verb: .sweep, party: .sweeper), beginSweep(state))
            }
            if scene.mayCancel, state.cancel == .none { add(Action(verb: .cancel), cancel(state)) }
        } else {
            var next = state
            next.isDatabaseUp = true
            add(Action(verb: .restore), next)
        }
        if scene.hasTime { add(Action(verb: .tick), tick(state)) }
        if state.faults < scene.faultLimit { faults(state, add) }
    }

    /// The next step of a transaction that is under way.
    private func step(_ state: QueueState, _ party: Party, _ add: (Action, QueueState?) -> Void) {
        let transaction = state.transaction(party)
        let (goOn, commit) = (Action(verb: .goOn, party: party), Action(verb: .commit, party: party))
        switch transaction.kind {
        case .none: return
        case .cut, .take: add(commit, commitClaim(state, party))
        case .settle where isSettleReady(transaction): add(commit, commitSettle(state, party))
        case .settle: add(goOn, stepSettle(state, party))
        case .finalise where transaction.step == 0: add(goOn, stepFinalise(state, party))
        case .finalise, .sweep: add(commit, commitFinish(state, party))
        }
    }

    /// What a worker can do without the database.
    private func wire(_ state: QueueState, _ index: Int, _ add: (Action, QueueState?) -> Void) {
        let worker = state.worker(index)
        let party = Party(worker: index)
        for place in 0..<4 {
            switch worker[place].phase {
            case .waiting:
                add(Action(verb: .start, party: party, place: UInt8(place)), start(state, index, place))
            case .onTheWire:
                for end in scene.ends {
                    let action = Action(verb: .end, party: party, place: UInt8(place), end: end)
                    add(action, self.end(state, index, place, end))
                }
            default: continue
            }
        }
    }

    /// What a worker can ask the database.
    private func calls(_ state: QueueState, _ index: Int, _ add: (Action, QueueState?) -> Void) {
        var worker = state.worker(index)
        let party = Party(worker: index)
        guard worker.isConnected else {
            worker.isConnected = true
            var next = state
            next.set(index, worker)
            return add(Action(verb: .reconnect, party: party), next)
        }
        if worker.isInDoubt { add(Action(verb: .releaseLost, party: party), releaseLost(state, index)) }
        for count in 1...2 {
            let action = Action(verb: .cut, party: party, place: UInt8(count))
            add(action, beginCut(state, index, count: UInt8(count)))
        }
        let units = takeable(state, index)
        for some in 1...3 where UInt8(some) & ~units == 0 {
            add(Action(verb: .take, party: party, place: UInt8(some)), beginTake(state, index, UInt8(some)))
        }
        if worker.hasEnded { add(Action(verb: .settle, party: party), beginSettle(state, index)) }
        if worker.mustFinalise { add(Action(verb: .finalise, party: party), beginFinalise(state, index)) }
        if !worker.isAtRest { leases(state, index, add) }
    }

    /// What a worker asks about the units that it has.
    private func leases(_ state: QueueState, _ index: Int, _ add: (Action, QueueState?) -> Void) {
        let worker = state.worker(index)
        let party = Party(worker: index)
        add(Action(verb: .look, party: party), look(state, index))
        for place in 0..<4 {
            let unit = worker[place]
            guard unit.phase != .none, !unit.phase.isEnded || mutation == .releaseOfWhatWasSent else { continue }
            if figures.mayRenew[Int(unit.asked)], !unit.isStopped, !unit.phase.isEnded {
                add(Action(verb: .renew, party: party, place: UInt8(place)), renew(state, index, place))
            }
            let mustGo = unit.isStopped || !figures.maySend[Int(unit.asked)]
            guard unit.phase == .waiting || mutation == .releaseOfWhatWasSent, scene.givesBack || mustGo else {
                continue
            }
            add(Action(verb: .release, party: party, place: UInt8(place)), release(state, index, place))
        }
    }

    private func faults(_ state: QueueState, _ add: (Action, QueueState?) -> Void) {
        func count(_ state: QueueState?) -> QueueState? {
            var next = state
            next?.faults += 1
            return next
        }
        for index in 0..<2 {
            let party = Party(worker: index)
            let isBusy = state.transaction(party).kind != .none
            for goesOn in isBusy ? [false, true] : [false] {
                if scene.faults.contains(.crash) {
                    let action = Action(verb: .crash, party: party, goesOn: goesOn)
                    add(action, count(crash(state, index, goesOn: goesOn)))
                }
                if scene.faults.contains(.disconnect), state.worker(index).isConnected, !state.worker(index).isFrozen {
                    let action = Action(verb: .disconnect, party: party, goesOn: goesOn)
                    add(action, count(disconnect(state, index, goesOn: goesOn)))
                }
            }
            // Nobody can tell a frozen worker that has nothing to do from one that does nothing.
            let isIdle = !isBusy && state.worker(index).isAtRest
            if scene.faults.contains(.freeze), !state.worker(index).isFrozen, !isIdle {
                add(Action(verb: .freeze, party: party), count(freeze(state, index)))
            }
        }
        if scene.faults.contains(.outage), state.isDatabaseUp { add(Action(verb: .outage), count(outage(state))) }
    }
}
