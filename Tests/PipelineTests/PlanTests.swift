import PushModel
import PushStore
import Reactor
import Testing

@testable import Pipeline

@Suite("Plans of a lane") struct PlanTests {
    let plan = ClaimPlan(batchSize: 500)

    @Test("a lane holds about eight times what the streams carry, within two and sixteen batches")
    func capacity() {
        #expect(plan.capacity(streams: 0) == 1000)
        #expect(plan.capacity(streams: 1) == 1000)
        #expect(plan.capacity(streams: 500) == 4000)
        #expect(plan.capacity(streams: 16_000) == 8000)
    }

    @Test("broadcasts leave the last quarter of the room to single users")
    func reserve() {
        let capacity = 4000
        #expect(plan.batches(outstanding: 0, capacity: capacity) == 6)
        #expect(plan.batches(outstanding: 2500, capacity: capacity) == 1)
        #expect(plan.batches(outstanding: 2501, capacity: capacity) == 0)
        #expect(plan.batches(outstanding: 0, capacity: 500) == 1)
        #expect(plan.notifications(outstanding: 3000, capacity: capacity) == 500)
        #expect(plan.notifications(outstanding: 3900, capacity: capacity) == 100)
        #expect(plan.notifications(outstanding: 4000, capacity: capacity) == 0)
    }

    @Test("a round of claims that takes longer than the pause leaves everything idle, unless a kind was woken in it")
    func slowRounds() {
        let start = MonotonicTime.now()
        let end = start.advanced(by: .seconds(5))
        var schedule = ClaimSchedule()
        for (number, kind) in ClaimKind.allCases.enumerated() {
            schedule.foundNothing(kind, at: start.advanced(by: .seconds(number)))
        }
        #expect(!schedule.isIdle(at: end))
        schedule.roundEnded(at: end)
        #expect(schedule.isIdle(at: end))
        schedule.foundNothing(.batches, at: end)
        schedule.foundWork(.batches)
        schedule.roundEnded(at: end)
        #expect(schedule.isAwake(.batches, at: end) && !schedule.isAwake(.probe, at: end))
        schedule.foundNothing(.batches, at: end)
        let wakes = schedule.wakes
        schedule.wake()
        schedule.roundEnded(at: end)
        #expect(schedule.wakes != wakes && schedule.isAwake(.batches, at: end))
    }

    @Test("an empty kind of work is left alone for a second, all empty is idle, a wake-up ends both")
    func schedule() {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var schedule = ClaimSchedule()
        #expect(!schedule.isIdle(at: start))
        for kind in ClaimKind.allCases { schedule.foundNothing(kind, at: start) }
        #expect(schedule.isIdle(at: start))
        #expect(!schedule.isIdle(at: start.advanced(by: .seconds(1))))
        schedule.wake()
        #expect(!schedule.isIdle(at: start))
        schedule.foundNothing(.broadcasts, at: start)
        #expect(!schedule.isAwake(.broadcasts, at: start) && schedule.isAwake(.notifications, at: start))
        schedule.foundWork(.broadcasts)
        #expect(schedule.isAwake(.broadcasts, at: start))
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
        var walk = DueWalk()
        walk.claimed([unit("a", due: 7), unit("b", due: 5), unit("a", due: 6)], limit: 3)
        #expect(walk.since == ["a": DueMark(time: 6, notification: 1), "b": DueMark(time: 5, notification: 1)])
        walk.claimed([unit("a", due: 9)], limit: 3)
        #expect(walk.since.isEmpty)
    }

    private func unit(_ app: String, due: Int64) -> WorkUnit {
        WorkUnit(
            key: UnitKey(notification: 1, batch: 0, epoch: 1), attempt: 1,
            content: PushContent(notificationID: 1, app: app, pushType: .alert, priority: 10, payload: []),
            dueTime: due, atMostOnce: false)
    }
}
