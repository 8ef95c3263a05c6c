import PushModel
import PushStore
import Reactor
import Testing

@testable import Pipeline

@Suite("Plans of a lane") struct PlanTests {
    let plan = ClaimPlan(batchSize: 500, apps: 1)

    @Test("a lane holds about eight times what the streams carry, within two and sixteen batches")
    func capacity() {
        #expect(plan.capacity(streams: 0, active: 1) == 1000)
        #expect(plan.capacity(streams: 1, active: 1) == 1000)
        #expect(plan.capacity(streams: 500, active: 1) == 4000)
        #expect(plan.capacity(streams: 16_000, active: 1) == 8000)
    }

    @Test("broadcasts leave the last quarter of the room to single users")
    func reserve() {
        let capacity = 4000
        #expect(plan.batches(AppLoad(), capacity: capacity) == 6)
        #expect(plan.batches(AppLoad(batches: 2500), capacity: capacity) == 1)
        #expect(plan.batches(AppLoad(batches: 2501), capacity: capacity) == 0)
        #expect(plan.batches(AppLoad(), capacity: 500) == 1)
        #expect(plan.notifications(AppLoad(batches: 3000), capacity: capacity) == 500)
        #expect(plan.notifications(AppLoad(singles: 3900), capacity: capacity) == 100)
        #expect(plan.notifications(AppLoad(singles: 4000), capacity: capacity) == 0)
    }

    @Test("neither kind of work keeps the other out: a first slice always fits, and a quarter is for singles")
    func neitherStarves() {
        #expect(plan.batches(AppLoad(singles: 4000), capacity: 4000) == 1)
        #expect(plan.notifications(AppLoad(singles: 100, batches: 4000), capacity: 4000) == 500)
        #expect(plan.notifications(AppLoad(singles: 900, batches: 4000), capacity: 4000) == 100)
        #expect(plan.notifications(AppLoad(batches: 10_000), capacity: 160) == 40)
    }

    @Test(
        "apps at work share the lane, and what it holds stays bounded however many there are",
        arguments: [1, 2, 16, 200])
    func manyApps(apps: Int) {
        let plan = ClaimPlan(batchSize: 500, apps: apps)
        #expect(plan.capacity(streams: 4000, active: 1) == 8000)
        // Each in turn takes all it may, and none lets anything go.
        var held = 0
        for active in 1...apps {
            let capacity = plan.capacity(streams: 4000, active: active)
            #expect(capacity >= min(1000, 16_000 / apps) && capacity >= 32)
            var load = AppLoad()
            load.batches += 500 * plan.batches(load, capacity: capacity)
            load.singles += plan.notifications(load, capacity: capacity)
            #expect(load.batches >= 500 && load.singles > 0)
            held += load.devices
        }
        #expect(held <= 3 * 8000 + apps * 500)
    }

    @Test("of a claim each app has its part, and whoever has more than that gets what others leave")
    func shares() {
        func limits(_ shares: ClaimShares, _ rooms: [Int], total: Int = 500) -> [Int] {
            shares.shares(.notifications, asking(rooms), total: total).map(\.limit)
        }
        var shares = ClaimShares()
        #expect(limits(shares, [8000]) == [500])
        #expect(limits(shares, [8000, 8000]) == [250, 250])
        #expect(limits(shares, [8000, 0, 7]) == [250, 7])
        #expect(limits(shares, Array(repeating: 8000, count: 100)) == Array(repeating: 20, count: 100))
        // The first has a million rows.
        let asked = shares.shares(.notifications, asking([8000, 8000, 8000, 8000, 8000]), total: 500)
        shares.learn(.notifications, asked, found: ["app0": 100, "app1": 3])
        #expect(limits(shares, [8000, 8000, 8000, 8000, 8000]) == [500, 100, 100, 100, 100])
        #expect(limits(shares, [300, 8000, 8000, 8000, 8000]) == [300, 100, 100, 100, 100])
        // Other kinds know nothing of it.
        #expect(shares.shares(.batches, asking([16, 16]), total: 16).map(\.limit) == [8, 8])
        shares.learn(.notifications, asked, found: [:])
        #expect(limits(shares, [8000, 8000]) == [250, 250])
    }

    @Test("broadcasts of apps take turns") func turns() {
        var shares = ClaimShares()
        var served: [String] = []
        for _ in 0..<6 {
            let asked = shares.inTurn(asking([4, 0, 4, 4]))
            // The third has nothing.
            guard let next = asked.map(\.app.name).first(where: { $0 != "app2" }) else { return }
            served.append(next)
            shares.learn(.broadcasts, asked, found: [next: 4])
        }
        #expect(served == ["app0", "app3", "app0", "app3", "app0", "app3"])
    }

    private func asking(_ rooms: [Int]) -> [ClaimShare] {
        rooms.enumerated().map { ClaimShare(app: ServedApp(name: "app\($0.offset)"), limit: $0.element) }
    }

    private let one = ["default"]

    @Test("a round of claims that takes longer than the pause leaves everything idle, unless a kind was woken in it")
    func slowRounds() {
        let start = MonotonicTime.now()
        let end = start.advanced(by: .seconds(5))
        var schedule = ClaimSchedule()
        for (number, kind) in ClaimKind.allCases.enumerated() {
            schedule.foundNothing(kind, one, at: start.advanced(by: .seconds(number)))
        }
        #expect(!schedule.isIdle(one, at: end))
        schedule.roundEnded(at: end)
        #expect(schedule.isIdle(one, at: end))
        schedule.foundNothing(.batches, one, at: end)
        schedule.foundWork(.batches)
        schedule.roundEnded(at: end)
        #expect(schedule.isAwake(.batches, "default", at: end) && !schedule.isAwake(.probe, "default", at: end))
        schedule.foundNothing(.batches, one, at: end)
        let wakes = schedule.wakes
        schedule.wake()
        schedule.roundEnded(at: end)
        #expect(schedule.wakes != wakes && schedule.isAwake(.batches, "default", at: end))
    }

    @Test("an empty kind of work is left alone for a second, all empty is idle, a wake-up ends both")
    func schedule() {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var schedule = ClaimSchedule()
        #expect(!schedule.isIdle(one, at: start))
        for kind in ClaimKind.allCases { schedule.foundNothing(kind, one, at: start) }
        #expect(schedule.isIdle(one, at: start))
        #expect(!schedule.isIdle(one, at: start.advanced(by: .seconds(1))))
        schedule.wake()
        #expect(!schedule.isIdle(one, at: start))
        schedule.foundNothing(.broadcasts, one, at: start)
        #expect(!schedule.isAwake(.broadcasts, "default", at: start))
        #expect(schedule.isAwake(.notifications, "default", at: start))
        schedule.foundWork(.broadcasts, one)
        #expect(schedule.isAwake(.broadcasts, "default", at: start))
    }

    @Test("while others are sent to, single users are looked for four times a second; other work is not")
    func whileBusy() {
        var schedule = ClaimSchedule()
        let start = MonotonicTime.now()
        for kind in ClaimKind.allCases { schedule.foundNothing(kind, ["a"], isBusy: true, at: start) }
        schedule.roundEnded(at: start)
        let soon = start.advanced(by: .milliseconds(250))
        #expect(ClaimKind.allCases.filter { schedule.isAwake($0, "a", at: soon) } == [.notifications])
        schedule.foundNothing(.notifications, ["a"], isBusy: false, at: soon)
        schedule.roundEnded(at: soon)
        #expect(!schedule.isAwake(.notifications, "a", at: soon.advanced(by: .milliseconds(900))))
    }

    @Test("an app that has nothing does not put another to sleep") func scheduleOfApps() {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var schedule = ClaimSchedule()
        for kind in ClaimKind.allCases { schedule.foundNothing(kind, ["a"], at: start) }
        #expect(schedule.isIdle(["a"], at: start) && !schedule.isIdle(["a", "b"], at: start))
        #expect(schedule.isIdle([], at: start))
        #expect(schedule.isAwake(.broadcasts, "b", at: start) && !schedule.isAwake(.broadcasts, "a", at: start))
        schedule.foundWork(.notifications, ["a"])
        #expect(schedule.isAwake(.notifications, "a", at: start) && !schedule.isAwake(.probe, "a", at: start))
    }

    @Test("the supervisor sleeps to the next due row, at most the interval, never less than a second")
    func poll() {
        var random = SystemRandomNumberGenerator()
        let interval = Duration.seconds(60)
        #expect(PollPlan.pause(untilDue: .zero, interval: interval, using: &random) == .seconds(1))
        let soon = PollPlan.pause(untilDue: .seconds(3), interval: interval, using: &random)
        #expect(soon >= .seconds(3) && soon <= .milliseconds(3200))
        let late = PollPlan.pause(untilDue: .seconds(300), interval: interval, using: &random)
        #expect(late >= .seconds(60) && late <= .milliseconds(60_200))
        // A lease that has ended and cannot be taken yet is no reason to spin.
        #expect(PollPlan.pause(untilLost: .zero) == .seconds(5))
        #expect(PollPlan.pause(untilLost: .seconds(60)) == .milliseconds(60_100))
    }

    @Test("windows are judged at the start, each minute, and every time while what was proposed may become ripe")
    func judging() {
        let start = MonotonicTime.now()
        let at = { (seconds: Int) in start.advanced(by: .seconds(seconds)) }
        var plan = JudgePlan()
        plan.saw(proposals: 0, at: start)
        #expect(plan.isDue(at: start) && !plan.isOwing)
        plan.judged(at: start)
        #expect(!plan.isDue(at: at(59)) && plan.isDue(at: at(60)))
        plan.saw(proposals: 3, at: at(10))
        #expect(plan.isDue(at: at(10)) && plan.isOwing)
        plan.judged(at: at(10))
        plan.saw(proposals: 3, at: at(20))
        #expect(plan.isDue(at: at(69)) && !plan.isOwing)
        plan.judged(at: at(69))
        #expect(!plan.isDue(at: at(70)) && plan.isDue(at: at(129)))
        plan.saw(proposals: 4, at: at(75))
        #expect(plan.isDue(at: at(80)) && plan.isOwing)
    }

    @Test("the walk over due rows begins where a full claim began, and at the head after one that was not full")
    func dueWalk() {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        let at = { (seconds: Int) in start.advanced(by: .seconds(seconds)) }
        var walk = DueWalk()
        let asked = asking([2, 1, 5])
        walk.claimed(
            [unit("app0", due: 7), unit("app1", due: 5), unit("app0", due: 6), unit("app2", due: 1)], asked,
            at: at(0))
        #expect(
            walk.since == ["app0": DueMark(time: 6, notification: 1), "app1": DueMark(time: 5, notification: 1)])
        // Who was not asked for keeps its place.
        walk.claimed([unit("app0", due: 9)], Array(asked.prefix(1)), at: at(1))
        #expect(walk.since == ["app1": DueMark(time: 5, notification: 1)])
        walk.claimed([], asked, at: at(2))
        #expect(walk.since.isEmpty)
        // However full the claims are, half a minute later the head is looked at.
        let full = [unit("app0", due: 7), unit("app0", due: 6)]
        walk.claimed(full, Array(asked.prefix(1)), at: at(29))
        #expect(walk.since["app0"] != nil)
        walk.claimed(full, Array(asked.prefix(1)), at: at(30))
        #expect(walk.since.isEmpty)
        walk.claimed(full, Array(asked.prefix(1)), at: at(31))
        #expect(walk.since["app0"] != nil)
    }

    @Test("a certificate is spoken of from thirty days before its end on, once a day")
    func expiry() {
        var notice = ExpiryNotice()
        let said = [
            ("a", 30, 1_000_000), ("a", 29, 1_000_000), ("b", -3, 1_000_000), ("a", 29, 1_086_399),
            ("a", 28, 1_086_400),
        ]
        .map { notice.isDue($0.0, daysLeft: $0.1, now: $0.2) }
        #expect(said == [false, true, true, false, true])
    }

    private func unit(_ app: String, due: Int64) -> WorkUnit {
        WorkUnit(
            key: UnitKey(notification: 1, batch: 0, epoch: 1), attempt: 1,
            content: PushContent(notificationID: 1, app: app, pushType: .alert, priority: 10, payload: []),
            dueTime: due, atMostOnce: false)
    }
}
