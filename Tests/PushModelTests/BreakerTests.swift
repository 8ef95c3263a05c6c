// The breaker as transcripts: what opens it, what does not, and how it finds its way back.

import PushModel
import TestSupport
import Testing

@Suite struct BreakerTests {
    private var breaker = Breaker()
    private var random = SeededGenerator(seed: 7)
    private var now = BootTime(nanoseconds: 1_000_000_000_000)

    private mutating func fail(_ times: Int, retryAfter: Duration? = nil) -> Bool {
        var opened = false
        for _ in 0..<times { opened = breaker.failed(at: now, retryAfter: retryAfter, using: &random) || opened }
        return opened
    }

    private mutating func succeed(_ times: Int) { for _ in 0..<times { breaker.succeeded() } }

    /// How long it stays open from now on; nil when it is not open.
    private var pause: Duration? {
        guard case .open(let until) = breaker.state else { return nil }
        return .nanoseconds(Int64(until.nanoseconds - now.nanoseconds))
    }

    private mutating func goOn(_ duration: Duration) { now = now.advanced(by: duration) }

    @Test mutating func twentyFailuresInARowOpenIt() {
        #expect(!fail(19) && breaker.state == .closed)
        succeed(1)
        #expect(!fail(19) && breaker.state == .closed)
        #expect(fail(1))
        #expect(breaker.counts == Breaker.Counts(results: 40, failures: 39, probes: 0))
        #expect(breaker.openSince == now)
    }

    @Test mutating func halfOfTheLastHundredOpenIt() {
        for _ in 0..<49 {
            #expect(!fail(1))
            succeed(1)
        }
        #expect(!fail(1))
        // The hundredth result is a failure, and the fifty-first of them.
        #expect(fail(1))
    }

    @Test mutating func lessThanHalfDoesNot() {
        for _ in 0..<1000 {
            succeed(2)
            #expect(!fail(1))
        }
        #expect(breaker.state == .closed)
    }

    /// Only the last results count: a good hour does not hide a bad minute.
    @Test mutating func oldResultsAreForgotten() {
        succeed(100_000)
        var rounds = 0
        while breaker.state == .closed, rounds < 1000 {
            rounds += 1
            if !fail(2) { succeed(1) }
        }
        // Two of three fail: half of the last 128 after at most 96 results.
        #expect(rounds <= 33)
    }

    @Test mutating func itStaysOpenForTwiceAsLongEachTimeUpToFiveMinutes() {
        #expect(fail(20))
        for expected in [15, 30, 60, 120, 240, 300, 300] {
            let pause = pause ?? .zero
            #expect(pause >= .seconds(expected) && pause <= .seconds(expected) * 5 / 4, "\(pause)")
            goOn(pause - .milliseconds(1))
            #expect(breaker.state(at: now) != .halfOpen)
            goOn(.milliseconds(1))
            #expect(breaker.state(at: now) == .halfOpen)
            breaker.probeFailed(at: now, using: &random)
        }
        #expect(breaker.counts.probes == 7)
    }

    @Test mutating func oneGoodPushClosesIt() {
        #expect(fail(20))
        goOn(.seconds(20))
        #expect(breaker.state(at: now) == .halfOpen)
        breaker.probeSucceeded(at: now)
        #expect(breaker.state == .closed && breaker.openSince == nil)
        // It begins anew.
        #expect(breaker.counts == Breaker.Counts())
        #expect(!fail(19))
    }

    /// What was on the wire when it opened says nothing about the time after.
    @Test mutating func lateResultsChangeNothing() {
        #expect(fail(20))
        let state = breaker.state
        succeed(500)
        #expect(!fail(500) && breaker.state == state)
        goOn(.seconds(20))
        #expect(breaker.state(at: now) == .halfOpen)
        succeed(500)
        #expect(!fail(500) && breaker.state(at: now) == .halfOpen)
        // Nor does a probe's result when there can be none.
        breaker.probeSucceeded(at: now)
        breaker.probeFailed(at: now, using: &random)
        #expect(breaker.state == .closed)
    }

    @Test mutating func aRelapseGoesOnWhereItWas() {
        #expect(fail(20))
        for _ in 0..<2 {
            goOn(.seconds(200))
            breaker.probeFailed(at: now, using: &random)
        }
        goOn(.seconds(200))
        breaker.probeSucceeded(at: now)
        goOn(.seconds(10))
        #expect(fail(20))
        #expect((pause ?? .zero) >= .seconds(120))
        // After a good time it is the first again.
        goOn(.seconds(300))
        breaker.probeSucceeded(at: now)
        goOn(.seconds(300))
        #expect(fail(20))
        #expect((pause ?? .zero) < .seconds(20))
    }

    @Test mutating func whatTheGatewayAsksForIsHeededWithinBounds() {
        #expect(!fail(19))
        #expect(fail(1, retryAfter: .seconds(100)))
        #expect(pause == .seconds(100))
        goOn(.seconds(100))
        breaker.probeFailed(at: now, retryAfter: .seconds(86_400), using: &random)
        #expect(pause == .seconds(300))
        goOn(.seconds(300))
        breaker.probeFailed(at: now, retryAfter: .seconds(1), using: &random)
        #expect((pause ?? .zero) >= .seconds(60))
    }

    @Test func pausesAreSpread() {
        var pauses: Set<UInt64> = []
        for seed in 0..<50 {
            var breaker = Breaker()
            var random = SeededGenerator(seed: UInt64(seed))
            for _ in 0..<20 { _ = breaker.failed(at: BootTime(nanoseconds: 0), using: &random) }
            if case .open(let until) = breaker.state { pauses.insert(until.nanoseconds) }
        }
        #expect(pauses.count > 40)
    }
}
