// From settings to the ways to Apple, at the start and whenever credentials are read again. What has not changed is the same object as
// before: Apple counts provider tokens and connections, so a reload must not make new ones without need.

import APNs
import Pipeline
import PushModel
import PushStore
import TLS
import Telemetry

/// The ways of all apps; keeps what was made.
final class RouteBook: Sendable {
    private struct State: Sendable {
        /// One token for each key: apps with the same key share it.
        var tokens: [String: ProviderToken] = [:]
        /// Apps that trust the same and show the same certificate share one.
        var contexts: [TLSFace: TLSClientContext] = [:]
        /// Those that the apps have now.
        var used: Set<TLSFace> = []
    }

    private let logger: Logger
    private let clockOffset: Duration
    private let state = Lock(State())

    /// `clockOffset`: how far the database's clock is ahead.
    init(logger: Logger, clockOffset: Duration) {
        self.logger = logger
        self.clockOffset = clockOffset
    }

    /// The ways of these apps.
    ///
    /// - Throws: `CommandFailure` when a credential or a bundle of authorities cannot be used; nothing has changed then.
    func routes(_ apps: [AppSettings]) throws -> [AppRoute] {
        var next = state.withLock { $0 }
        next.used = []
        let routes = try apps.map { app in
            AppRoute(
                served: ServedApp(name: app.name, maxLateness: app.maxLateness),
                ways: try ways(of: app, &next) { app.hosts[$0] },
                channelWays: try ways(of: app, &next) { environment in
                    let endpoint = app.hosts.broadcast(environment)
                    return endpoint == app.hosts[environment] ? nil : endpoint
                },
                bundleID: app.credentials.bundleID)
        }
        // Tokens stay: Apple wants to meet the same one again when an app goes back to a former key.
        next.contexts = next.contexts.filter { next.used.contains($0.key) }
        state.withLock { [next] in $0 = next }
        return routes
    }

    /// The ways to the endpoints of an app's environments, where there is a credential and `endpoint` names one.
    private func ways(
        of app: AppSettings, _ state: inout State, to endpoint: (PushEnvironment) -> APNsEndpoint?
    ) throws -> [PushEnvironment: AppWay] {
        var ways: [PushEnvironment: AppWay] = [:]
        for environment in PushEnvironment.allCases {
            guard let credential = app.credentials[environment], let endpoint = endpoint(environment) else { continue }
            ways[environment] = AppWay(
                endpoint: endpoint, proxy: app.proxy, tls: try context(for: app, credential, &state),
                token: try credential.key.map { key throws in try token(for: key, &state) },
                certificate: credential.certificate)
        }
        return ways
    }

    private func context(
        for app: AppSettings, _ credential: APNsCredential, _ state: inout State
    ) throws -> TLSClientContext {
        let face = try TLSFace(app.trust, credential.certificate)
        state.used.insert(face)
        if let known = state.contexts[face] { return known }
        let context = try app.trust.load(credential.certificate?.identity)
        state.contexts[face] = context
        return context
    }

    private func token(for key: APNsKey, _ state: inout State) throws -> ProviderToken {
        // Two keys of one id would be a mistake that must not be hidden by signing with the first.
        let name = "\(key.teamID) \(key.keyID) \(try key.privateKey.publicKey.pem)"
        if let known = state.tokens[name] { return known }
        let token = ProviderToken(key: key, logger: logger)
        // Before the first one is made, since it would be kept for most of an hour.
        token.setClockOffset(clockOffset)
        do throws(APNsError) {
            try token.prepare()
        } catch {
            throw CommandFailure(error)
        }
        state.tokens[name] = token
        return token
    }
}

/// What decides about a TLS context: whom it trusts, and what it shows.
private struct TLSFace: Hashable {
    /// The contents of the bundle of trusted authorities, nil for the system's.
    let trust: [UInt8]?
    /// The fingerprint of the client certificate and those above it: a mended chain is shown from the next reload on.
    let certificate: String?

    init(_ trust: TrustStore, _ certificate: APNsCertificate?) throws {
        self.trust = try trust.digest()
        self.certificate = certificate?.identity.chainFingerprint
    }
}
