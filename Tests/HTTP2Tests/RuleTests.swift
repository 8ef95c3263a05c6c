// The pure rules as transcripts: deadlines, back-off, growth, stream limit, silence, addresses, queue order.

import Reactor
import Testing

@testable import HTTP2

private func at(_ milliseconds: UInt64) -> MonotonicTime {
    MonotonicTime(nanoseconds: 1_000_000_000_000 + milliseconds * 1_000_000)
}

@Suite("Deadline wheel")
struct DeadlineWheelTests {
    @Test("mixed deadlines end each at its time, never early, at most two ticks late")
    func mixed() {
        var generator = SystemRandomNumberGenerator()
        let wheel = DeadlineWheel(now: at(0))
        // Far beyond one turn of the wheel (41 s), in no order, some of them in the past.
        let deadlines = (0..<2000).map { _ in UInt64.random(in: 0...100_000, using: &generator) }
        for (index, deadline) in deadlines.enumerated() { wheel.insert(Int32(index), deadline: at(deadline)) }
        var ended: [Int: UInt64] = [:]
        var now: UInt64 = 0
        while wheel.count > 0 && now < 200_000 {
            now += UInt64.random(in: 1...40, using: &generator)
            for index in wheel.expire(now: at(now)) { ended[Int(index)] = now }
        }
        #expect(ended.count == 2000)
        for (index, time) in ended {
            #expect(time >= deadlines[index])
            #expect(time <= deadlines[index] + 40 + 40, "deadline \(deadlines[index]), ended \(time)")
        }
    }

    @Test("following nextVisit alone meets every deadline")
    func visits() throws {
        let wheel = DeadlineWheel(now: at(0))
        for (index, deadline) in [5, 30_000, 5, 90_000, 200, 41_000].enumerated() {
            wheel.insert(Int32(index), deadline: at(UInt64(deadline)))
        }
        var ended: [Int32] = []
        var steps = 0
        while let next = wheel.nextVisit {
            ended += wheel.expire(now: next).sorted()
            steps += 1
            try #require(steps < 100)
        }
        #expect(ended == [0, 2, 4, 1, 5, 3])
        // Visits are for entries, not for time that passes.
        #expect(steps <= 10)
    }

    @Test("what was taken out never ends; an index may come again")
    func removal() {
        let wheel = DeadlineWheel(now: at(0))
        for index in Int32(0)..<10 { wheel.insert(index, deadline: at(100)) }
        for index in [Int32(0), 9, 5, 5, 100] { wheel.remove(index) }
        #expect(wheel.count == 7)
        wheel.insert(5, deadline: at(300))
        #expect(wheel.expire(now: at(200)).sorted() == [1, 2, 3, 4, 6, 7, 8])
        #expect(wheel.expire(now: at(400)) == [5])
        #expect(wheel.count == 0 && wheel.nextVisit == nil)
    }

    @Test("a deadline that never comes is no trouble; one in the past ends at the next look")
    func extremes() {
        let wheel = DeadlineWheel(now: at(1000))
        wheel.insert(0, deadline: .distantFuture)
        wheel.insert(1, deadline: MonotonicTime(nanoseconds: 0))
        #expect(wheel.expire(now: at(1021)) == [1])
        #expect(wheel.expire(now: at(10_000_000)) == [])
        #expect(wheel.count == 1)
    }
}

@Suite("Connect policy")
struct ConnectPolicyTests {
    private func policy(burst: Int = 100, perSecond: Double = 100) -> ConnectPolicy {
        ConnectPolicy(
            first: .milliseconds(100), last: .seconds(60), burst: burst, perSecond: perSecond, now: at(0))
    }

    @Test("the bound doubles from 0.1 s to 60 s, the delay is a share of it, an answer starts anew")
    func backoff() {
        var policy = policy()
        var bounds: [Duration] = []
        for _ in 0..<12 {
            policy.failed(now: at(0), chance: 0.5)
            bounds.append(policy.bound)
        }
        let expected = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]
        #expect(bounds == expected.map { .milliseconds($0) })
        #expect(policy.notBefore == at(30_000))
        policy.succeeded()
        policy.failed(now: at(31_000), chance: 0.999)
        #expect(policy.notBefore <= at(31_100) && policy.notBefore > at(31_000))
    }

    @Test("F08: with random delays there are few attempts in 10 s, whatever the luck")
    func boundedCount() {
        for _ in 0..<200 {
            var policy = policy(burst: 40, perSecond: 4)
            var attempts = 0
            var now = at(0)
            while now < at(10_000) {
                policy.attempted(now: now)
                attempts += 1
                policy.failed(now: now, chance: .random(in: 0..<1))
                now = max(policy.notBefore, now.advanced(by: .milliseconds(1)))
            }
            #expect(attempts >= 4 && attempts <= 60)
        }
    }

    @Test("after a failure one attempt is made for all who share the way; an answer lets the others in")
    func together() {
        var policy = policy()
        policy.failed(now: at(0), chance: 0.5)
        #expect(policy.notBefore == at(50))
        policy.attempted(now: at(50))
        #expect(policy.notBefore == at(10_050), "the others wait for it")
        policy.failed(now: at(60), chance: 0.5)
        #expect(policy.notBefore == at(160), "and for the next turn, no longer")
        policy.attempted(now: at(160))
        policy.succeeded()
        #expect(policy.notBefore == at(160))
        policy.attempted(now: at(161))
        #expect(policy.notBefore <= at(161))
    }

    @Test("connections that work are opened at a bounded rate, too")
    func rate() {
        var policy = policy(burst: 10, perSecond: 2)
        var now = at(0)
        var times: [UInt64] = []
        for _ in 0..<30 {
            policy.attempted(now: now)
            policy.succeeded()
            times.append((now.nanoseconds - at(0).nanoseconds) / 1_000_000)
            now = max(policy.notBefore, now)
        }
        #expect(times[9] == 0, "a burst of ten at once")
        #expect(times[29] >= 9000 && times[29] <= 11_000, "then two a second: \(times)")
    }
}

@Suite("Growth plan")
struct GrowthPlanTests {
    private func state(
        queued: Int, connecting: Int = 0, usable: Int = 0, leaving: Int = 0, free: Int = 0
    ) -> GrowthPlan.State {
        GrowthPlan.State(queued: queued, connecting: connecting, usable: usable, leaving: leaving, free: free)
    }

    @Test("the first at once, others after all streams have been busy for a while, never above the maximum")
    func transcript() {
        var plan = GrowthPlan(maximum: 2, patience: .milliseconds(100))
        #expect(plan.decide(state(queued: 0), now: at(0)) == .enough)
        #expect(plan.decide(state(queued: 1), now: at(0)) == .open)
        #expect(plan.decide(state(queued: 1, connecting: 1), now: at(1)) == .enough)
        #expect(plan.decide(state(queued: 9, usable: 1, free: 5), now: at(2)) == .enough)
        #expect(plan.decide(state(queued: 9, usable: 1), now: at(10)) == .wait(at(110)))
        #expect(plan.decide(state(queued: 9, usable: 1), now: at(60)) == .wait(at(110)))
        #expect(plan.decide(state(queued: 9, usable: 1, free: 1), now: at(80)) == .enough)
        #expect(plan.decide(state(queued: 9, usable: 1), now: at(90)) == .wait(at(190)))
        #expect(plan.decide(state(queued: 9, usable: 1), now: at(190)) == .open)
        #expect(plan.decide(state(queued: 9, usable: 2), now: at(1000)) == .enough)
    }

    @Test("draining connections are replaced, but do not pile up")
    func draining() {
        var plan = GrowthPlan(maximum: 1, patience: .zero)
        #expect(plan.decide(state(queued: 1, leaving: 3), now: at(0)) == .open)
        #expect(plan.decide(state(queued: 1, leaving: 4), now: at(0)) == .enough)
    }
}

@Suite("Stream gate")
struct StreamGateTests {
    @Test("one stream until SETTINGS and the first success, then the peer's limit as it moves")
    func transcript() {
        var gate = StreamGate(ceiling: 500, provesFirst: true)
        #expect(gate.limit == 1)
        gate.settings(maxConcurrentStreams: 1000)
        #expect(gate.limit == 1, "the peer's limit alone proves nothing")
        gate.answered(status: 400)
        #expect(gate.limit == 1)
        gate.answered(status: 200)
        #expect(gate.limit == 500, "our own ceiling")
        gate.settings(maxConcurrentStreams: 1)
        #expect(gate.room(open: 100, now: at(0)) == 0)
        #expect(gate.room(open: 0, now: at(0)) == 1)
        gate.settings(maxConcurrentStreams: 0)
        #expect(gate.limit == 0)
        gate.settings(maxConcurrentStreams: .max)
        #expect(gate.limit == 500)
    }

    @Test("a peer that raises its limit trusts us; certificates need no proof")
    func proofs() {
        var gate = StreamGate(ceiling: 500, provesFirst: true)
        gate.settings(maxConcurrentStreams: 1)
        gate.settings(maxConcurrentStreams: 100)
        #expect(gate.limit == 100)
        var certificate = StreamGate(ceiling: 500, provesFirst: false)
        #expect(certificate.limit == 1)
        certificate.settings(maxConcurrentStreams: 300)
        #expect(certificate.limit == 300)
    }

    @Test("one refusal only lowers nothing; refusals in a row make the connection rest, an answer ends that")
    func refusals() {
        var gate = StreamGate(ceiling: 500, provesFirst: false)
        gate.settings(maxConcurrentStreams: 10)
        gate.refused(now: at(0))
        #expect(gate.room(open: 0, now: at(0)) == 10)
        gate.refused(now: at(0))
        #expect(gate.heldUntil == at(20) && gate.room(open: 0, now: at(19)) == 0)
        #expect(gate.room(open: 0, now: at(20)) == 10)
        for _ in 0..<20 { gate.refused(now: at(100)) }
        #expect(gate.heldUntil == at(1100))
        gate.answered(status: 503)
        #expect(gate.room(open: 0, now: at(101)) == 10)
    }
}

@Suite("Watchdog")
struct WatchdogTests {
    private func look(_ dog: inout Watchdog, _ now: UInt64, waiting: Bool) -> Watchdog.Action {
        dog.look(
            at: at(now), isWaiting: waiting, pingAfter: .seconds(5), idlePing: .seconds(3600), pingTimeout: .seconds(5))
    }

    @Test("silence while streams wait: a PING after 5 s, the end 5 s later")
    func silence() {
        var dog = Watchdog()
        dog.received(at: at(0))
        dog.startedWaiting(at: at(2000))
        #expect(look(&dog, 5000, waiting: true) == .wait(at(7000)), "counted from the first waiting stream")
        #expect(!dog.isSuspicious)
        #expect(look(&dog, 7000, waiting: true) == .ping)
        #expect(dog.isSuspicious)
        #expect(look(&dog, 9000, waiting: true) == .wait(at(12_000)))
        #expect(look(&dog, 12_000, waiting: true) == .giveUp)
    }

    @Test("any byte ends the suspicion; an idle connection is asked once an hour")
    func life() {
        var dog = Watchdog()
        dog.received(at: at(0))
        dog.startedWaiting(at: at(0))
        #expect(look(&dog, 5000, waiting: true) == .ping)
        dog.received(at: at(5100))
        #expect(!dog.isSuspicious)
        #expect(look(&dog, 10_000, waiting: true) == .wait(at(10_100)))
        #expect(look(&dog, 10_100, waiting: false) == .wait(at(3_605_100)))
        #expect(look(&dog, 3_605_100, waiting: false) == .ping)
        #expect(!dog.isSuspicious, "an idle connection may still be used")
        #expect(look(&dog, 3_610_100, waiting: false) == .giveUp)
    }
}

@Suite("Request table")
struct RequestTableTests {
    private let head = HTTP2RequestHead(fields: [], body: [])

    private func request(_ tag: UInt64) -> HTTP2Request {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        return HTTP2Request(path: none, id: none, tag: tag, deadline: .distantFuture)
    }

    private func tags(_ table: RequestTable, _ indices: [Int32]) -> [UInt64] {
        indices.map { table.slots[Int($0)].request.tag }
    }

    @Test("first in, first out; what comes back goes to the front; any can be taken out; the slab grows")
    func order() {
        let table = RequestTable(capacity: 16)
        var indices: [UInt64: Int32] = [:]
        for tag in UInt64(0)..<100 {
            let index = table.add(request(tag), head: head)
            indices[tag] = index
            table.append(index)
        }
        #expect(table.queued == 100 && table.count == 100)
        for tag in [UInt64(0), 50, 99] { indices[tag].map { table.unlink($0) } }
        #expect(tags(table, table.waiting) == (1..<99).filter { $0 != 50 }.map(UInt64.init))
        let first = table.popFirst()
        #expect(tags(table, [first]) == [1])
        for tag in [UInt64(99), 50, 0] { indices[tag].map { table.prepend($0) } }
        #expect(tags(table, Array(table.waiting.prefix(4))) == [0, 50, 99, 2])
        for index in table.waiting {
            table.unlink(index)
            table.release(index)
        }
        table.release(first)
        #expect(table.count == 0 && table.queued == 0 && table.popFirst() == -1)
    }

    @Test("heads are kept while requests use them and let go afterwards")
    func heads() {
        let table = RequestTable(capacity: 16)
        weak var watched: HTTP2RequestHead?
        do {
            let own = HTTP2RequestHead(fields: [HTTP2Field("a", "b")], body: [1])
            watched = own
            let (one, two, three) = (
                table.add(request(1), head: own), table.add(request(2), head: head), table.add(request(3), head: own)
            )
            table.release(one)
            table.release(two)
            table.release(three)
        }
        #expect(watched == nil)
        #expect(table.heads.capacity == 16)
    }
}

@Suite("Address book")
struct AddressBookTests {
    private func addresses(_ hosts: [String]) throws -> [SocketAddress] {
        try hosts.flatMap { try SocketAddress.lookUp(host: $0, port: 443) }
    }

    @Test("connections spread over all addresses; the family that the resolver prefers comes first")
    func spread() throws {
        let found = try addresses(["10.0.0.1", "10.0.0.2", "10.0.0.3", "::1"])
        var book = AddressBook()
        var used: [String] = []
        for turn in 0..<6 {
            let first = try #require(book.ordered(found, turn: turn).first)
            book.acquire(first)
            used.append(first.host)
        }
        #expect(used.sorted() == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.3"])
        book.release(found[1])
        #expect(book.ordered(found, turn: 0).map(\.host) == ["10.0.0.2", "10.0.0.1", "10.0.0.3", "::1"])
        #expect(book.ordered([], turn: 3).isEmpty)
    }
}
