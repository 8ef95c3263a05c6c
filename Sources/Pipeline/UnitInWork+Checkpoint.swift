// What a unit on the wire has to say in between, so that a process that is killed has about a second of answers to repeat, and not a
// batch. The database keeps one number for it: everything up to that device, in the order of sending, is done. So a
// checkpoint reaches to the first device that is still open, and holds exactly what became of those before it.

import PushModel
import PushStore

/// A settlement of the first devices of a unit.
struct Checkpoint {
    let settlement: UnitSettlement
    /// For each segment, the first device that is not in it.
    let ends: [Int]
}

extension UnitInWork {
    /// What can be written back by now; nil when there is nothing new, or it is not worth it.
    ///
    /// Changes nothing: `settled` takes it out once it has been written.
    func checkpoint() -> Checkpoint? {
        guard work.key.batch > 0, !isEnded, stopReason != .leaseEnded else { return nil }
        var ends = segments.map(\.unsettled)
        var part = UnitSettlement(key: work.key)
        part.isDone = false
        while let place = foremost(ends), marks[ends[place]] != .open {
            count(ends[place], in: &part)
            part.doneThrough = device(ends[place])
            ends[place] += 1
        }
        guard let through = part.doneThrough else { return nil }
        part.lastAcceptance = settlement.lastAcceptance
        part.error = settlement.error
        part.failures = settlement.failures.filter { $0.device.magnitude <= through.magnitude }
        part.retirements = settlement.retirements.filter { $0.device.magnitude <= through.magnitude }
        part.proposals = settlement.proposals.filter { $0.device.magnitude <= through.magnitude }
        part.requeues = settlement.requeues.compactMap { $0.part(upTo: through) }
        part.evidence = evidence(to: ends)
        return Checkpoint(settlement: part, ends: ends)
    }

    /// A checkpoint is written: what it holds is not written again.
    func settled(_ checkpoint: Checkpoint) {
        let part = checkpoint.settlement
        guard let through = part.doneThrough else { return }
        for (place, end) in checkpoint.ends.enumerated() { segments[place].unsettled = end }
        hasSettledAcceptance = hasSettledAcceptance || part.accepted > 0
        settlement.accepted -= part.accepted
        settlement.rejected -= part.rejected
        settlement.unknown -= part.unknown
        settlement.failures.removeAll { $0.device.magnitude <= through.magnitude }
        settlement.retirements.removeAll { $0.device.magnitude <= through.magnitude }
        settlement.proposals.removeAll { $0.device.magnitude <= through.magnitude }
        settlement.requeues = settlement.requeues.compactMap { $0.part(after: through) }
    }

    /// What the settle at the end of the unit writes.
    var lastSettlement: UnitSettlement {
        var last = settlement
        last.evidence = evidence(to: segments.map(\.range.upperBound))
        return last
    }

    /// The segment whose next device is the first in the order of sending; nil when all are through.
    private func foremost(_ ends: [Int]) -> Int? {
        var foremost: Int?
        for (place, end) in ends.enumerated() where end < segments[place].range.upperBound {
            if let best = foremost, device(ends[best]).magnitude < device(end).magnitude { continue }
            foremost = place
        }
        return foremost
    }

    private func count(_ index: Int, in part: inout UnitSettlement) {
        switch marks[index] {
        case .open, .moved: return
        case .accepted: part.accepted += 1
        case .rejected, .refused: part.rejected += 1
        case .unknown: part.unknown += 1
        }
    }

    /// What the devices from the last checkpoint to `ends` say about tokens.
    ///
    /// Nothing for a channel, which has none, and for a probe, of which many may be sent of one bad token.
    private func evidence(to ends: [Int]) -> TokenEvidence? {
        guard !isProbe, work.content.channelID == nil else { return nil }
        var evidence = TokenEvidence(app: work.content.app, topic: topic)
        for (place, end) in ends.enumerated() {
            var answers = TokenEvidence.Answers()
            for index in segments[place].unsettled..<end {
                switch marks[index] {
                case .accepted:
                    answers.accepted += 1
                    answers.answered += 1
                case .rejected: answers.answered += 1
                case .open, .refused, .unknown, .moved: continue
                }
            }
            evidence[segments[place].environment] = answers
        }
        return evidence
    }
}

extension Requeue {
    /// Its devices up to one of them; nil when there are none.
    fileprivate func part(upTo device: Int64) -> Requeue? {
        with(devices.filter { $0.magnitude <= device.magnitude })
    }

    /// Its devices after one of them; nil when there are none.
    fileprivate func part(after device: Int64) -> Requeue? {
        with(devices.filter { $0.magnitude > device.magnitude })
    }

    private func with(_ devices: [Int64]) -> Requeue? {
        guard !devices.isEmpty else { return nil }
        var part = self
        part.devices = devices
        return part
    }
}
