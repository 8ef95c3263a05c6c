// What a settlement says about pushes, as numbers for the metrics. Counted when the database has taken it, so that metrics and tables
// agree, and once for each settlement: what was accepted is one number, only what was not has a row of its own.

import PushModel
import PushStore

/// What became of a push, as it is counted.
enum PushOutcome: String {
    case accepted, rejected, unknown
    /// It will be tried again.
    case retried
}

/// The labels of a count.
struct PushSeries: Hashable {
    let app: String
    let environment: PushEnvironment
    let outcome: PushOutcome
    /// As `ReasonLabel` gives it.
    let status: String
    /// As `ReasonLabel` gives it.
    let reason: String
}

/// Counts by labels.
struct PushTally {
    private(set) var counts: [PushSeries: Int] = [:]

    /// Counts what a report says; to be called before the unit is told that it was written.
    init(_ report: UnitReport) {
        let app = report.unit.work.content.app
        for (environment, count) in report.acceptances where count > 0 {
            let series = PushSeries(
                app: app, environment: environment, outcome: .accepted, status: "200", reason: ReasonLabel.none)
            counts[series, default: 0] += count
        }
        var unexplained = Int(report.settlement.rejected) + Int(report.settlement.unknown)
        for failure in report.settlement.failures {
            if failure.isFinal { unexplained -= 1 }
            counts[Self.series(app, failure), default: 0] += 1
        }
        // Of what was written without its rows in the ledger, since the database refused them, only the number is known.
        guard unexplained > 0, let first = report.unit.segments.first else { return }
        let series = PushSeries(
            app: app, environment: first.environment, outcome: .rejected, status: ReasonLabel.none,
            reason: ReasonLabel.other)
        counts[series, default: 0] += unexplained
    }

    private static func series(_ app: String, _ failure: DeviceFailure) -> PushSeries {
        let reason = ReasonLabel.push(status: failure.status, reason: failure.reason)
        // Written, and never answered; all else without a status was not sent.
        let isLost = failure.status == 0 && (reason == "NoAnswer" || reason == "ConnectionLost")
        return PushSeries(
            app: app, environment: failure.environment,
            outcome: !failure.isFinal ? .retried : isLost ? .unknown : .rejected,
            status: ReasonLabel.status(failure.status), reason: reason)
    }
}

extension UnitReport {
    /// How many devices were accepted in each environment.
    fileprivate var acceptances: [PushEnvironment: Int] {
        if unit.segments.count == 1 { return [unit.segments[0].environment: Int(settlement.accepted)] }
        var found: [PushEnvironment: Int] = [:]
        for (place, segment) in unit.segments.enumerated() {
            let end = checkpoint?.ends[place] ?? segment.range.upperBound
            let count = unit.marks[segment.unsettled..<end].count { $0 == .accepted }
            found[segment.environment, default: 0] += count
        }
        return found
    }
}
