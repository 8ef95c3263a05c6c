// The checks of doctor in the order in which they depend on one another.

import APNs
import Admin
import HTTP2
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
        let drafts: [AppDraft]
        do throws(ConfigurationError) {
            drafts = try PushSettings.drafts(call.environment)
            if let path = settings["PGPUSH_CONFIG"] {
                add([
                    .ok("configuration", "\(path) describes \(drafts.count == 1 ? "one app" : "\(drafts.count) apps")")
                ])
            }
        } catch {
            drafts = []
            add([.fail("configuration", error)])
        }
        do throws(ConfigurationError) {
            if let address = try WorkerAdmin.address(settings) {
                add([.ok("metrics", "a worker serves /metrics, /healthz and /readyz at \(address)")])
            }
        } catch {
            add([.fail("metrics", error)])
        }
        for draft in drafts { add(credentials(draft, isOne: drafts.count == 1)) }
        add(database())
        add(appleService(drafts))
        return checks
    }

    // MARK: Key

    private func credentials(_ draft: AppDraft, isOne: Bool) -> [Check] {
        let name = isOne ? "credentials" : "credentials of \(draft.name)"
        let problems = draft.loaders.flatMap(\.problems)
        if !problems.isEmpty { return problems.map { .fail(name, $0.description, remedy: nil, .configuration) } }
        do throws(CommandFailure) {
            let app = try draft.load()
            let checks = CredentialChecks(name: name, credentials: app.credentials, now: SystemClock.unixSeconds).all
            let advice = draft.loaders.compactMap(\.advice)
            return checks + advice.map { .warn(name, "the key's file", remedy: $0) }
        } catch {
            return [.fail(name, error)]
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

    /// A gateway to try, and for whom.
    private struct Goal {
        let environment: PushEnvironment
        let endpoint: APNsEndpoint
        let trust: String?
        let proxy: HTTPProxy?
        var apps: [String]
    }

    private func appleService(_ drafts: [AppDraft]) -> [Check] {
        var checks: [Check] = []
        var contexts: [String?: TLSClientContext] = [:]
        var goals: [Goal] = []
        for draft in drafts {
            do throws(APNsError) {
                let hosts = try draft.hosts()
                let trust = draft.trust
                let proxy: HTTPProxy?
                do throws(ConfigurationError) {
                    proxy = try draft.proxy()
                } catch {
                    // Said by the check of the credentials.
                    continue
                }
                if contexts[trust.path] == nil {
                    let (check, context) = trust.check()
                    if !checks.contains(check) { checks.append(check) }
                    contexts[trust.path] = context
                }
                guard let context = contexts[trust.path] else { continue }
                if let missing = TrustStore.missingRoot(context, hosts), !checks.contains(missing) {
                    checks.append(missing)
                }
                for environment in PushEnvironment.allCases {
                    let (devices, channels) = (hosts[environment], hosts.broadcast(environment))
                    for endpoint in devices == channels ? [devices] : [devices, channels] {
                        Self.add(draft.name, environment, endpoint, trust.path, proxy, to: &goals)
                    }
                }
            } catch {
                checks.append(.fail("addresses", CommandFailure(error)))
            }
        }
        return checks + probe(goals, contexts)
    }

    /// Apps that go the same way are one goal.
    private static func add(
        _ app: String, _ environment: PushEnvironment, _ endpoint: APNsEndpoint, _ trust: String?,
        _ proxy: HTTPProxy?, to goals: inout [Goal]
    ) {
        let known = goals.firstIndex {
            $0.environment == environment && $0.endpoint == endpoint && $0.trust == trust && $0.proxy == proxy
        }
        if let known {
            goals[known].apps.append(app)
        } else {
            goals.append(Goal(environment: environment, endpoint: endpoint, trust: trust, proxy: proxy, apps: [app]))
        }
    }

    private func probe(_ goals: [Goal], _ contexts: [String?: TLSClientContext]) -> [Check] {
        do {
            let loop = try EventLoop(name: "doctor")
            try loop.start()
            defer {
                loop.stop()
                loop.join()
            }
            return try loop.runBlocking { _ in
                var checks: [Check] = []
                for goal in goals {
                    guard let context = contexts[goal.trust] else { continue }
                    // Named where there are several.
                    let isOne = goals.count { $0.environment == goal.environment } == 1
                    let whose = isOne ? "" : " of \(goal.apps.joined(separator: ", "))"
                    checks.append(
                        Self.check(
                            goal.environment.rawValue + whose,
                            await TLSProbe.run(goal.endpoint, through: goal.proxy, context: context, loop: loop)))
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
