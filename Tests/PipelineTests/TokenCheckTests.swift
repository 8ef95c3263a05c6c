// F17: a unit looks at each token again before it becomes a path.

import HTTP2
import PushModel
import PushStore
import Reactor
import Testing

@testable import Pipeline

@Suite("A unit with stored tokens that are none") struct TokenCheckTests {
    private func unit(_ tokens: [String]) -> UnitInWork {
        var random = SystemRandomNumberGenerator()
        let ids = (1...Int64(tokens.count)).map { $0 }
        let joined = Array(tokens.joined(separator: " ").utf8)
        let work = WorkUnit(
            key: UnitKey(notification: 7, batch: 1, epoch: 1), attempt: 1,
            content: PushContent(notificationID: 7, app: "a", pushType: .alert, priority: 10, payload: []),
            dueTime: 0, atMostOnce: false)
        return UnitInWork(
            work: work, devices: [UnitDevices(environment: .production, ids: ids, tokens: joined)], claimed: .now(),
            lease: LeaseClock(asked: BootTime(nanoseconds: 0), rules: LeaseRules(), using: &random), isProbe: false,
            topic: "t", pathPrefix: "/3/device/", head: HTTP2RequestHead(fields: [], body: []))
    }

    @Test("leaves them out, wherever they stand, and books them as refused") func leavesOut() {
        let unit = unit(["", "ab12", "ab/../cd", "null", "AB34", "abc"])
        var sent: [String] = []
        while let next = unit.segments[0].takeNext() {
            sent.append(String(decoding: unit.path(next.index), as: UTF8.self))
            unit.handedToWire()
            unit.decided(next.index, .accepted)
        }
        #expect(sent == ["/3/device/ab12", "/3/device/AB34"])
        #expect(unit.isEnded && !unit.segments[0].hasWaiting)
        #expect(unit.settlement.rejected == 4)
        #expect(unit.settlement.failures.map(\.device) == [1, 3, 4, 6])
        #expect(unit.settlement.failures.map(\.token) == ["", "ab/../cd", "null", "abc"])
        #expect(unit.settlement.failures.allSatisfy { $0.isFinal && $0.status == 0 && !$0.reason.isEmpty })
    }

    @Test("gives only the others back when it is stopped, and ends at once when there are no others") func givesBack() {
        let stopped = unit(["ab12", "x", "ab34"])
        stopped.stop(.stopping)
        stopped.handBackRest()
        #expect(stopped.settlement.requeues.map(\.devices) == [[1, 3]])
        #expect(stopped.settlement.rejected == 1 && stopped.isEnded)
        #expect(unit(["x", "-"]).isEnded)
    }
}
