// What is counted. A metric is described once, as a static member of one of these types, so that all metrics of a program can be
// found in one catalogue; a series of it is a metric with labels, whose text is rendered once.

/// Description of a number that only grows; the name ends in `_total`.
package struct CounterMetric: Sendable, Hashable {
    package let name: String
    package let help: String

    package init(_ name: String, help: String) {
        self.name = name
        self.help = help
    }
}

/// Description of a number that goes up and down.
package struct GaugeMetric: Sendable, Hashable {
    /// How the cells of one series become one number.
    package enum Merge: Sendable { case sum, maximum, minimum }

    package let name: String
    package let help: String
    package let merge: Merge

    package init(_ name: String, help: String, merge: Merge = .sum) {
        self.name = name
        self.help = help
        self.merge = merge
    }
}

/// Description of a distribution.
package struct HistogramMetric: Sendable, Hashable {
    /// Upper bounds of a request's time in seconds, 1 ms to 30 s.
    package static let seconds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ]

    package let name: String
    package let help: String
    /// Upper bounds, ascending, without infinity.
    package let bounds: [Double]

    package init(_ name: String, help: String, bounds: [Double] = HistogramMetric.seconds) {
        self.name = name
        self.help = help
        self.bounds = bounds.filter(\.isFinite).sorted()
    }
}

/// Labels of a series, rendered once: `app="x",host="y"`.
package struct MetricLabels: Sendable, Hashable, ExpressibleByDictionaryLiteral {
    let text: String

    /// No labels.
    package static let none: MetricLabels = [:]

    package init(dictionaryLiteral elements: (StaticString, String)...) {
        self.init(elements)
    }

    /// Labels in the given order; values may hold anything and are cut at 128 Unicode scalars.
    package init(_ pairs: [(StaticString, String)]) {
        text = pairs.map { "\($0.0)=\"\(MetricLabels.escaped($0.1))\"" }.joined(separator: ",")
    }

    private static func escaped(_ value: String) -> String {
        var result = ""
        for character in value.unicodeScalars.prefix(128) {
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            case _ where character.value < 0x20: result += " "
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }
}
