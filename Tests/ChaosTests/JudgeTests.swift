// Of each check of the judge: that it lets a good scenario pass, and that it finds what was doctored into it.

import Testing

@Suite("The judge") struct JudgeTests {
    /// A change to good evidence, and what must be said of it.
    struct Doctored: Sendable, CustomTestStringConvertible {
        let invariant: Int
        let says: String
        let change: @Sendable (inout Evidence) -> Void
        var testDescription: String { "\(invariant): \(says)" }

        init(_ invariant: Int, _ says: String, _ change: @escaping @Sendable (inout Evidence) -> Void) {
            self.invariant = invariant
            self.says = says
            self.change = change
        }
    }

    @Test("passes what is good")
    func good() {
        #expect(Judge(.good).violations().map(\.description) == [])
    }

    @Test("finds", arguments: missed + repeated + books + orders + cancels + retirements + resources)
    func finds(_ doctored: Doctored) {
        var evidence = Evidence.good
        doctored.change(&evidence)
        let found = Judge(evidence).violations(of: doctored.invariant).map(\.description)
        #expect(found.contains { $0.contains(doctored.says) }, "\(found)")
    }

    @Test("allows what a crash, an unknown outcome or a cancel explains", arguments: allowed)
    func allows(_ doctored: Doctored) {
        var evidence = Evidence.good
        doctored.change(&evidence)
        #expect(Judge(evidence).violations(of: doctored.invariant).map(\.description) == [])
    }

    @Test("tells the first ones and how many there are")
    func brief() {
        var evidence = Evidence.good
        evidence.requests = []
        let missed = Judge(evidence).violations(most: 2).filter { $0.invariant == 1 }.map(\.text)
        #expect(missed.count == 3 && missed.last == "… and 3 more")
    }

    // MARK: Doctored

    static let missed = [
        Doctored(1, "notification 1, device 3 (") { $0.requests.removeAll { $0.push?.device == 3 } },
        Doctored(1, "was missed") { $0.requests[0].status = 429 },
        Doctored(1, "notification 2, device -2") { $0.requests.removeAll { $0.push?.device == -2 } },
        Doctored(1, "notification 1, device 4 (") {
            // Retired, but long after.
            $0.devices[3].deactivatedAt = 500
            $0.failures.removeAll()
        },
        Doctored(1, "unknown apns-id abc") { $0.requests.append(.to(nil, "t1", apnsID: "abc")) },
        Doctored(1, "unknown apns-id") { $0.requests.append(.to(Push(notification: 9, device: 1), "t1")) },
        Doctored(1, "another's token") { $0.requests[0].token = "t3" },
        Doctored(1, "another's token") { $0.requests.append(.to(Push(notification: 2, device: -1), "t1")) },
        Doctored(1, "went to sandbox") { $0.requests[0].environment = "sandbox" },
        Doctored(1, "another content") { $0.requests[0].body = "{\"x\":1}" },
    ]

    static let repeated = [
        Doctored(2, "was accepted at") { $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30)) },
        Doctored(2, "neither an unknown outcome nor a crash") {
            // The crash came when the batch was settled already.
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30))
            $0.deeds.crashes = [Deeds.Crash(kind: .killed, from: 15, to: 15)]
        },
        Doctored(2, "neither an unknown outcome nor a crash") {
            // A checkpoint had booked it before.
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30))
            $0.history[1].doneThrough = 1
            $0.deeds.crashes = [Deeds.Crash(kind: .killed, from: 11, to: 11)]
        },
        Doctored(2, "neither an unknown outcome nor a crash") {
            // The crash came after the repeat.
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 10.5))
            $0.deeds.crashes = [Deeds.Crash(kind: .killed, from: 10.7, to: 11)]
        },
        Doctored(2, "was accepted at") {
            // One unknown outcome, two repeats.
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30))
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 40))
            $0.failures.append(.unknown(Push(notification: 1, device: 1)))
        },
        Doctored(2, "at most once") {
            $0.notifications[0].delivery = "at_most_once"
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", outcome: "lost"))
        },
        Doctored(2, "1 repeats after the worker was killed") {
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30))
            $0.deeds.crashes = [Deeds.Crash(kind: .killed, from: 11.9, to: 11.9)]
            $0.health.checkpointWindow = 0.1
        },
    ]

    static let books = [
        Doctored(3, "batch 2 begins after 3") { $0.batches[1].afterId = 3 },
        Doctored(3, "goes from 2 to 2") { $0.batches[1].throughId = 2 },
        Doctored(3, "cursor at 3") { $0.notifications[0].cursorId = 3 },
        Doctored(3, "ends at 4 of 5") { $0.notifications[0].upperId = 5 },
        Doctored(6, "1 of 2 devices") { $0.batches[0].accepted = 1 },
        Doctored(6, "batches [3, 1, 0]") { $0.notifications[0].accepted = 2 },
        Doctored(6, "5 devices, but counts") { $0.notifications[0].device = 5 },
        Doctored(6, "should be sent") { $0.notifications[0].status = "failed" },
        Doctored(6, "the journal has 2") { $0.requests[0].status = nil },
        Doctored(6, "the journal has 2") {
            // Counts less than the journal, for a cancelled one too.
            $0.notifications[1].status = "cancelled"
            $0.notifications[1].accepted = 1
        },
        Doctored(6, "the ledger has [0, 0]") { $0.failures.removeAll() },
    ]

    static let orders = [
        Doctored(4, "epoch 1 became 0") { $0.history[2].epoch = 0 },
        Doctored(4, "settled again") {
            $0.history.append(.batch(1, at: 20, "done", accepted: 3))
        },
        Doctored(4, "settled again") { $0.history.append(.batch(1, at: 20, "ready", accepted: 2)) },
        Doctored(4, "counts [5, 0, 0] became [2, 0, 0]") { $0.history[1].accepted = 5 },
        Doctored(4, "was held by a and by b") {
            $0.history.insert(.batch(1, at: 11, "leased", owner: "b"), at: 2)
        },
        Doctored(4, "when nobody held it") { $0.requests[0].arrived = 40 },
        Doctored(4, "when nobody held it") { $0.requests[0].arrived = 5 },
        Doctored(4, "when nobody held it") {
            // Booked by a checkpoint long before.
            $0.history[1].doneThrough = 1
            $0.history[2].at = 40
            $0.requests[0].arrived = 20
        },
        Doctored(4, "leased by nobody") { $0.history[1].owner = nil },
        Doctored(5, "sent became sending") { $0.history.append(.notification(1, at: 20, "sending")) },
        Doctored(5, "notification 1 is sent, sent_at 0") { $0.notifications[0].sentAt = nil },
        Doctored(5, "notification 3 is cancelled, sent_at 5") { $0.notifications[2].sentAt = 5 },
    ]

    static let cancels = [
        Doctored(5, "but 1 requests") { $0.requests.append(.to(Push(notification: 3, device: 1), "t1")) },
        Doctored(5, "but it is sent") { $0.deeds.cancels[0].notification = 1 },
        Doctored(5, "batch 2 was claimed at 10") {
            $0.notifications[0].status = "cancelled"
            $0.deeds.cancels = [Deeds.Cancel(notification: 1, answer: "cancelling", returned: 9)]
        },
        Doctored(5, "batch 1 was claimed at 10.5") {
            // Claimed again after it had been given back.
            $0.notifications[0].status = "cancelled"
            $0.deeds.cancels = [Deeds.Cancel(notification: 1, answer: "cancelling", returned: 10.2)]
            $0.history[1].isLeased = false
            $0.history.insert(.batch(1, at: 10.5, "leased", epoch: 1), at: 2)
        },
        Doctored(5, "2 requests came later") {
            $0.notifications[1].status = "cancelled"
            $0.deeds.cancels = [Deeds.Cancel(notification: 2, answer: "cancelling", returned: -1, isHeard: true)]
        },
        Doctored(8, "notification 1 is sending") {
            $0.notifications[0].status = "sending"
            $0.health.end = 1000
        },
        Doctored(8, "batch 1 is ready") { $0.batches[0].state = "ready" },
        Doctored(8, "back 31.0 s after") { $0.health.returns = [3, 31] },
    ]

    static let retirements = [
        Doctored(7, "deactivated for “TooManyRequests”") { $0.devices[3].reason = "TooManyRequests" },
        Doctored(7, "deactivated for “”") { $0.devices[3].reason = nil },
        Doctored(7, "which nobody said") { $0.requests[3].reason = "BadPath" },
        Doctored(7, "which nobody said") { $0.requests[3].status = 503 },
        Doctored(7, "which nobody said") { $0.devices[3].reason = "BadDeviceToken" },
        Doctored(7, "though it had registered again") { $0.deeds.returned = ["t4"] },
        Doctored(7, "but the device is active") { $0.devices[3].isActive = true },
    ]

    static let resources = [
        Doctored(9, "kB resident") { $0.health.memory = [400_000] },
        Doctored(9, "9 database connections") { $0.health.connections = [9] },
        Doctored(9, "2.5 transactions a second") { $0.health.idleRate = 2.5 },
        Doctored(9, "index of the walk") { $0.notifications[0].walking = true },
    ]

    static let allowed = [
        Doctored(1, "retired before") {
            $0.devices[3].deactivatedAt = 5
            $0.failures.removeAll()
        },
        Doctored(1, "given up") {
            $0.notifications[0].givenUp = true
            $0.requests.removeAll { $0.push?.device == 3 }
        },
        Doctored(2, "a crash under the lease") {
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30))
            $0.deeds.crashes = [Deeds.Crash(kind: .killed, from: 11, to: 11)]
            $0.health.checkpointWindow = 2
        },
        Doctored(2, "an unknown outcome") {
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", at: 30))
            $0.failures.append(.unknown(Push(notification: 1, device: 1)))
        },
        Doctored(2, "refused streams at most once") {
            $0.notifications[0].delivery = "at_most_once"
            $0.requests.append(.to(Push(notification: 1, device: 1), "t1", outcome: "refused"))
        },
        Doctored(4, "what the network held back") {
            $0.requests[0].arrived = 40
            $0.deeds.delays = [8...25]
        },
        Doctored(5, "requests soon after a cancel") {
            $0.notifications[1].status = "cancelled"
            $0.notifications[1].sentAt = nil
            $0.deeds.cancels = [Deeds.Cancel(notification: 2, answer: "cancelling", returned: 9, isHeard: true)]
        },
        Doctored(6, "accepted, and booked as unknown") {
            $0.notifications[1].accepted = 1
            $0.notifications[1].unknown = 1
            $0.failures.append(.unknown(Push(notification: 2, device: -2), isFinal: true))
        },
        Doctored(1, "an answer that began with 200") { $0.requests[0].cutOff() },
        Doctored(6, "an answer that began with 200") { $0.requests[0].cutOff() },
        Doctored(7, "registered again") {
            $0.devices[3].isActive = true
            $0.devices[3].registeredAt = 100
        },
        Doctored(7, "registered after the time that Apple names") {
            $0.devices[3].isActive = true
            $0.deeds.returned = ["t4"]
        },
    ]
}

extension Evidence {
    /// A broadcast to four devices, the last of which is dead; a list of two tokens; one cancelled in time.
    fileprivate static var good: Evidence {
        var evidence = Evidence()
        evidence.devices = (1...4).map { Device(id: $0, userId: "u\($0)", token: "t\($0)") }
        evidence.devices[3].isActive = false
        evidence.devices[3].deactivatedAt = 11
        evidence.devices[3].reason = "Unregistered"
        evidence.notifications = [
            Notification(
                id: 1, broadcast: true, sentAt: 12, finishedAt: 12, device: 4, accepted: 3, rejected: 1, upperId: 4,
                cursorId: 4),
            Notification(id: 2, deviceTokens: ["x1", "x2"], sentAt: 10, finishedAt: 10, device: 2, accepted: 2),
            Notification(id: 3, userId: "u1", status: "cancelled", finishedAt: 10),
        ]
        evidence.batches = [
            Batch(notification: 1, number: 1, afterId: 0, throughId: 2, device: 2, accepted: 2),
            Batch(notification: 1, number: 2, afterId: 2, throughId: 4, device: 2, accepted: 1, rejected: 1),
        ]
        evidence.history = [
            .notification(1, at: 10, "sending"), .batch(1, at: 10, "leased"), .batch(1, at: 12, "done", accepted: 2),
            .batch(2, at: 10, "leased"), .batch(2, at: 12, "done", accepted: 1), .notification(1, at: 12, "sent"),
            .notification(2, at: 10, "sending", isLeased: true), .notification(2, at: 11, "sent"),
        ]
        evidence.requests = (1...4).map { .to(Push(notification: 1, device: $0), "t\($0)") }
        evidence.requests[3].status = 410
        evidence.requests[3].reason = "Unregistered"
        evidence.requests += (1...2).map { .to(Push(notification: 2, device: -$0), "x\($0)") }
        evidence.failures = [
            Failure(notification: 1, device: 4, status: 410, reason: "Unregistered", isFinal: true, at: 11)
        ]
        evidence.deeds.cancels = [Deeds.Cancel(notification: 3, answer: "cancelled", returned: 5)]
        return evidence
    }
}

extension Evidence.Request {
    fileprivate static func to(
        _ push: Push?, _ token: String, at time: Double = 10, apnsID: String = "id", outcome: String = "answered"
    ) -> Self {
        Self(
            push: push, apnsID: apnsID, token: token, arrived: time, ended: time + 0.2, outcome: outcome,
            status: outcome == "answered" ? 200 : nil)
    }
}

extension Evidence.Request {
    fileprivate mutating func cutOff() {
        status = nil
        outcome = "cut off"
        hasBegunWell = true
    }
}

extension Evidence.Failure {
    fileprivate static func unknown(_ push: Push, isFinal: Bool = false) -> Self {
        Self(
            notification: push.notification, device: push.device, status: nil, reason: "ConnectionLost",
            isFinal: isFinal, at: 11)
    }
}

extension Evidence.Change {
    fileprivate static func notification(
        _ id: Int, at time: Double, _ state: String, isLeased: Bool = false
    ) -> Self {
        Self(at: time, notification: id, batch: 0, state: state, epoch: 1, owner: "a", isLeased: isLeased)
    }

    fileprivate static func batch(
        _ number: Int, at time: Double, _ state: String, epoch: Int = 1, owner: String? = "a", accepted: Int = 0
    ) -> Self {
        Self(
            at: time, notification: 1, batch: number, isNew: state == "leased" && owner == "a" && time == 10,
            state: state, epoch: epoch, owner: owner, isLeased: state == "leased", accepted: accepted)
    }
}
