// The invariants of the queue, as far as a state or a step shows them.

import PushModel

/// What is wrong with a state.
enum Breach: UInt8, Error {
    case none
    case sentTwice, sentWithoutLease, sentAfterCancel
    case leasedAfterCancel, finalStatusChanged, countedTwice
    case twoHolders, countsWrong, finishedWhileOpen, notReached, statusWrong, sentAtWrong

    var text: String {
        switch self {
        case .none: "nothing is wrong"
        case .sentTwice: "a device was pushed twice, and no kill, freeze or unknown outcome excuses it"
        case .sentWithoutLease: "a request was started by a worker that did not hold the lease"
        case .sentAfterCancel: "a request was started though cancel had returned 'cancelled'"
        case .leasedAfterCancel: "a batch was leased after cancel had returned"
        case .finalStatusChanged: "a final status changed"
        case .countedTwice: "a batch counts more answers than it has devices: a settle was accepted twice"
        case .twoHolders: "two units hold the same lease"
        case .countsWrong: "the counts are not what Apple has answered"
        case .finishedWhileOpen: "the notification is finished and a batch is still open"
        case .notReached: "the notification is finished and a device was never pushed"
        case .statusWrong: "the status does not follow from the counts"
        case .sentAtWrong: "sent_at is set without 'sent', or missing"
        }
    }
}

extension QueueModel {
    /// The first invariant that does not hold in the state `next`, which comes after `state`.
    func breach(_ state: QueueState, _ next: QueueState) -> Breach {
        if next.breach != .none { return next.breach }
        if state.status.isFinal && next.status != state.status { return .finalStatusChanged }
        for i in 0..<2 where holders(next, i) > 1 { return .twoHolders }
        if next.isSentAtSet != (next.status == .sent) { return .sentAtWrong }
        return next.status.isFinal && !state.status.isFinal ? finished(next) : .none
    }

    private func holders(_ state: QueueState, _ i: Int) -> Int {
        guard state.batch(i).state == .leased else { return 0 }
        return holds(state.workerA, i) + holds(state.workerA, i + 2) + holds(state.workerB, i)
            + holds(state.workerB, i + 2)
    }

    private func holds(_ worker: Worker, _ place: Int) -> Int {
        let unit = worker[place]
        return unit.isCurrent && unit.phase != .none ? 1 : 0
    }

    private func finished(_ state: QueueState) -> Breach {
        for i in 0..<2 {
            let (batch, device) = (state.batch(i), state.device(i))
            if batch.isOpen { return .finishedWhileOpen }
            if batch.accepted == 1, !device.isDelivered { return .countsWrong }
            if device.isDelivered, batch.accepted == 0, !device.isExcused, !device.isDoubtful { return .countsWrong }
            if batch.state == .done, batch.accepted + batch.rejected + batch.unknown != 1 { return .countsWrong }
            guard state.status != .cancelled else { continue }
            // At most once: nobody knows whether a worker that was killed or frozen had sent what it was given: booked as unknown.
            let isUnknowable =
                scene.isAtMostOnce && !scene.faults.isDisjoint(with: [.crash, .freeze]) && batch.unknown == 1
            if !device.isStarted, !isUnknowable { return .notReached }
        }
        let total = (state.accepted, state.rejected + state.unknown)
        let right =
            switch state.status {
            case .sent: total.0 > 0
            case .failed: total.0 == 0 && total.1 > 0
            case .cancelled: state.cancel != .none
            default: false
            }
        return right ? .none : .statusWrong
    }
}
