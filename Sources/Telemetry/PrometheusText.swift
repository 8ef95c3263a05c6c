// Writes one family of series in the Prometheus text format 0.0.4; series are sorted by their labels, so that the text is stable.

enum PrometheusText {
    static func append(_ family: MetricsRegistry.Family, to text: inout String) {
        text += "# HELP \(family.name) \(escaped(family.help))\n# TYPE \(family.name) \(typeName(family.kind))\n"
        var series = family.series
        for read in family.readers {
            for (labels, source) in read() { series[labels, default: []].append(source) }
        }
        for (labels, sources) in series.sorted(by: { $0.key < $1.key }) {
            switch family.kind {
            case .counter: appendCounter(family.name, labels, sources, to: &text)
            case .gauge(let merge): appendGauge(family.name, labels, sources, merge, to: &text)
            case .histogram(let bounds): appendHistogram(family.name, labels, sources, bounds, to: &text)
            }
        }
    }

    /// A backslash is the only character that a help text escapes, besides the line break, for which a blank reads better.
    private static func escaped(_ help: String) -> String {
        var result = ""
        for scalar in help.unicodeScalars {
            switch scalar {
            case "\n": result += " "
            case "\\": result += "\\\\"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
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
        var read = 0.0
        for source in sources {
            switch source {
            case .counter(let cell): total &+= cell.value
            case .number(let value): read += value
            case .gauge, .reading, .histogram: break
            }
        }
        text += "\(name)\(braced(labels)) \(read == 0 ? String(total) : number(Double(total) + read))\n"
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
            case .number(let value): values.append(value)
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
