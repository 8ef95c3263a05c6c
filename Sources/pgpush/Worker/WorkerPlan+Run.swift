// The one place where the command line meets the pipeline.

import APNs
import Pipeline
import PushStore
import TLS
import Telemetry

extension WorkerPlan {
    /// Begins to serve metrics and health, if they are wanted.
    func openAdmin() throws(ConfigurationError) -> WorkerAdmin? {
        guard let http else { return nil }
        return try WorkerAdmin(http, logger: logger)
    }

    /// Runs the worker until it ends; `facts` is what the checks at start have found.
    func run(_ facts: DatabaseFacts, metrics: WorkerMetrics?) throws -> ExitCode {
        let routes = RouteBook(logger: logger.child("apns"), clockOffset: facts.clockOffset)
        var settings = WorkerSettings(
            database: database, listenDatabase: listenDatabase, schema: schema, routes: try routes.routes(push.apps),
            version: Version.text)
        settings.once = once
        settings.metrics = metrics
        settings.pollInterval = pollInterval
        settings.batchSize = batchSize
        settings.lanes = lanes
        settings.connections = connections
        settings.grace = grace
        settings.clockOffset = facts.clockOffset
        settings.reload = { [environment = variables] in try routes.routes(PushSettings(environment).apps) }
        switch try Worker.run(settings, logger: logger) {
        case .done: return .done
        case .unreachable:
            throw CommandFailure(
                .pushServiceUnreachable, "Apple's service could not be reached, or fails; what is due stays due",
                hint: "'pgpush doctor' tells what is in the way")
        }
    }
}
