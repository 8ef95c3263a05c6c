// What metrics count of a unit, over its checkpoints and its end together, is what the tables say: each device once.

import HTTP2
import PushModel
import PushStore
import Reactor
import Telemetry
import Testing

@testable import Pipeline

@Suite("A tally") struct TallyTests {
    private func unit(production: ClosedRange<Int64>, sandbox: ClosedRange<Int64>? = nil, batch: Int32 = 1)
        -> UnitInWork
    {
        var random = SystemRandomNumberGenerator()
        func part(_ environment: PushEnvironment, _ ids: ClosedRange<Int64>) -> UnitDevices {
            let tokens = ids.map { "\($0 + 10_000_000)" }.joined(separator: " ")
            return UnitDevices(environment: environment, ids: Array(ids), tokens: Array(tokens.utf8))
        }
        let work = WorkUnit(
            key: UnitKey(notification: 7, batch: batch, epoch: 1), attempt: 1,
            content: PushContent(notificationID: 7, app: "shop", pushType: .alert, priority: 10, payload: []),
            dueTime: DatabaseClock.unixMicroseconds - 2_000_000, atMostOnce: false)
        let unit = UnitInWork(
            work: work,
            devices: [part(.production, production)] + (sandbox.map { [part(.sandbox, $0)] } ?? []), claimed: .now(),
            lease: LeaseClock(asked: BootTime(nanoseconds: 0), rules: LeaseRules(), using: &random), isProbe: false,
            topic: "t", pathPrefix: "/3/device/", head: HTTP2RequestHead(fields: [], body: []))
        for place in unit.segments.indices {
            while unit.segments[place].takeNext() != nil { unit.handedToWire() }
        }
        return unit
    }

    private func series(
        _ environment: PushEnvironment, _ outcome: PushOutcome, _ status: String, _ reason: String
    ) -> PushSeries {
        PushSeries(app: "shop", environment: environment, outcome: outcome, status: status, reason: reason)
    }

    @Test("counts by environment, outcome and reason what a unit has to say at its end")
    func whole() {
        let unit = unit(production: 1...5, sandbox: 6...8, batch: 0)
        for index in [0, 1, 6, 7] { unit.accept(index) }
        unit.fail(2, 410, "Unregistered", isFinal: true)
        unit.fail(3, 503, "HTTP 503", isFinal: false)
        unit.fail(4, 0, "NoAnswer", isFinal: true, isUnknown: true)
        unit.fail(5, 400, "somebody@example.org", isFinal: true)
        #expect(unit.isEnded)
        #expect(
            PushTally(UnitReport(endOf: unit)).counts == [
                series(.production, .accepted, "200", "none"): 2,
                series(.sandbox, .accepted, "200", "none"): 2,
                series(.production, .rejected, "410", "Unregistered"): 1,
                series(.production, .retried, "503", "none"): 1,
                series(.production, .unknown, "none", "NoAnswer"): 1,
                series(.sandbox, .rejected, "400", "other"): 1,
            ])
    }

    @Test("counts no device twice, whatever checkpoints there are", arguments: [[], [2], [1, 3, 4, 8, 10]])
    func checkpoints(stops: [Int]) {
        let unit = unit(production: 1...6, sandbox: 7...12)
        var sum: [PushSeries: Int] = [:]
        for (step, index) in (0..<12).enumerated() {
            switch index {
            case 3, 9: unit.fail(index, 410, "Unregistered", isFinal: true)
            case 5: unit.fail(index, 429, "TooManyRequests", isFinal: false)
            default: unit.accept(index)
            }
            guard stops.contains(step), let checkpoint = unit.checkpoint() else { continue }
            sum.merge(PushTally(UnitReport(checkpoint, of: unit)).counts, uniquingKeysWith: +)
            unit.settled(checkpoint)
        }
        sum.merge(PushTally(UnitReport(endOf: unit)).counts, uniquingKeysWith: +)
        #expect(
            sum == [
                series(.production, .accepted, "200", "none"): 4, series(.sandbox, .accepted, "200", "none"): 5,
                series(.production, .rejected, "410", "Unregistered"): 1,
                series(.sandbox, .rejected, "410", "Unregistered"): 1,
                series(.production, .retried, "429", "TooManyRequests"): 1,
            ])
    }

    @Test("counts what was written without its rows in the ledger, too")
    func stripped() {
        let unit = unit(production: 1...3)
        unit.accept(0)
        for index in 1...2 { unit.fail(index, 410, "Unregistered", isFinal: true) }
        var report = UnitReport(endOf: unit)
        report.settlement.failures = []
        #expect(
            PushTally(report).counts == [
                series(.production, .accepted, "200", "none"): 1, series(.production, .rejected, "none", "other"): 2,
            ])
    }

    @Test("goes into the metrics with the lag, once for a unit of which any was accepted")
    func meters() {
        let registry = MetricsRegistry()
        let meters = LaneMeters(registry)
        let good = unit(production: 1...2, batch: 0)
        for index in 0...1 { good.accept(index) }
        meters.settled(UnitReport(endOf: good))
        let bad = unit(production: 1...1, batch: 0)
        bad.fail(0, 410, "Unregistered", isFinal: true)
        meters.settled(UnitReport(endOf: bad))
        let text = registry.prometheusText()
        let labels = "app=\"shop\",environment=\"production\""
        #expect(
            text.contains("{\(labels),outcome=\"accepted\",status=\"200\",reason=\"none\"} 2\n")
                && text.contains("{\(labels),outcome=\"rejected\",status=\"410\",reason=\"Unregistered\"} 1\n"),
            "\(text)")
        // It fell due two seconds before.
        #expect(
            text.contains("pgpush_delivery_lag_seconds_bucket{app=\"shop\",le=\"1\"} 0\n")
                && text.contains("pgpush_delivery_lag_seconds_bucket{app=\"shop\",le=\"60\"} 1\n")
                && text.contains("pgpush_delivery_lag_seconds_count{app=\"shop\"} 1\n"), "\(text)")
    }
}

extension UnitInWork {
    fileprivate func accept(_ index: Int) {
        settlement.accepted += 1
        settlement.lastAcceptance = .now()
        decided(index, .accepted)
    }

    fileprivate func fail(_ index: Int, _ status: Int, _ reason: String, isFinal: Bool, isUnknown: Bool = false) {
        if isUnknown { settlement.unknown += 1 } else if isFinal { settlement.rejected += 1 }
        settlement.failures.append(
            DeviceFailure(
                device: device(index), token: token(index), environment: environment(of: index), status: status,
                reason: reason, isFinal: isFinal, time: claimed))
        if !isFinal {
            addRequeue(Requeue(state: .ready, isCharged: true, delay: .seconds(5)), devices: [device(index)])
        }
        decided(index, isUnknown ? .unknown : isFinal ? .rejected : .moved)
    }
}
