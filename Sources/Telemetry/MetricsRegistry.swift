// Knows every series of the process and writes them as Prometheus text. Asking for a cell takes a lock and is done once by each
// holder at its start; counting takes none. Each call makes a new cell of the series, and the cells of one series are put together
// when the text is written: that is how each loop counts for itself.

/// All metrics of a process.
package final class MetricsRegistry: Sendable {
    /// Where a series gets its number from.
    enum Source: Sendable {
        case counter(Counter)
        case gauge(Gauge)
        case reading(@Sendable () -> Double?)
        case histogram(Histogram)
        /// A value that has just been read; never kept.
        case number(Double)
    }

    enum Kind: Sendable, Equatable {
        case counter
        case gauge(GaugeMetric.Merge)
        case histogram([Double])
    }

    struct Family: Sendable {
        let name: String
        let help: String
        let kind: Kind
        var series: [String: [Source]] = [:]
        /// Series that come and go, each with its labels.
        var readers: [@Sendable () -> [(labels: String, source: Source)]] = []
    }

    private struct State: Sendable {
        var families: [Family] = []
        var indexes: [String: Int] = [:]
        var conflicts: [String] = []
    }

    private let state = Lock(State())

    package init() {}

    /// A new cell of a counter's series.
    package func counter(_ metric: CounterMetric, _ labels: MetricLabels = .none) -> Counter {
        let cell = Counter()
        add(.counter(cell), metric.name, metric.help, .counter, labels)
        return cell
    }

    /// A new cell of a gauge's series.
    package func gauge(_ metric: GaugeMetric, _ labels: MetricLabels = .none) -> Gauge {
        let cell = Gauge()
        add(.gauge(cell), metric.name, metric.help, .gauge(metric.merge), labels)
        return cell
    }

    /// A gauge that is read when somebody asks, from any thread; nil leaves it out.
    package func gauge(
        _ metric: GaugeMetric, _ labels: MetricLabels = .none, reading: @escaping @Sendable () -> Double?
    ) {
        add(.reading(reading), metric.name, metric.help, .gauge(metric.merge), labels)
    }

    /// Series of a gauge that come and go, read when somebody asks, from any thread; those of one label become one as `merge` says.
    package func gauges(_ metric: GaugeMetric, reading: @escaping @Sendable () -> [(MetricLabels, Double)]) {
        add(metric.name, metric.help, .gauge(metric.merge)) { family in
            family.readers.append { reading().map { ($0.0.text, .number($0.1)) } }
        }
    }

    /// Series of a counter that somebody else counts, read when somebody asks, from any thread; those of one label are summed.
    ///
    /// With an empty answer the metric is shown by name and meaning alone.
    package func counters(_ metric: CounterMetric, reading: @escaping @Sendable () -> [(MetricLabels, Double)]) {
        add(metric.name, metric.help, .counter) { family in
            family.readers.append { reading().map { ($0.0.text, .number($0.1)) } }
        }
    }

    /// A new cell of a histogram's series.
    package func histogram(_ metric: HistogramMetric, _ labels: MetricLabels = .none) -> Histogram {
        let cell = Histogram(bounds: metric.bounds)
        add(.histogram(cell), metric.name, metric.help, .histogram(metric.bounds), labels)
        return cell
    }

    /// Names that were used for two different kinds of metric; the later ones are counted but not shown.
    package var conflicts: [String] { state.withLock { $0.conflicts } }

    /// Everything in the Prometheus text format 0.0.4.
    package func prometheusText() -> String {
        let families = state.withLock { $0.families }
        var text = ""
        for family in families { PrometheusText.append(family, to: &text) }
        return text
    }

    private func add(_ source: Source, _ name: String, _ help: String, _ kind: Kind, _ labels: MetricLabels) {
        add(name, help, kind) { $0.series[labels.text, default: []].append(source) }
    }

    private func add(_ name: String, _ help: String, _ kind: Kind, _ put: (inout Family) -> Void) {
        state.withLock { state in
            guard let index = state.indexes[name] else {
                state.indexes[name] = state.families.count
                var family = Family(name: name, help: help, kind: kind)
                put(&family)
                state.families.append(family)
                return
            }
            guard state.families[index].kind == kind else {
                if !state.conflicts.contains(name) { state.conflicts.append(name) }
                return
            }
            put(&state.families[index])
        }
    }
}

/// The counters of one holder under keys that are found at run time, such as a text from a peer.
///
/// At most `limit` series are made; what comes after is counted under the fallback labels, so that a peer cannot fill the
/// memory. Not shared between threads.
package final class CounterTable<Key: Hashable> {
    private let registry: MetricsRegistry
    private let metric: CounterMetric
    private let labels: (Key) -> MetricLabels
    private let limit: Int
    private var cells: [Key: Counter] = [:]
    private let fallbackLabels: MetricLabels
    private lazy var fallback = registry.counter(metric, fallbackLabels)

    package init(
        _ registry: MetricsRegistry, _ metric: CounterMetric, limit: Int = 200, fallback: MetricLabels,
        labels: @escaping (Key) -> MetricLabels
    ) {
        self.registry = registry
        self.metric = metric
        self.limit = limit
        self.labels = labels
        fallbackLabels = fallback
    }

    package subscript(key: Key) -> Counter {
        if let cell = cells[key] { return cell }
        guard cells.count < limit else { return fallback }
        let cell = registry.counter(metric, labels(key))
        cells[key] = cell
        return cell
    }
}
