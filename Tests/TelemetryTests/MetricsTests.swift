// Metrics: cells of several holders become one series, and the text is what Prometheus reads.

import Telemetry
import Testing

extension CounterMetric {
    fileprivate static let things = CounterMetric("things_total", help: "Things\nthat happened.")
}
extension GaugeMetric {
    fileprivate static let depth = GaugeMetric("depth", help: "Depth.")
    fileprivate static let oldest = GaugeMetric("oldest", help: "Oldest.", merge: .maximum)
    fileprivate static let least = GaugeMetric("least", help: "Least.", merge: .minimum)
}
extension HistogramMetric {
    fileprivate static let time = HistogramMetric("time_seconds", help: "Time.", bounds: [1, 0.5])
}

@Suite struct MetricsTests {
    @Test func cellsOfOneSeriesAreSummed() {
        let registry = MetricsRegistry()
        let first = registry.counter(.things, ["kind": "a"])
        let second = registry.counter(.things, ["kind": "a"])
        let other = registry.counter(.things, ["kind": "A\"\\\n"])
        first.increment()
        second.increment(by: 41)
        second.increment(by: -5)
        other.increment()
        #expect(
            registry.prometheusText() == """
                # HELP things_total Things that happened.
                # TYPE things_total counter
                things_total{kind="A\\"\\\\\\n"} 1
                things_total{kind="a"} 42

                """)
    }

    @Test func gaugesMergeAsTheirMetricSays() {
        let registry = MetricsRegistry()
        for metric in [GaugeMetric.depth, .oldest, .least] {
            registry.gauge(metric).set(2)
            registry.gauge(metric).set(0.5)
        }
        registry.gauge(.depth) { 10 }
        registry.gauge(.depth, ["x": "y"]) { nil }
        let text = registry.prometheusText()
        #expect(text.contains("\ndepth 12.5\n"))
        #expect(text.contains("\noldest 2\n"))
        #expect(text.contains("\nleast 0.5\n"))
        #expect(!text.contains("depth{"))
    }

    @Test func oddNumbersAreSpelledAsPrometheusDoes() {
        let registry = MetricsRegistry()
        let gauge = registry.gauge(.depth)
        for (value, text) in [
            (Double.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN"), (1e300, "1e+300"), (-3, "-3"),
        ] as [(Double, String)] {
            gauge.set(value)
            #expect(registry.prometheusText().hasSuffix("\ndepth \(text)\n"))
        }
        gauge.set(1)
        gauge.add(-0.25)
        #expect(gauge.value == 0.75)
    }

    @Test func histogramsAreCumulative() {
        let registry = MetricsRegistry()
        let one = registry.histogram(.time, ["a": "b"])
        let two = registry.histogram(.time, ["a": "b"])
        one.observe(0.5)
        one.observe(Duration.milliseconds(750))
        two.observe(7)
        two.observe(.nan)
        #expect(
            registry.prometheusText() == """
                # HELP time_seconds Time.
                # TYPE time_seconds histogram
                time_seconds_bucket{a="b",le="0.5"} 1
                time_seconds_bucket{a="b",le="1"} 2
                time_seconds_bucket{a="b",le="+Inf"} 3
                time_seconds_sum{a="b"} 8.25
                time_seconds_count{a="b"} 3

                """)
    }

    @Test func oneNameForTwoKindsIsReported() {
        let registry = MetricsRegistry()
        registry.gauge(.depth).set(1)
        registry.counter(CounterMetric("depth", help: "?")).increment()
        #expect(registry.conflicts == ["depth"])
        #expect(registry.prometheusText().hasSuffix("\ndepth 1\n"))
    }

    @Test func tablesOfCountersAreBounded() {
        let registry = MetricsRegistry()
        let table = CounterTable<String>(registry, .things, limit: 2, fallback: ["kind": "other"]) {
            MetricLabels([("kind", $0)])
        }
        for key in ["a", "b", "c", "d", "a"] { table[key].increment() }
        let text = registry.prometheusText()
        #expect(text.contains("{kind=\"a\"} 2\n"))
        #expect(text.contains("{kind=\"b\"} 1\n"))
        #expect(text.contains("{kind=\"other\"} 2\n"))
        #expect(!text.contains("kind=\"c\""))
    }

    @Test func seriesThatComeAndGoAreReadEachTime() {
        let registry = MetricsRegistry()
        let shown = Lock([("a", 1.0), ("b", 2.0)])
        registry.gauges(.oldest) { shown.withLock { $0 }.map { (["kind": $0.0], $0.1) } }
        registry.gauges(.oldest) { [(["kind": "a"], 3)] }
        registry.counter(.things, ["kind": "a"]).increment()
        registry.counters(.things) { [(["kind": "a"], 41), (["kind": "c"], 5)] }
        var text = registry.prometheusText()
        #expect(text.contains("\noldest{kind=\"a\"} 3\noldest{kind=\"b\"} 2\n"))
        #expect(text.contains("\nthings_total{kind=\"a\"} 42\nthings_total{kind=\"c\"} 5\n"))
        shown.withLock { $0 = [] }
        text = registry.prometheusText()
        #expect(text.contains("\noldest{kind=\"a\"} 3\n") && !text.contains("\"b\""))
    }

    @Test func aMetricWithoutSeriesIsShownByItsNameAlone() {
        let registry = MetricsRegistry()
        registry.counters(CounterMetric("none_total", help: "A \\ and\na break.")) { [] }
        #expect(
            registry.prometheusText() == "# HELP none_total A \\\\ and a break.\n# TYPE none_total counter\n")
    }

    @Test func labelsAreCutByScalars() {
        let registry = MetricsRegistry()
        // One character for a reader, and as long as its sender likes.
        let zalgo = "e" + String(repeating: "\u{301}", count: 5000)
        registry.gauge(.depth, ["kind": zalgo]).set(1)
        #expect(registry.prometheusText().unicodeScalars.count < 250)
    }

    @Test func countingFromManyTasksLosesNothing() async {
        let registry = MetricsRegistry()
        let shared = registry.gauge(.depth)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let counter = registry.counter(.things)
                    for _ in 0..<1000 {
                        counter.increment()
                        shared.add(1)
                    }
                }
            }
        }
        #expect(registry.prometheusText().contains("\nthings_total 8000\n"))
        #expect(shared.value == 8000)
    }
}

@Suite struct LockTests {
    @Test func excludes() async {
        let lock = Lock(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { for _ in 0..<2000 { lock.withLock { $0 += 1 } } }
            }
        }
        #expect(lock.withLock { $0 } == 16_000)
    }
}
