// What of a unit goes on elsewhere, and when a notification is given up for everybody.

import PushModel
import PushStore
import Testing

@Suite("What goes on") struct RestTests {
    @Test("in one batch has waits of the same size: nobody waits more than twice as long as asked for, or four seconds")
    func lots() {
        for wait in [Duration.zero, .milliseconds(500), .seconds(1), .milliseconds(3999)] {
            #expect(RetryPolicy.lot(of: wait) == RetryPolicy.lot(of: .zero), "\(wait)")
        }
        #expect(RetryPolicy.lot(of: .seconds(4)) != RetryPolicy.lot(of: .milliseconds(3999)))
        for seconds in [4, 5, 29, 900, 3600, 4_000_000_000] as [Int64] {
            let wait = Duration.seconds(seconds)
            #expect(RetryPolicy.lot(of: wait) != RetryPolicy.lot(of: wait * 2))
            #expect(RetryPolicy.lot(of: wait) != RetryPolicy.lot(of: wait / 2) || seconds < 8)
        }
        #expect(RetryPolicy.lot(of: .seconds(32)) == RetryPolicy.lot(of: .seconds(63)))
    }

    @Test("does not go together when anything but the wait differs")
    func company() {
        let base = Requeue(state: .ready, isCharged: true, delay: .seconds(33))
        #expect(base.goesWith(Requeue(state: .ready, isCharged: true, delay: .seconds(60))))
        #expect(!base.goesWith(Requeue(state: .ready, isCharged: true, delay: .seconds(900))))
        #expect(!base.goesWith(Requeue(state: .ready, isCharged: false, delay: .seconds(33))))
        #expect(!base.goesWith(Requeue(state: .parked, isCharged: true, delay: .seconds(33))))
        #expect(
            !base.goesWith(Requeue(state: .ready, isCharged: true, delay: .seconds(33), environment: .sandbox)))
    }

    @Test("is nothing when three answers in each environment, or all of a small notification, say so")
    func hopeless() {
        let cases: [(environments: [(hopeless: Int, devices: Int)], isWhole: Bool, givesUp: Bool)] = [
            ([(0, 500)], false, false), ([(2, 500)], false, false), ([(3, 500)], false, true),
            ([(1, 1)], true, true), ([(1, 2)], true, false), ([(2, 2)], true, true), ([(0, 0)], true, false),
            ([], true, false),
            // A slice of few devices may hold just the odd ones of a great audience.
            ([(1, 1)], false, false), ([(2, 2)], false, false),
            // What the sandbox refuses production may take.
            ([(3, 10), (0, 490)], false, false), ([(3, 10), (3, 490)], false, true), ([(3, 10), (0, 0)], false, true),
            ([(1, 1), (2, 5)], true, false), ([(1, 1), (3, 5)], true, true),
        ]
        for one in cases {
            #expect(HopelessRule.givesUp(one.environments, isWhole: one.isWhole) == one.givesUp, "\(one)")
        }
    }
}
