// The one place where the command line meets the pipeline.

import APNs
import Pipeline
import PushStore
import Telemetry

extension WorkerPlan {
    /// Runs the worker until it ends; `facts` is what the checks at start have found.
    func run(_ facts: DatabaseFacts) throws -> ExitCode {
        let token = ProviderToken(key: push.credentials.key, logger: logger.child("apns"))
        // Before the first one is made, since it would be kept for most of an hour.
        token.setClockOffset(facts.clockOffset)
        do throws(APNsError) {
            try token.prepare()
        } catch {
            throw CommandFailure(error)
        }
        let route = AppRoute(
            served: ServedApp(name: "default"), hosts: push.hosts, tls: tls, token: token,
            bundleID: push.credentials.bundleID)
        var settings = WorkerSettings(
            database: database, listenDatabase: listenDatabase, schema: schema, routes: [route],
            version: Version.text)
        settings.once = once
        settings.pollInterval = pollInterval
        settings.batchSize = batchSize
        settings.lanes = lanes
        settings.connections = connections
        settings.grace = grace
        settings.clockOffset = facts.clockOffset
        switch try Worker.run(settings, logger: logger) {
        case .done: return .done
        case .unreachable:
            throw CommandFailure(
                .pushServiceUnreachable, "Apple's service could not be reached; what is due stays due",
                hint: "'pgpush doctor' tells what is in the way")
        }
    }
}
