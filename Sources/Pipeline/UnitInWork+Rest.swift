// What becomes of the devices of a unit that are not sent now: they go on in batches of their own, or are refused unsent.

import PushModel
import PushStore

extension UnitInWork {
    /// Puts a device into a batch of its own, together with the others that go on in the same way.
    func addRequeue(_ requeue: Requeue, devices: [Int64]) {
        if requeue.state == .parked { parked += devices.count }
        if let place = settlement.requeues.firstIndex(where: { $0.goesWith(requeue) }) {
            settlement.requeues[place].devices += devices
            settlement.requeues[place].delay = max(settlement.requeues[place].delay, requeue.delay)
        } else {
            var requeue = requeue
            requeue.devices = devices
            settlement.requeues.append(requeue)
        }
    }

    /// Books all that waits as refused without sending it.
    func refuse(reason: String) {
        for place in segments.indices {
            for index in takeWaiting(place, as: .refused) { bookRefused(index, reason: reason) }
        }
    }

    /// Books a device that is refused without having been sent.
    func bookRefused(_ index: Int, reason: String) {
        settlement.rejected += 1
        settlement.error = settlement.error ?? reason
        settlement.failures.append(
            DeviceFailure(
                device: device(index), token: token(index), environment: environment(of: index), status: 0,
                reason: reason, isFinal: true, time: claimed))
    }

    /// Gives what still waits back to the queue, uncharged; for a unit that has been stopped in the middle.
    ///
    /// What is given up for everybody must not be claimed again before that is written down.
    func handBackRest() {
        for place in segments.indices { putOff(place, for: stopReason == .hopeless ? .seconds(5) : .zero) }
    }

    /// Moves what waits of a segment into a batch that is taken up again after a while, uncharged.
    func putOff(_ segment: Int, for delay: Duration) {
        let waiting = takeWaiting(segment, as: .moved)
        guard !waiting.isEmpty else { return }
        addRequeue(Requeue(state: .ready, isCharged: false, delay: delay), devices: waiting.map(device))
    }

    // MARK: Pauses

    /// Whether any of `pauses` forbids a segment.
    func isHeld(_ segment: Int, byAnyOf pauses: Set<ScopePause>) -> Bool {
        pauses.contains { isHeld(segment, by: $0) }
    }

    /// Whether a pause covers a segment.
    func isHeld(_ segment: Int, by pause: ScopePause) -> Bool {
        pause.app == work.content.app && [nil, segments[segment].environment].contains(pause.environment)
            && [nil, topic].contains(pause.topic)
    }

    /// Moves what waits of a segment into a batch that waits for its scope to resume.
    func park(_ segment: Int) {
        let waiting = takeWaiting(segment, as: .moved)
        guard !waiting.isEmpty else { return }
        addRequeue(
            Requeue(
                state: .parked, isCharged: false, delay: .zero, environment: segments[segment].environment,
                topic: topic),
            devices: waiting.map(device))
    }
}
