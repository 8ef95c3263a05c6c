// The worker's own deadline, and what stops a unit.

import PushModel
import Testing

private func at(_ seconds: UInt64) -> BootTime { BootTime(nanoseconds: seconds * 1_000_000_000) }

@Suite struct LeaseClockTests {
    private let rules = LeaseRules()

    @Test func theDeadlineCountsFromBeforeTheClaim() {
        var random = SeededGenerator(seed: 1)
        let lease = LeaseClock(asked: at(100), rules: rules, using: &random)
        #expect(lease.deadline == at(165))
        #expect(lease.maySend(at: at(100)))
        #expect(lease.maySend(at: BootTime(nanoseconds: at(165).nanoseconds - 1)))
        #expect(!lease.maySend(at: at(165)))
        // Frozen and resumed: the boot clock went on.
        #expect(!lease.maySend(at: at(100_000)))
    }

    @Test func renewalsMoveForwardOnly() {
        var random = SeededGenerator(seed: 1)
        var lease = LeaseClock(asked: at(100), rules: rules, using: &random)
        #expect((at(120)...at(125)).contains(lease.renewAt))
        lease.renewed(asked: at(120), using: &random)
        #expect(lease.deadline == at(185))
        #expect((at(140)...at(145)).contains(lease.renewAt))
        let renewAt = lease.renewAt
        lease.renewed(asked: at(110), using: &random)
        #expect(lease.deadline == at(185))
        #expect(lease.renewAt == renewAt)
    }

    @Test func whatIsLostStaysLost() {
        var random = SeededGenerator(seed: 1)
        var lease = LeaseClock(asked: at(100), rules: rules, using: &random)
        lease.lost()
        #expect(!lease.maySend(at: at(100)))
        lease.renewed(asked: at(101), using: &random)
        #expect(!lease.maySend(at: at(101)))
    }

    @Test func aMarginAsLongAsTheLeaseSendsNothing() {
        var random = SeededGenerator(seed: 1)
        var rules = LeaseRules()
        rules.margin = rules.lease
        let lease = LeaseClock(asked: at(100), rules: rules, using: &random)
        #expect(!lease.maySend(at: at(100)))
    }

    @Test func rescuersNeedAnOldConnection() {
        #expect(!rules.mayRescue(connected: nil))
        #expect(!rules.mayRescue(connected: .seconds(29)))
        #expect(rules.mayRescue(connected: .seconds(30)))
    }

    @Test func timesStayInRange() {
        #expect(at(5).advanced(by: .seconds(-10)) == at(0))
        #expect(at(5).advanced(by: .milliseconds(-1500)) == BootTime(nanoseconds: 3_500_000_000))
        #expect(at(5).advanced(by: .seconds(Int64.max)) == BootTime(nanoseconds: .max))
        #expect(at(5).advanced(by: .seconds(Int64.min)) == at(0))
        #expect(BootTime(nanoseconds: .max).advanced(by: .nanoseconds(1)) == BootTime(nanoseconds: .max))
    }
}

@Suite struct SendGateTests {
    private func gate() -> SendGate {
        var random = SeededGenerator(seed: 1)
        return SendGate(lease: LeaseClock(asked: at(100), rules: LeaseRules(), using: &random))
    }

    @Test func reasonsInOrder() {
        var gate = gate()
        #expect(gate.stopReason(at: at(101)) == nil)
        gate.stopping = true
        #expect(gate.stopReason(at: at(101)) == .stopping)
        gate.paused = true
        #expect(gate.stopReason(at: at(101)) == .paused)
        gate.end = at(101)
        #expect(gate.stopReason(at: at(101)) == .expired)
        #expect(gate.stopReason(at: at(100)) == .paused)
        gate.status = .cancelling
        #expect(gate.stopReason(at: at(101)) == .withdrawn)
        #expect(gate.stopReason(at: at(165)) == .leaseEnded)
    }

    @Test func onlySendingMaySend() {
        for status in NotificationStatus.allCases {
            var gate = gate()
            gate.status = status
            #expect((gate.stopReason(at: at(101)) == nil) == (status == .sending))
        }
    }
}

@Suite struct StatusTests {
    @Test func notificationTransitions() {
        let allowed: [NotificationStatus: Set<NotificationStatus>] = [
            .pending: [.sending, .cancelled, .expired],
            .sending: [.pending, .sent, .failed, .skipped, .cancelling, .cancelled, .expired],
            .cancelling: [.cancelled],
        ]
        for from in NotificationStatus.allCases {
            for to in NotificationStatus.allCases {
                #expect(from.mayBecome(to) == (allowed[from]?.contains(to) ?? false), "\(from) to \(to)")
                let reopens = from.isFinal && (to == .pending || to == .sending)
                #expect(from.mayReopen(as: to) == reopens)
            }
        }
    }

    @Test func batchTransitions() {
        let allowed: [BatchState: Set<BatchState>] = [
            .ready: [.leased, .abandoned],
            .leased: [.leased, .ready, .done, .abandoned],
            .parked: [.ready, .abandoned],
        ]
        for from in BatchState.allCases {
            for to in BatchState.allCases {
                #expect(from.mayBecome(to) == (allowed[from]?.contains(to) ?? false), "\(from) to \(to)")
            }
            #expect(from.isFinal == (allowed[from] == nil))
        }
    }
}

@Suite struct TokenFingerprintTests {
    @Test func isShortStableAndBlindToCase() {
        let token = String(repeating: "ab12", count: 16)
        let mark = TokenFingerprint.of(token)
        #expect(mark.count == 10)
        #expect(mark == TokenFingerprint.of(token.uppercased()))
        #expect(mark != TokenFingerprint.of(String(repeating: "ab13", count: 16)))
        #expect(TokenFingerprint.of("") == "e484e9d1b9")
    }

    @Test func tellsManyApart() {
        let marks = Set((0..<20_000).map { TokenFingerprint.of(String($0, radix: 16)) })
        #expect(marks.count == 20_000)
    }
}
