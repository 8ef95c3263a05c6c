// The checks of doctor in the order in which they depend on one another.

import Postgres
import PushStore
import Reactor
import TLS

/// Runs all checks; each reports as soon as it has ended.
struct Doctor {
    let call: Invocation

    private var settings: Settings { Settings(environment: call.environment) }

    /// Runs the checks and returns them.
    func run(_ report: (Check) -> Void) -> [Check] {
        var checks: [Check] = []
        func add(_ found: [Check]) {
            found.forEach(report)
            checks += found
        }
        add(credentials())
        add(database())
        add(appleService())
        return checks
    }

    // MARK: Key

    private func credentials() -> [Check] {
        do throws(ConfigurationError) {
            let push = try PushSettings(settings)
            return [try Credentials.check(push)]
        } catch {
            return [.fail("key", error)]
        }
    }

    // MARK: Database

    private func database() -> [Check] {
        do {
            let database = try call.databaseSettings()
            let wanted = try EnvironmentChoice.read(settings)
            let found = try call.withSession(database.connectionString, database.schema) { session, _ in
                try await Examination.run(session, database.schema)
            }
            return DatabaseChecks(found: found, wantedEnvironment: wanted).all
        } catch {
            return [.fail("database", CommandFailure(any: error))]
        }
    }

    // MARK: Apple

    private func appleService() -> [Check] {
        do throws(ConfigurationError) {
            let addresses = try PushAddresses(settings)
            let trust = TrustStore(path: addresses.trustBundlePath, environment: call.environment)
            let (check, context) = trust.check()
            guard let context else { return [check] }
            return [check] + probe([("production", addresses.production), ("sandbox", addresses.sandbox)], context)
        } catch {
            return [.fail("addresses", error)]
        }
    }

    private func probe(_ hosts: [(String, Endpoint)], _ context: TLSClientContext) -> [Check] {
        do {
            let loop = try EventLoop(name: "doctor")
            try loop.start()
            defer {
                loop.stop()
                loop.join()
            }
            return try loop.runBlocking { _ in
                var checks: [Check] = []
                for (name, endpoint) in hosts {
                    checks.append(Self.check(name, await TLSProbe.run(endpoint, context: context, loop: loop)))
                }
                return checks
            }
        } catch {
            return [.fail("reachability", CommandFailure(any: error))]
        }
    }

    private static func check(_ name: String, _ result: Result<ProbeReport, ProbeFailure>) -> Check {
        switch result {
        case .success(let report) where report.alpn == "h2":
            return .ok(
                name, "\(report.address) answers in \(report.milliseconds) ms with \(report.tlsVersion) and HTTP/2")
        case .success(let report):
            return .fail(
                name, "\(report.address) does not speak HTTP/2 (\(report.alpn ?? "no ALPN"))",
                remedy: "something between here and Apple answers in its place: connect directly",
                .pushServiceUnreachable)
        case .failure(let failure):
            return .fail(name, failure.message, remedy: failure.remedy, .pushServiceUnreachable)
        }
    }
}
