// After a claim whose answer was lost.

import Reactor
import Testing

@testable import Pipeline

private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

@Suite("Doubt about a claim") struct DoubtTests {
    @Test("is looked into at once, and again until the server cannot be at the claim any more")
    func repeated() {
        var doubt = ClaimDoubt()
        #expect(!doubt.isOpen && !doubt.isDue(at: at(100)) && doubt.wait(from: at(100)) == nil)
        doubt.arose(at: at(100))
        #expect(doubt.isOpen && doubt.isDue(at: at(100)) && doubt.wait(from: at(100)) == .zero)
        var looks: [UInt64] = []
        for second in UInt64(100)...200 where doubt.isDue(at: at(second)) {
            looks.append(second)
            doubt.cleared(asked: at(second))
        }
        #expect(looks == [100, 110, 120, 130, 140, 150, 160])
        #expect(!doubt.isOpen)
    }

    @Test("does not end before the database has been asked, and begins anew with the next loss")
    func unanswered() {
        var doubt = ClaimDoubt()
        doubt.arose(at: at(100))
        #expect(doubt.isDue(at: at(1000)) && doubt.wait(from: at(1000)) == .zero)
        doubt.arose(at: at(990))
        doubt.cleared(asked: at(1000))
        #expect(doubt.isOpen && !doubt.isDue(at: at(1009)) && doubt.wait(from: at(1004)) == .seconds(6))
        doubt.cleared(asked: at(1050))
        #expect(!doubt.isOpen)
    }
}
