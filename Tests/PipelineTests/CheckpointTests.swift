// What a unit writes back in the middle and at its end, taken together, is what became of its devices: each one once.

import HTTP2
import PushModel
import PushStore
import Reactor
import Testing

@testable import Pipeline

@Suite("A checkpoint") struct CheckpointTests {
    @Test("reaches to the first device that is open, over both environments in the order of the numbers")
    func watermark() throws {
        let unit = unit(production: [1, 4, 5, 9], sandbox: [2, 3, 8])
        send(unit)
        for index in [0, 4, 6, 2] { unit.accept(index) }  // 1, 2, 8, 5
        #expect(unit.checkpoint()?.settlement.doneThrough == 2)
        unit.accept(5)  // 3
        let checkpoint = try #require(unit.checkpoint())
        #expect(checkpoint.settlement.doneThrough == 3 && checkpoint.settlement.accepted == 3)
        #expect(!checkpoint.settlement.isDone)
        #expect(checkpoint.settlement.evidence?[.production] == answers(accepted: 1, answered: 1))
        #expect(checkpoint.settlement.evidence?[.sandbox] == answers(accepted: 2, answered: 2))

        // Nothing is taken out before it is written.
        #expect(unit.settlement.accepted == 5)
        unit.settled(checkpoint)
        #expect(unit.settlement.accepted == 2)
        #expect(unit.checkpoint() == nil)
        unit.accept(1)  // 4
        #expect(unit.checkpoint()?.settlement.doneThrough == 8)
        #expect(unit.checkpoint()?.settlement.accepted == 3)
    }

    @Test("of a list of tokens goes by their positions")
    func positions() {
        let unit = unit(production: [-1, -4], sandbox: [-2])
        send(unit)
        for index in [0, 2] { unit.accept(index) }
        #expect(unit.checkpoint()?.settlement.doneThrough == -2)
    }

    @Test("holds the ledger rows, retirements, proposals and requeues of its own devices only")
    func contents() throws {
        let unit = unit(production: Array(1...8))
        send(unit)
        for index in [0, 1, 5] { unit.reject(index) }
        for index in [2, 6] { unit.moveOn(index, after: .seconds(5)) }
        unit.moveOn(3, after: .seconds(600))
        let checkpoint = try #require(unit.checkpoint())
        let part = checkpoint.settlement
        #expect(part.doneThrough == 4)
        #expect(part.failures.map(\.device) == [1, 2] && part.rejected == 2)
        #expect(part.retirements.map(\.device) == [1, 2] && part.proposals.map(\.device) == [1, 2])
        #expect(part.requeues.map(\.devices) == [[3], [4]])
        #expect(part.requeues.map(\.delay) == [.seconds(5), .seconds(600)])
        #expect(part.evidence?[.production] == answers(accepted: 0, answered: 2))

        // An answer that comes while it is being written belongs to the next one.
        unit.accept(4)
        unit.settled(checkpoint)
        let last = unit.lastSettlement
        #expect(last.failures.map(\.device) == [6] && last.rejected == 1 && last.accepted == 1)
        #expect(last.retirements.map(\.device) == [6] && last.proposals.map(\.device) == [6])
        #expect(last.requeues.map(\.devices) == [[7]])
        #expect(last.evidence?[.production] == answers(accepted: 1, answered: 2))
    }

    @Test("is not made of what has no batch, of what has ended, of what is lost, nor of nothing")
    func none() {
        let direct = unit(batch: 0, production: [1, 2])
        send(direct)
        direct.accept(0)
        #expect(direct.checkpoint() == nil)

        let whole = unit(production: [1, 2])
        send(whole)
        #expect(whole.checkpoint() == nil)
        whole.accept(1)
        #expect(whole.checkpoint() == nil)
        whole.accept(0)
        #expect(whole.isEnded && whole.checkpoint() == nil)

        let lost = unit(production: [1, 2])
        send(lost)
        lost.accept(0)
        lost.stop(.leaseEnded)
        #expect(lost.checkpoint() == nil)
    }

    @Test("counts what was parked, put off or handed back as moved on")
    func moved() throws {
        let unit = unit(production: [1, 3, 5], sandbox: [2, 4])
        unit.park(1)
        #expect(unit.checkpoint() == nil)
        send(unit)
        unit.accept(0)
        let part = try #require(unit.checkpoint()).settlement
        #expect(part.doneThrough == 2 && part.accepted == 1 && part.requeues.map(\.devices) == [[2]])
        #expect(
            part.requeues.map(\.state) == [.parked] && part.evidence?[.sandbox] == answers(accepted: 0, answered: 0))
    }

    @Test("of a probe, or of a channel, says nothing about tokens")
    func noEvidence() {
        let probe = unit(production: [1], isProbe: true)
        send(probe)
        probe.accept(0)
        #expect(probe.lastSettlement.evidence == nil && probe.lastSettlement.accepted == 1)
        let channel = unit(batch: 0, production: [0], channel: "c")
        send(channel)
        channel.accept(0)
        #expect(channel.lastSettlement.evidence == nil && channel.lastSettlement.accepted == 1)
    }

    @Test("takes for evidence only what Apple has said of a device")
    func refusedIsNoEvidence() throws {
        let unit = unit(production: [1, 2, 3])
        send(unit)
        unit.accept(0)
        unit.settlement.rejected += 1
        unit.decided(1, .refused)
        let part = try #require(unit.checkpoint()).settlement
        #expect(part.rejected == 1 && part.evidence?[.production] == answers(accepted: 1, answered: 1))
    }

    @Test("and those after it, and the end, together say of each device once what became of it", arguments: 1...40)
    func whole(seed: UInt64) throws {
        var random = Seeded(state: seed)
        let ids = (1...200).map { Int64($0 * 3) }
        let production = ids.filter { _ in Bool.random(using: &random) }
        let unit = unit(production: production, sandbox: ids.filter { !production.contains($0) })
        send(unit)
        var written: [UnitSettlement] = []
        for index in (0..<200).shuffled(using: &random, within: 12) {
            switch Int.random(in: 0..<10, using: &random) {
            case 0: unit.reject(index)
            case 1: unit.moveOn(index, after: .seconds(Int64.random(in: 1...900, using: &random)))
            case 2: unit.leaveUnknown(index)
            default: unit.accept(index)
            }
            if Int.random(in: 0..<15, using: &random) == 0, let checkpoint = unit.checkpoint() {
                written.append(checkpoint.settlement)
                unit.settled(checkpoint)
            }
        }
        #expect(unit.isEnded)
        written.append(unit.lastSettlement)
        #expect(written.count > 3)
        let marks = written.dropLast().compactMap(\.doneThrough)
        #expect(marks == Set(marks).sorted())

        let count = { (mark: DeviceMark) in Int32(unit.marks.count { $0 == mark }) }
        #expect(written.reduce(0) { $0 + $1.accepted } == count(.accepted))
        #expect(written.reduce(0) { $0 + $1.rejected } == count(.rejected))
        #expect(written.reduce(0) { $0 + $1.unknown } == count(.unknown))
        let refused = unit.marks.indices.filter { unit.marks[$0] == .rejected }.map(unit.device).sorted()
        #expect(written.flatMap(\.proposals).map(\.device).sorted() == refused)
        #expect(written.flatMap(\.retirements).map(\.device).sorted() == refused)
        let moved = unit.marks.indices.filter { unit.marks[$0] == .moved }.map(unit.device).sorted()
        #expect(written.flatMap(\.requeues).flatMap(\.devices).sorted() == moved)
        for environment in PushEnvironment.allCases {
            let own = unit.marks.indices.filter { unit.environment(of: $0) == environment }.map { unit.marks[$0] }
            let answered = own.count { $0 == .accepted || $0 == .rejected }
            #expect(written.reduce(0) { $0 + ($1.evidence?[environment].answered ?? 0) } == Int32(answered))
            #expect(
                written.reduce(0) { $0 + ($1.evidence?[environment].accepted ?? 0) }
                    == Int32(own.count { $0 == .accepted }))
        }
        // Everything below a mark is in what was written up to it.
        for (place, mark) in marks.enumerated() {
            let later = written[(place + 1)...].flatMap { $0.failures.map(\.device) + $0.requeues.flatMap(\.devices) }
            #expect(later.allSatisfy { $0 > mark })
        }
    }

    private func answers(accepted: Int32, answered: Int32) -> TokenEvidence.Answers {
        var answers = TokenEvidence.Answers()
        answers.accepted = accepted
        answers.answered = answered
        return answers
    }

    private func unit(
        batch: Int32 = 1, production: [Int64], sandbox: [Int64] = [], isProbe: Bool = false, channel: String? = nil
    ) -> UnitInWork {
        var random = Seeded(state: 1)
        let parts = [
            UnitDevices(environment: .production, ids: production, tokens: tokens(production)),
            UnitDevices(environment: .sandbox, ids: sandbox, tokens: tokens(sandbox)),
        ].filter { !$0.ids.isEmpty }
        let work = WorkUnit(
            key: UnitKey(notification: 7, batch: batch, epoch: 1), attempt: 1,
            content: PushContent(
                notificationID: 7, app: "a", pushType: .alert, priority: 10, channelID: channel, payload: []),
            dueTime: 0, atMostOnce: false)
        return UnitInWork(
            work: work, devices: parts, claimed: .now(),
            lease: LeaseClock(asked: BootTime(nanoseconds: 0), rules: LeaseRules(), using: &random), isProbe: isProbe,
            topic: "t", pathPrefix: "/3/device/", head: HTTP2RequestHead(fields: [], body: []))
    }

    private func tokens(_ ids: [Int64]) -> [UInt8] {
        Array(ids.map { "\($0.magnitude + 10_000_000)" }.joined(separator: " ").utf8)
    }

    /// Hands everything that waits to the wire.
    private func send(_ unit: UnitInWork) {
        for place in unit.segments.indices {
            while unit.segments[place].takeNext() != nil { unit.handedToWire() }
        }
    }
}

extension UnitInWork {
    fileprivate func accept(_ index: Int) {
        settlement.accepted += 1
        decided(index, .accepted)
    }

    fileprivate func leaveUnknown(_ index: Int) {
        settlement.unknown += 1
        decided(index, .unknown)
    }

    fileprivate func reject(_ index: Int) {
        settlement.rejected += 1
        settlement.failures.append(
            DeviceFailure(
                device: device(index), token: token(index), environment: environment(of: index), status: 400,
                reason: "BadDeviceToken", isFinal: true, time: claimed))
        settlement.proposals.append(
            Proposal(
                device: device(index), environment: environment(of: index), reason: "BadDeviceToken", sentAt: claimed))
        settlement.retirements.append(
            Retirement(device: device(index), reason: "Unregistered", asOf: nil, sentAt: claimed))
        decided(index, .rejected)
    }

    fileprivate func moveOn(_ index: Int, after delay: Duration) {
        addRequeue(Requeue(state: .ready, isCharged: true, delay: delay), devices: [device(index)])
        decided(index, .moved)
    }
}

/// A generator that gives the same numbers for the same seed (SplitMix64).
private struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension Range<Int> {
    /// In roughly ascending order, as answers come: each is at most so far from its place.
    fileprivate func shuffled(using random: inout some RandomNumberGenerator, within width: Int) -> [Int] {
        map { ($0, $0 + Int.random(in: 0...width, using: &random)) }.sorted { $0.1 < $1.1 }.map(\.0)
    }
}
