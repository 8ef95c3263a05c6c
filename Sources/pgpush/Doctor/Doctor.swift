// The checks of doctor in the order in which they depend on one another.

import APNs
import Postgres
import PushModel
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
        let problems = CredentialLoader.problems(call.environment)
        if !problems.isEmpty {
            return problems.map { .fail("credentials", $0.description, remedy: nil, .configuration) }
        }
        do throws(CommandFailure) {
            let credentials = try PushSettings(call.environment).credentials
            let text =
                "P-256 key \(credentials.key.keyID) of team \(credentials.key.teamID) for \(credentials.bundleID)"
            guard let advice = CredentialLoader.advice(call.environment) else { return [.ok("credentials", text)] }
            return [.warn("credentials", text, remedy: advice)]
        } catch {
            return [.fail("credentials", error)]
        }
    }

    // MARK: Database

    private func database() -> [Check] {
        do {
            let database = try call.databaseSettings()
            let wanted = try PushSettings.defaultEnvironment(settings)
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
        do throws(APNsError) {
            let hosts = try APNsHosts(call.environment)
            let (check, context) = TrustStore(call.environment).check()
            guard let context else { return [check] }
            return [check] + probe([("production", hosts.production), ("sandbox", hosts.sandbox)], context)
        } catch {
            return [.fail("addresses", CommandFailure(error))]
        }
    }

    private func probe(_ hosts: [(String, APNsEndpoint)], _ context: TLSClientContext) -> [Check] {
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
