// Invariants 1 and 2: nobody is missed, nobody gets it twice.

extension Judge {
    /// 1. Every active device of the pinned audience is accepted or booked, unless cancelled or expired.
    func nobodyMissed() -> [String] {
        var texts: [String] = []
        for notification in evidence.notifications
        where ["sent", "failed", "skipped"].contains(notification.status) && !notification.givenUp {
            for member in audience(of: notification) where wasActive(member, until: notification.finishedAt ?? 0) {
                let asked = requests[member.push] ?? []
                let booked = failures[member.push] ?? []
                guard !asked.contains(where: { $0.isAccepted || $0.hasBegunWell }), !booked.contains(where: \.isFinal)
                else { continue }
                texts.append(
                    "\(member.push) (\(member.token.suffix(8))) was missed: \(notification.status), "
                        + "but \(asked.count) requests without acceptance and \(booked.count) ledger rows, none final")
            }
        }
        return texts + strangeRequests()
    }

    /// Whether a device was active until the notification was finished: who was retired meanwhile may have been left out.
    private func wasActive(_ member: Member, until end: Double) -> Bool {
        guard let device = member.device else { return true }
        return device.isActive || device.deactivatedAt ?? 0 > end
    }

    /// Requests that belong to no device of the audience, or that carry another one's token, place or content.
    private func strangeRequests() -> [String] {
        evidence.requests.compactMap { request in
            guard let push = request.push, let notification = notifications[push.notification] else {
                return "a request with the unknown apns-id \(request.apnsID)"
            }
            let device = devices[push.device]
            let tokens = notification.deviceTokens
            let token = push.device < 0 && -push.device <= tokens.count ? tokens[-push.device - 1] : device?.token
            if token != request.token { return "\(push) went to another's token \(request.token.suffix(8))" }
            if let device, device.environment != request.environment {
                return "\(push) of \(device.environment) went to \(request.environment)"
            }
            if request.body != notification.payload {
                return "\(push) carried another content: \(request.body.prefix(60))"
            }
            return nil
        }
    }

    /// 2. No device is accepted twice without a crash or an unknown outcome that allows it; at most once is never.
    func nobodyTwice() -> [String] {
        var texts: [String] = []
        var crashRepeats = Array(repeating: 0, count: evidence.deeds.crashes.count)
        for (push, all) in requests {
            let isOnce = notifications[push.notification]?.delivery == "at_most_once"
            if isOnce, all.count(where: \.isPerhapsAccepted) > 1 {
                texts.append(
                    "\(push) at most once, but \(all.count(where: \.isPerhapsAccepted)) requests may have arrived: "
                        + all.map(\.description).joined(separator: "; "))
            }
            let accepted = all.filter(\.isAccepted).sorted { $0.ended < $1.ended }
            guard accepted.count > 1 else { continue }
            // Each unknown outcome allows one repeat.
            var unknowns = (failures[push] ?? []).count(where: \.isUnknown)
            for (first, second) in zip(accepted, accepted.dropFirst()) {
                if unknowns > 0 {
                    unknowns -= 1
                } else if let crash = crash(between: first, and: second, of: push) {
                    crashRepeats[crash] += 1
                } else {
                    texts.append(
                        "\(push), request \(first.apnsID) was accepted at \(first.ended) and again at \(second.ended), "
                            + "with neither an unknown outcome nor a crash before it was booked: \(leases(of: push))")
                }
            }
        }
        return texts.sorted() + tooManyRepeats(crashRepeats)
    }

    /// The crash that explains why a push went again: it was answered, or on its way, under a lease that was not settled then.
    private func crash(between first: Evidence.Request, and second: Evidence.Request, of push: Push) -> Int? {
        evidence.deeds.crashes.indices.first { index in
            let crash = evidence.deeds.crashes[index]
            // What was in the socket when it was killed arrives somewhat later.
            return first.arrived <= crash.to + 20 && crash.from <= second.arrived && isOpen(push, at: crash.from)
        }
    }

    /// Whether a device was leased at a time and no settle or checkpoint had covered it by then.
    func isOpen(_ push: Push, at time: Double) -> Bool {
        units(of: push).contains { unit in
            guard let last = history[unit]?.last(where: { $0.at <= time }) else { return false }
            return last.isLeased && last.doneThrough < abs(push.device)
        }
    }

    private func units(of push: Push) -> [Unit] {
        let numbers = (batches[push.notification] ?? []).filter { $0.holds(push.device) }.map(\.number)
        return (numbers + [0]).map { Unit(notification: push.notification, batch: $0) }
    }

    func leases(of push: Push) -> String {
        units(of: push).flatMap { unit in
            (history[unit] ?? []).map { "\(unit.batch)/\($0.epoch) \($0.state) at \($0.at)" }
        }.joined(separator: ", ")
    }

    /// A crash repeats no more than what was in flight and what was answered since the last checkpoint.
    private func tooManyRepeats(_ repeats: [Int]) -> [String] {
        guard let window = evidence.health.checkpointWindow else { return [] }
        return zip(evidence.deeds.crashes, repeats).compactMap { crash, count in
            let exposed = evidence.requests.count {
                $0.arrived <= crash.to + 1 && $0.ended >= crash.from - window
            }
            return count <= exposed
                ? nil
                : "\(count) repeats after the worker was \(crash.kind.rawValue) at \(crash.from), \(exposed) were open"
        }
    }
}
