// Invariants 7 to 9: what happened to devices, how soon everything was over, what it took.

extension Judge {
    private static let dead: Set = ["Unregistered", "ExpiredToken"]
    private static let proposed: Set = ["BadDeviceToken", "DeviceTokenNotForTopic"]

    /// 7. A device is deactivated only for a reason that Apple gave for its token, and that allows it.
    func deactivations() -> [String] {
        var texts: [String] = []
        var said: [String: Set<String>] = [:]
        for request in evidence.requests where request.status == 410 || request.status == 400 {
            said[request.token, default: []].insert("\(request.status ?? 0) \(request.reason ?? "")")
        }
        for device in evidence.devices where !device.isActive && !evidence.deeds.inactive.contains(device.token) {
            let reason = device.reason ?? ""
            let status = Self.dead.contains(reason) ? 410 : Self.proposed.contains(reason) ? 400 : nil
            if evidence.deeds.returned.contains(device.token) {
                texts.append("device \(device.id) was deactivated for \(reason), though it had registered again")
            }
            guard let status else {
                texts.append("device \(device.id) was deactivated for “\(reason)”")
                continue
            }
            if said[device.token]?.contains("\(status) \(reason)") != true {
                texts.append(
                    "device \(device.id) was deactivated for \(reason), which nobody said of \(device.token.suffix(8))")
            }
        }
        // The reverse: what is booked for good as dead is retired, unless it registered again.
        for failure in evidence.failures
        where failure.isFinal && failure.status == 410 && Self.dead.contains(failure.reason) {
            if let device = devices[failure.device], device.isActive, !evidence.deeds.returned.contains(device.token),
                device.registeredAt < failure.at - 1
            {
                texts.append("\(failure.push): \(failure.reason), but the device is active")
            }
        }
        return texts
    }

    /// 8. After the faults everything ends in time, and every replica is back soon after the database is.
    func endsInTime() -> [String] {
        var texts: [String] = []
        for notification in evidence.notifications where !notification.isFinished {
            let since = max(evidence.deeds.calm, notification.scheduledAt)
            if evidence.health.end - since >= evidence.health.finishLimit {
                texts.append(
                    "notification \(notification.id) is \(notification.status) \(evidence.health.end - since) s after all was calm"
                )
            }
        }
        for batch in evidence.batches where !["done", "abandoned"].contains(batch.state) {
            if notifications[batch.notification]?.isFinished == true {
                texts.append(
                    "notification \(batch.notification) is finished, its batch \(batch.number) is \(batch.state)")
            }
        }
        for seconds in evidence.health.returns where seconds > evidence.health.returnLimit {
            texts.append("a replica was back \(seconds) s after the database")
        }
        return texts
    }

    /// 9. Memory and connections are bounded, an idle replica is quiet, and nothing hot is left behind.
    func resources() -> [String] {
        let health = evidence.health
        var texts = health.memory.filter { $0 > health.memoryLimit }.map { "a worker had \($0) kB resident" }
        texts += health.connections.filter { $0 > health.connectionLimit }.map {
            "a replica had \($0) database connections"
        }
        if let rate = health.idleRate, rate > health.idleRateLimit {
            texts.append("an idle replica made \(rate) transactions a second")
        }
        for notification in evidence.notifications where notification.isFinished && notification.walking {
            texts.append("notification \(notification.id) is finished and still in the index of the walk")
        }
        return texts
    }
}
