// The worker's own deadline, and what stops a unit.

import PushModel
import TestSupport
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
