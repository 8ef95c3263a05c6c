// Invariants 3 to 6: the cursor, the leases, the statuses and the sums.

extension Judge {
    /// 3. Slices of a broadcast are disjoint, ascending, without holes; the cursor stands at their end.
    func rangesWithoutHoles() -> [String] {
        var texts: [String] = []
        for notification in evidence.notifications {
            let all = (batches[notification.id] ?? []).sorted { $0.number < $1.number }
            var end = 0
            for batch in all {
                guard let after = batch.afterId, let through = batch.throughId else { continue }
                let name = "notification \(notification.id), batch \(batch.number)"
                if after != end { texts.append("\(name) begins after \(after), the one before ends at \(end)") }
                if through <= after { texts.append("\(name) goes from \(after) to \(through)") }
                end = through
            }
            guard notification.broadcast else { continue }
            if notification.cursorId != end {
                texts.append(
                    "notification \(notification.id): cursor at \(notification.cursorId), batches end at \(end)")
            }
            if ["sent", "failed"].contains(notification.status), !notification.givenUp, end != notification.upperId {
                texts.append(
                    "notification \(notification.id) is \(notification.status) but ends at \(end) of \(notification.upperId ?? 0)"
                )
            }
        }
        return texts
    }

    /// 4. An epoch never falls; one owner holds a unit under one epoch; every settle counts once; nothing is sent without a lease.
    func leasesInOrder() -> [String] {
        var texts: [String] = []
        for (unit, changes) in history {
            var owners: [Int: String] = [:]
            for (before, after) in zip(changes, changes.dropFirst()) {
                if after.epoch < before.epoch { texts.append("\(unit): epoch \(before.epoch) became \(after.epoch)") }
                if unit.batch > 0, before.state == "done", after.state != "done" || sums(before) != sums(after) {
                    texts.append(
                        "\(unit): settled again after it was done: \(sums(before)) became \(after.state) \(sums(after))"
                    )
                }
                if unit.batch > 0, zip(sums(before), sums(after)).contains(where: { $0 > $1 }) {
                    texts.append("\(unit): counts \(sums(before)) became \(sums(after))")
                }
            }
            for change in changes where change.isLeased {
                guard let owner = change.owner else {
                    texts.append("\(unit): leased by nobody under epoch \(change.epoch)")
                    continue
                }
                if let other = owners[change.epoch], other != owner {
                    texts.append("\(unit): epoch \(change.epoch) was held by \(other) and by \(owner)")
                }
                owners[change.epoch] = owner
            }
        }
        return texts.sorted() + sentWithoutLease()
    }

    /// Requests for what nobody held when they came, or some seconds before: a busy simulator reads late.
    private func sentWithoutLease() -> [String] {
        evidence.requests.compactMap { request in
            guard let push = request.push, !evidence.deeds.delays.contains(where: { isWithin($0, request.arrived) }),
                ![0, 2, 5, 10, 20].contains(where: { isOpen(push, at: request.arrived - $0) })
            else { return nil }
            return
                "\(push), request \(request.apnsID) came at \(request.arrived), when nobody held it: \(leases(of: push))"
        }
    }

    private func isWithin(_ delay: ClosedRange<Double>, _ time: Double) -> Bool {
        delay.lowerBound <= time && time <= delay.upperBound + 20
    }

    private func sums(_ change: Evidence.Change) -> [Int] { [change.accepted, change.rejected, change.unknown] }

    /// 5. Final states stay; sent_at goes with sent; what was cancelled in time is not sent; no batch begins after a cancel.
    func finalStatesAndCancels() -> [String] {
        var texts: [String] = []
        let final: Set = ["sent", "failed", "skipped", "cancelled", "expired"]
        for (unit, changes) in history where unit.batch == 0 {
            for (before, after) in zip(changes, changes.dropFirst())
            where final.contains(before.state) && before.state != after.state {
                texts.append("\(unit): \(before.state) became \(after.state)")
            }
        }
        for notification in evidence.notifications where (notification.status == "sent") != (notification.sentAt != nil)
        {
            texts.append(
                "notification \(notification.id) is \(notification.status), sent_at \(notification.sentAt ?? 0)")
        }
        return texts.sorted() + cancels()
    }

    private func cancels() -> [String] {
        evidence.deeds.cancels.flatMap { cancel -> [String] in
            let name = "notification \(cancel.notification), cancel returned \(cancel.answer) at \(cancel.returned)"
            let own = evidence.requests.filter { $0.push?.notification == cancel.notification }
            let status = notifications[cancel.notification]?.status ?? "gone"
            var texts: [String] = []
            if cancel.answer == "cancelled", !own.isEmpty {
                texts.append("\(name), but \(own.count) requests, the first \(own[0].apnsID)")
            }
            if ["cancelled", "cancelling"].contains(cancel.answer), status != "cancelled" {
                texts.append("\(name), but it is \(status)")
            }
            guard ["cancelled", "cancelling"].contains(cancel.answer) else { return texts }
            for change in evidence.history
            where change.notification == cancel.notification && change.batch > 0 && change.isLeased
                && change.at > cancel.returned && begins(change)
            {
                texts.append("\(name), but batch \(change.batch) was claimed at \(change.at)")
            }
            let late = own.filter { $0.arrived > cancel.returned + evidence.health.cancelDelay }
            if cancel.isHeard, let first = late.first {
                texts.append("\(name), but \(late.count) requests came later, \(first.apnsID) at \(first.arrived)")
            }
            return texts
        }
    }

    /// Whether a change is a claim, not a write-back under a lease that was there before.
    private func begins(_ change: Evidence.Change) -> Bool {
        let before = history[Unit(notification: change.notification, batch: change.batch)]?.last { $0.at < change.at }
        return change.isNew || before?.isLeased != true || before?.epoch != change.epoch
    }

    /// 6. The parts of a batch make its size, the batches make the notification, and the journal agrees within the unknown.
    func totals() -> [String] {
        var texts: [String] = []
        for batch in evidence.batches where batch.state == "done" {
            let sum = batch.accepted + batch.rejected + batch.unknown
            if sum != batch.device {
                texts.append(
                    "notification \(batch.notification), batch \(batch.number): \(sum) of \(batch.device) devices")
            }
        }
        var (accepted, half): ([Int: Set<Int>], [Int: Int]) = ([:], [:])
        for (push, all) in requests {
            if all.contains(where: \.isAccepted) {
                accepted[push.notification, default: []].insert(push.device)
            } else if all.contains(where: \.hasBegunWell) {
                half[push.notification, default: 0] += 1
            }
        }
        var final: [Int: [Evidence.Failure]] = [:]
        for failure in evidence.failures where failure.isFinal {
            final[failure.notification, default: []].append(failure)
        }
        for notification in evidence.notifications where notification.isFinished {
            let (own, more) = (accepted[notification.id] ?? [], half[notification.id] ?? 0)
            texts += totals(notification, own, more, final[notification.id] ?? [])
        }
        return texts
    }

    private func totals(
        _ notification: Evidence.Notification, _ accepted: Set<Int>, _ half: Int, _ final: [Evidence.Failure]
    ) -> [String] {
        let name = "notification \(notification.id) (\(notification.status))"
        let counts = [notification.device, notification.accepted, notification.rejected, notification.unknown]
        var texts: [String] = []
        if let own = batches[notification.id] {
            let sums = own.reduce([0, 0, 0]) { [$0[0] + $1.accepted, $0[1] + $1.rejected, $0[2] + $1.unknown] }
            if sums != Array(counts[1...]) { texts.append("\(name): counts \(counts[1...]), batches \(sums)") }
        }
        let isWhole = ["sent", "failed", "skipped"].contains(notification.status) && !notification.givenUp
        if isWhole, counts[0] != counts[1...].reduce(0, +) {
            texts.append("\(name): \(counts[0]) devices, but counts \(counts[1...])")
        }
        let status = notification.accepted > 0 ? "sent" : counts[2] + counts[3] > 0 ? "failed" : "skipped"
        if isWhole, status != notification.status {
            texts.append("\(name): should be \(status) with counts \(counts)")
        }
        // Accepted although the books say otherwise: only where somebody booked that nothing is known, or that it failed later.
        let doubtful = accepted.filter { failures[Push(notification: notification.id, device: $0)] != nil }.count
        if notification.accepted > accepted.count + half || notification.accepted < accepted.count - doubtful {
            texts.append(
                "\(name): accepted \(notification.accepted), the journal has \(accepted.count), \(doubtful) of them doubtful"
            )
        }
        let refused = [
            Set(final.filter { !$0.isUnknown }.map(\.device)).count, Set(final.filter(\.isUnknown).map(\.device)).count,
        ]
        if refused.reduce(0, +) != counts[2] + counts[3] {
            texts.append("\(name): rejected and unknown \(counts[2...]), the ledger has \(refused)")
        }
        return texts
    }
}
