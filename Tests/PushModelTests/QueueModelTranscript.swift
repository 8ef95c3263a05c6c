// A counterexample as a story that can be read: one line for each step, what happened and how things stand afterwards.

import PushModel

extension Counterexample {
    var transcript: String {
        var lines: [String] = []
        for (number, step) in path.enumerated() {
            let what = step.action.text(step.before)
            let gap = String(repeating: " ", count: max(1, 78 - what.count))
            lines.append("\(number < 9 ? " " : "")\(number + 1). \(what)\(gap)│ \(step.after.summary)")
        }
        return (lines + ["==> \(reason)"]).joined(separator: "\n")
    }
}

extension Action {
    fileprivate func text(_ before: QueueState) -> String {
        let transaction = before.transaction(party)
        let unit = Int(place & 1) + 1
        switch verb {
        case .cut: return "\(party.text) claims: locks the notification, cuts \(place == 1 ? "a batch" : "two batches")"
        case .take: return "\(party.text) claims what is ready or lost: locks \(batches(place))"
        case .settle: return "\(party.text) settles \(ended(before)): first lock"
        case .finalise: return "\(party.text) finalises: is anything open?"
        case .goOn: return goOnText(before, transaction)
        case .commit: return "\(party.text)'s \(transaction.kind.text) commits"
        case .rollBack: return "\(party.text)'s \(transaction.kind.text) is rolled back"
        case .renew: return "\(party.text) renews the lease of batch \(unit)"
        case .look: return "\(party.text) looks at the status"
        case .release: return "\(party.text) gives batch \(unit) back"
        case .releaseLost: return "\(party.text) gives back what a claim of unknown outcome may have leased"
        case .start: return "\(party.text) starts the request for device \(unit)"
        case .end: return "\(party.text) hears of device \(unit): \(end)"
        case .reconnect: return "\(party.text) is connected again"
        case .wake: return "\(party.text) wakes up"
        case .sweep: return "the sweep locks the notification and looks"
        case .cancel: return "cancel_notification"
        case .tick: return "time passes"
        case .restore: return "the database is back"
        case .crash: return "\(party.text) is killed and started anew\(strayText(transaction))"
        case .freeze: return "\(party.text) is frozen"
        case .disconnect: return "\(party.text)'s connection breaks\(strayText(transaction))"
        case .outage: return "the database goes down"
        }
    }

    private func goOnText(_ before: QueueState, _ transaction: Transaction) -> String {
        guard transaction.kind == .settle else {
            return "\(party.text)'s finalise locks the notification and looks again"
        }
        let isDone = transaction.step >> 4 & transaction.units == transaction.units
        return isDone
            ? "\(party.text)'s settle ends with a look: is anything open?"
            : "\(party.text)'s settle locks the next batch"
    }

    private func strayText(_ transaction: Transaction) -> String {
        guard transaction.kind != .none else { return "" }
        return goesOn
            ? "; the server goes on with its \(transaction.kind.text)" : "; its \(transaction.kind.text) is rolled back"
    }

    private func ended(_ state: QueueState) -> String {
        let worker = state.worker(party.worker)
        var mask: UInt8 = 0
        for place in 0..<4 where worker[place].phase.isEnded { mask |= 1 << (place & 1) }
        return batches(mask)
    }

    private func batches(_ mask: UInt8) -> String {
        mask == 0b11 ? "batches 1 and 2" : "batch \(mask)"
    }
}

extension Party {
    fileprivate var text: String {
        switch self {
        case .nobody: "nobody"
        case .workerA: "A"
        case .workerB: "B"
        case .sweeper: "sweep"
        case .stray: "the server"
        case .gone: "a dead worker"
        }
    }
}

extension Transaction.Kind {
    fileprivate var text: String {
        switch self {
        case .none: "nothing"
        case .cut, .take: "claim"
        case .settle: "settle"
        case .finalise: "finalise"
        case .sweep: "transaction"
        }
    }
}

extension QueueState {
    /// How things stand, in one line.
    fileprivate var summary: String {
        var parts = ["\(status)"]
        parts.append("1 \(text(batch0))")
        parts.append("2 \(text(batch1))")
        parts.append("A \(text(workerA))")
        parts.append("B \(text(workerB))")
        if !isDatabaseUp { parts.append("database down") }
        return parts.joined(separator: " · ")
    }

    private func text(_ batch: Batch) -> String {
        let lock = batch.lock == .nobody ? "" : " (locked)"
        return switch batch.state {
        case .leased: "\(batch.owner.text)+\(batch.age)\(lock)"
        case .done: batch.accepted > 0 ? "accepted" : batch.rejected > 0 ? "rejected" : "unknown"
        case .absent: "–"
        default: "\(batch.state)\(lock)"
        }
    }

    private func text(_ worker: Worker) -> String {
        var text = worker.isFrozen ? "frozen" : ""
        for place in 0..<4 where worker[place].phase != .none {
            let unit = worker[place]
            let mark = unit.isCurrent ? "" : "?"
            text += "\(text.isEmpty ? "" : ",")\(place & 1 + 1)\(mark):\(unit.phase)"
            if unit.phase == .waiting || unit.phase == .onTheWire { text += "+\(unit.asked)" }
        }
        return text.isEmpty ? "–" : text
    }
}
