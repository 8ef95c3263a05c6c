// The one place where the command line meets the pipeline.

import APNs
import Pipeline
import PushModel
import PushStore
import TLS
import Telemetry

extension WorkerPlan {
    /// Runs the worker until it ends; `facts` is what the checks at start have found.
    func run(_ facts: DatabaseFacts) throws -> ExitCode {
        var tokens = ProviderTokens(logger: logger.child("apns"), clockOffset: facts.clockOffset)
        let routes = try push.apps.map { app in
            AppRoute(
                served: ServedApp(name: app.name, maxLateness: app.maxLateness), ways: try ways(of: app, &tokens),
                bundleID: app.credentials.bundleID)
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

extension WorkerPlan {
    private func ways(
        of app: AppSettings, _ tokens: inout ProviderTokens
    ) throws -> [PushEnvironment: AppWay] {
        var ways: [PushEnvironment: AppWay] = [:]
        for environment in [PushEnvironment.production, .sandbox] {
            guard let credential = app.credentials[environment] else { continue }
            guard let tls = contexts[TLSFace(app, credential)] else {
                preconditionFailure("the context of each credential is loaded")
            }
            let token = try credential.key.map { key throws in try tokens.token(for: key) }
            ways[environment] = AppWay(endpoint: app.hosts[environment], tls: tls, token: token)
        }
        return ways
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
