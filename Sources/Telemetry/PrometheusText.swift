// Writes one family of series in the Prometheus text format 0.0.4; series are sorted by their labels, so that the text is stable.

enum PrometheusText {
    static func append(_ family: MetricsRegistry.Family, to text: inout String) {
        let help = family.help.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: " ")
        text += "# HELP \(family.name) \(help)\n# TYPE \(family.name) \(typeName(family.kind))\n"
        for (labels, sources) in family.series.sorted(by: { $0.key < $1.key }) {
            switch family.kind {
            case .counter: appendCounter(family.name, labels, sources, to: &text)
            case .gauge(let merge): appendGauge(family.name, labels, sources, merge, to: &text)
            case .histogram(let bounds): appendHistogram(family.name, labels, sources, bounds, to: &text)
            }
        }
    }

    private static func typeName(_ kind: MetricsRegistry.Kind) -> String {
        switch kind {
        case .counter: "counter"
        case .gauge: "gauge"
        case .histogram: "histogram"
        }
    }

    private static func appendCounter(
        _ name: String, _ labels: String, _ sources: [MetricsRegistry.Source], to text: inout String
    ) {
        var total: UInt64 = 0
        for case .counter(let cell) in sources { total &+= cell.value }
        text += "\(name)\(braced(labels)) \(total)\n"
    }

    private static func appendGauge(
        _ name: String, _ labels: String, _ sources: [MetricsRegistry.Source], _ merge: GaugeMetric.Merge,
        to text: inout String
    ) {
        var values: [Double] = []
        for source in sources {
            switch source {
            case .gauge(let cell): values.append(cell.value)
            case .reading(let read): if let value = read() { values.append(value) }
            case .counter, .histogram: break
            }
        }
        guard let first = values.first else { return }
        let merged =
            switch merge {
            case .sum: values.reduce(0, +)
            case .maximum: values.reduce(first, max)
            case .minimum: values.reduce(first, min)
            }
        text += "\(name)\(braced(labels)) \(number(merged))\n"
    }

    private static func appendHistogram(
        _ name: String, _ labels: String, _ sources: [MetricsRegistry.Source], _ bounds: [Double],
        to text: inout String
    ) {
        var counts = [UInt64](repeating: 0, count: bounds.count + 1)
        var sum = 0.0
        for case .histogram(let cell) in sources {
            let snapshot = cell.snapshot
            sum += snapshot.sum
            for (index, count) in snapshot.counts.enumerated() where index < counts.count { counts[index] &+= count }
        }
        let prefix = labels.isEmpty ? "" : labels + ","
        var cumulative: UInt64 = 0
        for (index, count) in counts.enumerated() {
            cumulative &+= count
            let bound = index < bounds.count ? number(bounds[index]) : "+Inf"
            text += "\(name)_bucket{\(prefix)le=\"\(bound)\"} \(cumulative)\n"
        }
        text += "\(name)_sum\(braced(labels)) \(number(sum))\n\(name)_count\(braced(labels)) \(cumulative)\n"
    }

    private static func braced(_ labels: String) -> String { labels.isEmpty ? "" : "{\(labels)}" }

    /// Whole numbers without a fraction, others in the shortest form that reads back the same.
    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value) { return String(whole) }
        return String(value)
    }
}
