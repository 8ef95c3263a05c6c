// The keys under which this module's records carry their data.

import Telemetry

extension LogKey {
    static let app = LogKey("app.name")
    static let environment = LogKey("app.environment")
    static let topic = LogKey("app.topic")
    static let reason = LogKey("reason")
    static let certificate = LogKey("certificate.fingerprint")
    static let daysLeft = LogKey("certificate.days_left")
    static let status = LogKey("http.status")
    static let omitted = LogKey("records.omitted")
    static let notification = LogKey("notification.id")
    static let units = LogKey("units.count")
    static let sqlState = LogKey("db.sqlstate")
    static let accepted = LogKey("pushes.accepted")
    static let notAccepted = LogKey("pushes.not_accepted")
    static let unanswered = LogKey("pushes.unanswered")
    static let fenced = LogKey("units.fenced")
    static let retired = LogKey("devices.retired")
    static let requeued = LogKey("devices.requeued")
    static let droppedProposals = LogKey("proposals.dropped")
    static let lanes = LogKey("worker.lanes")
    static let owner = LogKey("worker.owner")
    static let failures = LogKey("gateway.failures")
    static let results = LogKey("gateway.results")
    static let probes = LogKey("gateway.probes")
    static let seconds = LogKey("gateway.failing_seconds")
    static let signal = LogKey("signal")
    static let grace = LogKey("grace.seconds")
}
