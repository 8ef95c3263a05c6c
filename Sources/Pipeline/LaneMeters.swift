// What one loop counts under labels. Each has cells of its own, so that counting touches no cache line of another core; they are
// summed when somebody asks.

import Postgres
import PushModel
import PushStore
import Reactor
import Telemetry

/// Failed calls to the database by their kind; loop-confined.
final class DatabaseErrorMeter {
    private struct Kind: Hashable {
        let code: PostgresError.Code
        let sqlState: String
    }

    private let table: CounterTable<Kind>

    init(_ registry: MetricsRegistry) {
        table = CounterTable(registry, .databaseErrors, fallback: Self.labels("other", ReasonLabel.other)) { kind in
            Self.labels(kind.code.rawValue, kind.sqlState.isEmpty ? ReasonLabel.none : kind.sqlState)
        }
    }

    func count(_ error: PostgresError) { table[Kind(code: error.code, sqlState: error.sqlState)].increment() }

    private static func labels(_ code: String, _ sqlState: String) -> MetricLabels {
        ["code": code, "sqlstate": sqlState]
    }
}

/// The labelled counts of a lane; loop-confined.
final class LaneMeters {
    private let registry: MetricsRegistry
    private let pushes: CounterTable<PushSeries>
    private let errors: DatabaseErrorMeter
    private var lags: [String: Histogram] = [:]

    init(_ registry: MetricsRegistry) {
        self.registry = registry
        errors = DatabaseErrorMeter(registry)
        let other = ReasonLabel.other
        // A bound that lists of reasons and apps cannot reach by themselves.
        pushes = CounterTable(
            registry, .pushes, limit: 10_000,
            fallback: ["app": other, "environment": other, "outcome": other, "status": other, "reason": other]
        ) { series in
            [
                "app": series.app, "environment": series.environment.rawValue, "outcome": series.outcome.rawValue,
                "status": series.status, "reason": series.reason,
            ]
        }
    }

    /// The database has taken a report; to be called before the unit is told.
    func settled(_ report: UnitReport) {
        for (series, count) in PushTally(report).counts { pushes[series].increment(by: count) }
        guard report.checkpoint == nil, report.unit.hasAcceptance, let last = report.unit.settlement.lastAcceptance
        else { return }
        let accepted = DatabaseClock.unixMicroseconds - MonotonicTime.now().since(last).wholeNanoseconds / 1000
        // Clocks that differ a little must not make it negative.
        lag(of: report.unit.work.content.app).observe(max(0, Double(accepted - report.unit.work.dueTime) / 1e6))
    }

    /// A call to the database has failed.
    func failed(_ error: PostgresError) { errors.count(error) }

    private func lag(of app: String) -> Histogram {
        if let known = lags[app] { return known }
        let histogram = registry.histogram(.lag, ["app": app])
        lags[app] = histogram
        return histogram
    }
}
