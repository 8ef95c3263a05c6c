import PushStore
import Reactor
import Testing

@testable import Pipeline

@Suite("An app of which most is parked") struct HeldUpTests {
    let rooms = ["well", "sick"].map { name in
        ClaimShare(app: ServedApp(name: name), limit: 500)
    }
    let start = MonotonicTime.now()

    private func sick(_ parked: Int = 20, of count: Int = 20) -> HeldUpApps {
        var apps = HeldUpApps()
        apps.ended("sick", parked: parked, of: count)
        apps.ended("well", parked: 0, of: 1000)
        return apps
    }

    @Test("is one after some devices, and no more when most are sent again, or no pause concerns it")
    func verdict() {
        #expect(!sick(15, of: 15).contains("sick"))
        #expect(!sick(10, of: 20).contains("sick"))
        #expect(!sick().contains("well"))
        var apps = sick()
        #expect(apps.contains("sick"))
        apps.ended("sick", parked: 100_000, of: 100_000)
        for _ in 1...300 { apps.ended("sick", parked: 0, of: 1) }
        #expect(!apps.contains("sick"))
        apps = sick()
        apps.keep(["sick", "other"])
        #expect(apps.contains("sick"))
        apps.keep(["other"])
        #expect(!apps.contains("sick"))
    }

    @Test("yields while others fill the lane: a little of each kind once a second")
    func yields() {
        var apps = sick()
        for (kind, limit) in [(ClaimKind.notifications, 20), (.batches, 1), (.broadcasts, 1)] {
            let first = apps.yielding(kind, rooms, isBusy: true, at: start)
            #expect(first.others == [rooms[0]])
            #expect(first.yielding == [ClaimShare(app: rooms[1].app, limit: limit)])
            let second = apps.yielding(kind, rooms, isBusy: true, at: start.advanced(by: .milliseconds(900)))
            #expect(second.others == [rooms[0]] && second.yielding.isEmpty)
        }
        let later = apps.yielding(.batches, rooms, isBusy: false, at: start.advanced(by: .seconds(1)))
        #expect(later.others == [rooms[0]] && later.yielding.count == 1)
    }

    @Test("goes as fast as ever in a lane that has little else to do")
    func idle() {
        var apps = sick()
        #expect(apps.yielding(.notifications, rooms, isBusy: false, at: start) == (rooms, []))
        _ = apps.yielding(.notifications, rooms, isBusy: true, at: start)
        let later = start.advanced(by: .seconds(1))
        #expect(apps.yielding(.notifications, rooms, isBusy: false, at: later) == (rooms, []))
        var none = HeldUpApps()
        #expect(none.yielding(.notifications, rooms, isBusy: true, at: start) == (rooms, []))
    }
}
