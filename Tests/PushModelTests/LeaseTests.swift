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

    @Test func rescuersNeedALongContact() {
        #expect(!rules.mayRescue(contact: nil))
        #expect(!rules.mayRescue(contact: .seconds(29)))
        #expect(rules.mayRescue(contact: .seconds(30)))
    }

    @Test func timesStayInRange() {
        #expect(at(5).advanced(by: .seconds(-10)) == at(0))
        #expect(at(5).advanced(by: .milliseconds(-1500)) == BootTime(nanoseconds: 3_500_000_000))
        #expect(at(5).advanced(by: .seconds(Int64.max)) == BootTime(nanoseconds: .max))
        #expect(at(5).advanced(by: .seconds(Int64.min)) == at(0))
        #expect(BootTime(nanoseconds: .max).advanced(by: .nanoseconds(1)) == BootTime(nanoseconds: .max))
    }
}

@Suite struct DatabaseContactTests {
    private let rules = LeaseRules()

    private func after(_ contact: DatabaseContact, _ seconds: UInt64) -> Duration? {
        contact.unbroken(at: at(seconds), rules: rules)
    }

    @Test func itCountsFromTheFirstAnswerAfterTheLastLoss() {
        var contact = DatabaseContact()
        #expect(after(contact, 1000) == nil)
        contact.answered(at: at(1000), rules: rules)
        contact.answered(at: at(1020), rules: rules)
        #expect(after(contact, 1030) == .seconds(30))
        contact.lost()
        #expect(after(contact, 1031) == nil)
        // Another session's connection is as good as ever; the server may be away all the same.
        contact.lost()
        contact.answered(at: at(1040), rules: rules)
        #expect(after(contact, 1041) == .seconds(1))
    }

    @Test func silenceProvesNothing() {
        #expect(rules.longestSilence == .seconds(45))
        var contact = DatabaseContact()
        contact.answered(at: at(1000), rules: rules)
        #expect(after(contact, 1045) == .seconds(45))
        #expect(after(contact, 1046) == nil)
        // Frozen, or idle for long: the count begins anew with the answer.
        contact.answered(at: at(2000), rules: rules)
        #expect(after(contact, 2000) == .zero)
        for second in stride(from: UInt64(2030), through: 2120, by: 30) {
            contact.answered(at: at(second), rules: rules)
        }
        #expect(after(contact, 2130) == .seconds(130))
    }

    @Test func anAnswerThatComesLateMovesNothingBack() {
        var contact = DatabaseContact()
        contact.answered(at: at(1000), rules: rules)
        contact.answered(at: at(1030), rules: rules)
        contact.answered(at: at(1010), rules: rules)
        #expect(after(contact, 1060) == .seconds(60))
    }

    /// The proportions that the model of the queue relies on: a request that was started at the last moment (15 s at most) is over, and
    /// its result has some seconds to be written, before a rescuer comes; whoever comes back after an outage is quicker than one.
    @Test func theFiguresLeaveTimeToSettle() {
        let request = Duration.seconds(15)
        #expect(request + .seconds(5) <= rules.margin + rules.grace)
        #expect(rules.comeback >= .seconds(2 * 10), "the longest back-off of a reconnect, twice")
        #expect(rules.comeback + .seconds(5) <= rules.rescuerContact)
    }
}
