// What a claim brings of a newer schema.

import PushStore
import Reactor
import Testing

@testable import Pipeline

private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

private func units(_ ids: ClosedRange<Int64>, of app: String) -> [UnreadableUnit] {
    ids.map { UnreadableUnit(key: UnitKey(notification: $0, batch: 0, epoch: 1), app: app, fault: "?") }
}

@Suite("What cannot be read") struct UnreadableTests {
    @Test("is given back after half a minute, and others may claim it first")
    func givenBack() {
        var unreadable = UnreadableUnits(isLasting: true)
        #expect(unreadable.isEmpty && unreadable.takeDue(at: at(1000)).isEmpty)
        unreadable.keep(units(1...2, of: "a"), at: at(100))
        unreadable.keep(units(3...3, of: "b"), at: at(110))
        #expect(!unreadable.isEmpty && unreadable.takeDue(at: at(129)).isEmpty)
        #expect(unreadable.mayClaim("a", at: at(129)))
        #expect(unreadable.takeDue(at: at(130)).map(\.notification) == [1, 2])
        #expect(!unreadable.mayClaim("a", at: at(131)) && unreadable.mayClaim("b", at: at(131)))
        #expect(unreadable.mayClaim("a", at: at(132)))
        #expect(unreadable.takeAll().map(\.notification) == [3] && unreadable.isEmpty)
    }

    @Test("of one app does not fill the memory, and holds up no other")
    func bounded() {
        var unreadable = UnreadableUnits(isLasting: true)
        unreadable.keep(units(1...Int64(UnreadableUnits.limit), of: "a"), at: at(100))
        #expect(!unreadable.mayClaim("a", at: at(101)) && unreadable.mayClaim("b", at: at(101)))
        #expect(unreadable.takeDue(at: at(140)).count == UnreadableUnits.limit)
        #expect(unreadable.mayClaim("a", at: at(142)))
    }

    @Test("is kept to the end by who is to drain and end, and keeps it from nothing")
    func once() {
        var unreadable = UnreadableUnits(isLasting: false)
        unreadable.keep(units(1...Int64(UnreadableUnits.limit), of: "a"), at: at(100))
        #expect(unreadable.takeDue(at: at(10_000)).isEmpty && unreadable.mayClaim("a", at: at(10_000)))
        #expect(unreadable.takeAll().count == UnreadableUnits.limit)
    }
}
