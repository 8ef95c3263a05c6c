// The one place where the command line meets the pipeline.

import APNs
import Pipeline
import PushStore
import TLS
import Telemetry

extension WorkerPlan {
    /// Runs the worker until it ends; `facts` is what the checks at start have found.
    func run(_ facts: DatabaseFacts) throws -> ExitCode {
        var tokens = ProviderTokens(logger: logger.child("apns"), clockOffset: facts.clockOffset)
        let routes = try push.apps.map { app in
            guard let tls = trusts[app.trust.path] else { preconditionFailure("the trust of each app is loaded") }
            return AppRoute(
                served: ServedApp(name: app.name, maxLateness: app.maxLateness), hosts: app.hosts, tls: tls,
                token: try tokens.token(for: app.credentials.key), bundleID: app.credentials.bundleID)
        }
        var settings = WorkerSettings(
            database: database, listenDatabase: listenDatabase, schema: schema, routes: routes,
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
                .pushServiceUnreachable, "Apple's service could not be reached, or fails; what is due stays due",
                hint: "'pgpush doctor' tells what is in the way")
        }
    }
}

/// One provider token for each key: Apple counts them, so apps with the same key share it.
struct ProviderTokens {
    let logger: Logger
    let clockOffset: Duration
    private var made: [String: ProviderToken] = [:]

    init(logger: Logger, clockOffset: Duration) {
        self.logger = logger
        self.clockOffset = clockOffset
    }

    /// The token of a key, which is signed here for the first time.
    mutating func token(for key: APNsKey) throws -> ProviderToken {
        // Two keys of one id would be a mistake that must not be hidden by signing with the first.
        let name = "\(key.teamID) \(key.keyID) \(try key.privateKey.publicKey.pem)"
        if let token = made[name] { return token }
        let token = ProviderToken(key: key, logger: logger)
        // Before the first one is made, since it would be kept for most of an hour.
        token.setClockOffset(clockOffset)
        do throws(APNsError) {
            try token.prepare()
        } catch {
            throw CommandFailure(error)
        }
        made[name] = token
        return token
    }
}
