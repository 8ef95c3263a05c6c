// Judges a scenario by the nine invariants of the queue: the tables against the simulator's journal. Pure functions, one for each
// invariant; JudgeTests prove of each check that it can fail.

/// Something that must not be.
struct Violation: Sendable, CustomStringConvertible {
    /// 1 to 9.
    let invariant: Int
    let text: String
    var description: String { "invariant \(invariant): \(text)" }
}

/// The judge of one scenario.
struct Judge: Sendable {
    let evidence: Evidence
    let notifications: [Int: Evidence.Notification]
    let requests: [Push: [Evidence.Request]]
    let failures: [Push: [Evidence.Failure]]
    let batches: [Int: [Evidence.Batch]]
    let devices: [Int: Evidence.Device]
    let devicesOfUser: [String: [Evidence.Device]]
    let devicesByToken: [String: Evidence.Device]
    let history: [Unit: [Evidence.Change]]

    /// What is leased: a notification (batch 0) or a batch.
    struct Unit: Hashable, Sendable, CustomStringConvertible {
        let notification: Int
        let batch: Int
        var description: String { "notification \(notification), batch \(batch)" }
    }

    init(_ evidence: Evidence) {
        self.evidence = evidence
        notifications = Dictionary(uniqueKeysWithValues: evidence.notifications.map { ($0.id, $0) })
        var requests: [Push: [Evidence.Request]] = [:]
        for request in evidence.requests { if let push = request.push { requests[push, default: []].append(request) } }
        self.requests = requests
        failures = Dictionary(grouping: evidence.failures, by: \.push)
        batches = Dictionary(grouping: evidence.batches, by: \.notification)
        devices = Dictionary(uniqueKeysWithValues: evidence.devices.map { ($0.id, $0) })
        devicesOfUser = Dictionary(grouping: evidence.devices, by: \.userId)
        devicesByToken = Dictionary(uniqueKeysWithValues: evidence.devices.map { ($0.token, $0) })
        history = Dictionary(grouping: evidence.history) { Unit(notification: $0.notification, batch: $0.batch) }
    }

    /// Everything that is wrong, at most `most` of each kind of violation.
    func violations(most: Int = 10) -> [Violation] {
        (1...9).flatMap { invariant in
            let found = violations(of: invariant)
            guard found.count > most else { return found }
            return Array(found.prefix(most)) + [
                Violation(invariant: invariant, text: "… and \(found.count - most) more")
            ]
        }
    }

    /// What is wrong by one invariant.
    func violations(of invariant: Int) -> [Violation] {
        let texts =
            switch invariant {
            case 1: nobodyMissed()
            case 2: nobodyTwice()
            case 3: rangesWithoutHoles()
            case 4: leasesInOrder()
            case 5: finalStatesAndCancels()
            case 6: totals()
            case 7: deactivations()
            case 8: endsInTime()
            default: resources()
            }
        return texts.map { Violation(invariant: invariant, text: $0) }
    }

    // MARK: Audience

    /// A device that a notification is for.
    struct Member {
        let push: Push
        let token: String
        /// Nil for a token that is not registered.
        let device: Evidence.Device?
    }

    /// The devices that a notification is for, inactive ones included.
    func audience(of notification: Evidence.Notification) -> [Member] {
        if !notification.deviceTokens.isEmpty {
            return zip(1..., notification.deviceTokens).map { position, token in
                Member(
                    push: Push(notification: notification.id, device: -position), token: token,
                    device: devicesByToken[token])
            }
        }
        let users = notification.userId.map { [$0] } ?? notification.userIds
        let candidates =
            notification.broadcast
            ? evidence.devices.filter { $0.id <= notification.upperId ?? 0 }
            : Set(users).flatMap { devicesOfUser[$0] ?? [] }
        return candidates.filter { notification.environment == nil || notification.environment == $0.environment }.map {
            Member(push: Push(notification: notification.id, device: $0.id), token: $0.token, device: $0)
        }
    }
}
