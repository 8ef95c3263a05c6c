// One app that a worker serves: where each of its settings comes from, and what they amount to.
//
//     environment (APNS_*)  ─► app `default`, before what the file says of it
//     file (PGPUSH_CONFIG)  ─► an app's own settings ─► else APNS_*_URL, APNS_CA_PATH ─► else what the file says for all ─► else Apple's
//
// So what is narrower goes before what is wider, and of equals the environment goes before the file.

import APNs
import HTTP2
import PushModel
import PushStore

/// The settings of one app as text, not looked at yet.
struct AppDraft: Sendable {
    /// As in the column `app`.
    let name: String
    /// By the names of the environment, whatever they come from.
    private(set) var variables: [String: String] = [:]
    /// What messages call those that come from the file, or would have to.
    private(set) var places: [String: String] = [:]
    /// How late its notifications may be, and where that stands.
    private(set) var maxLateness: ConfigurationFile.Setting?

    private static let keys = [
        "key_path": "APNS_KEY_PATH", "key_id": "APNS_KEY_ID", "team_id": "APNS_TEAM_ID",
        "cert_path": "APNS_CERT_PATH", "cert_password_path": CredentialLoader.certificatePasswordPath,
        "bundle_id": "APNS_BUNDLE_ID", "production_url": "APNS_PRODUCTION_URL", "sandbox_url": "APNS_SANDBOX_URL",
        "manage_url": "APNS_MANAGE_URL", "broadcast_url": APNsHosts.broadcastURL,
        "proxy_url": "APNS_PROXY_URL", "ca_path": "APNS_CA_PATH",
    ]
    private static let wide: Set = [
        "APNS_PRODUCTION_URL", "APNS_SANDBOX_URL", "APNS_MANAGE_URL", "APNS_PROXY_URL", "APNS_CA_PATH",
    ]

    /// Settings that the file alone can have.
    private static let fileOnly: Set = [CredentialLoader.certificatePasswordPath, APNsHosts.broadcastURL]

    /// What holds for one environment alone: the whole of `variables` as it is there.
    private var environments: [PushEnvironment: AppDraft] = [:]
    /// Those of them that say something of a key or a certificate, and not only where the channels are managed.
    private var withCredential: Set<PushEnvironment> = []

    /// The app `default` as the environment describes it alone.
    init(_ environment: [String: String]) {
        name = "default"
        variables = environment
        // Not variables of the environment.
        for name in Self.fileOnly { variables[name] = nil }
    }

    /// An app of the file.
    init(_ app: ConfigurationFile.App, _ file: ConfigurationFile, _ environment: Settings) {
        name = app.name
        maxLateness = app.settings["max_lateness"] ?? file.shared["max_lateness"]
        for (key, variable) in Self.keys {
            take(key, variable, app, file, environment)
        }
        // The key's text can be had from the environment alone.
        if name == "default", let text = environment["APNS_KEY"] {
            variables["APNS_KEY"] = text
            if environment["APNS_KEY_PATH"] == nil { variables["APNS_KEY_PATH"] = nil }
        }
        if name == "default", let password = environment["APNS_CERT_PASSWORD"] {
            variables["APNS_CERT_PASSWORD"] = password
            variables[CredentialLoader.certificatePasswordPath] = nil
        }
        let isOwn = app.settings["cert_path"] != nil || (name == "default" && environment["APNS_CERT_PATH"] != nil)
        if isOwn { dropKey(unless: app.settings, environment) }
        for (place, settings) in app.environments {
            environments[place] = narrowed(settings)
            if settings.keys.contains(where: { !$0.hasSuffix("_url") }) { withCredential.insert(place) }
        }
    }

    /// An app that has a certificate of its own does not mean the key that stands there for all.
    private mutating func dropKey(unless own: [String: ConfigurationFile.Setting], _ environment: Settings) {
        for (key, variable) in Self.keys where CredentialLoader.keyVariables.contains(variable) && own[key] == nil {
            if name == "default", environment[variable] != nil { continue }
            variables[variable] = nil
        }
    }

    /// As the app is in one environment that has settings of its own.
    private func narrowed(_ settings: [String: ConfigurationFile.Setting]) -> AppDraft {
        var draft = self
        draft.environments = [:]
        let isKey = settings["key_path"] != nil
        let isCertificate = settings["cert_path"] != nil
        // What is said here takes the place of what is said for both; a password belongs to its certificate.
        if isCertificate, !isKey {
            for variable in CredentialLoader.keyVariables + ["APNS_KEY"] { draft.variables[variable] = nil }
        }
        if isKey || isCertificate {
            for variable in CredentialLoader.certificateVariables { draft.variables[variable] = nil }
        }
        for (key, setting) in settings {
            guard let variable = Self.keys[key] else { continue }
            draft.variables[variable] = setting.text
            draft.places[variable] = setting.place
        }
        return draft
    }

    private mutating func take(
        _ key: String, _ variable: String, _ app: ConfigurationFile.App, _ file: ConfigurationFile,
        _ environment: Settings
    ) {
        let own = app.settings[key]
        if name == "default", !Self.fileOnly.contains(variable), let text = environment[variable] {
            variables[variable] = text
        } else if let own {
            variables[variable] = own.text
            places[variable] = own.place
        } else if Self.wide.contains(variable), let text = environment[variable] {
            variables[variable] = text
        } else {
            variables[variable] = file.shared[key]?.text
            places[variable] = file.shared[key]?.place ?? file.place(key, app: name)
        }
    }

    /// Reads the credentials that hold for both environments, or for the one that has none of its own.
    var loader: CredentialLoader { CredentialLoader(variables, names: places) }

    /// Everything that reads credentials of this app.
    var loaders: [CredentialLoader] {
        let own = PushEnvironment.allCases.filter(withCredential.contains).compactMap { environments[$0]?.loader }
        return loader.hasCredential || own.isEmpty ? [loader] + own : own
    }

    /// Loads them.
    func credentials() throws(APNsError) -> APNsCredentials {
        guard !withCredential.isEmpty else { return try loader.load() }
        let shared = loader.hasCredential ? try loader.load() : nil
        return try loader.credentials(
            production: try credential(.production) ?? shared?.production,
            sandbox: try credential(.sandbox) ?? shared?.sandbox)
    }

    private func credential(_ environment: PushEnvironment) throws(APNsError) -> APNsCredential? {
        guard withCredential.contains(environment), let own = environments[environment] else { return nil }
        let credential = try own.loader.credential()
        if case .certificate(let certificate) = credential, !certificate.environments.contains(environment) {
            throw APNsError(
                .certificate, own.places["APNS_CERT_PATH"] ?? "APNS_CERT_PATH",
                "is not for \(environment.rawValue): take another one")
        }
        return credential
    }

    /// Where its gateways are.
    func hosts() throws(APNsError) -> APNsHosts {
        var hosts = try APNsHosts(variables, names: places)
        if let own = environments[.production] {
            let narrow = try APNsHosts(own.variables, names: own.places)
            hosts.productionManagement = narrow.productionManagement
            hosts.productionBroadcast = narrow.productionBroadcast
        }
        if let own = environments[.sandbox] {
            let narrow = try APNsHosts(own.variables, names: own.places)
            hosts.sandboxManagement = narrow.sandboxManagement
            hosts.sandboxBroadcast = narrow.sandboxBroadcast
        }
        return hosts
    }

    /// The proxy on the way there, if there is one.
    func proxy() throws(ConfigurationError) -> HTTPProxy? {
        guard let text = Settings(environment: variables)["APNS_PROXY_URL"] else { return nil }
        do throws(HTTPProxy.Fault) {
            return try HTTPProxy(text)
        } catch {
            throw ConfigurationError(
                variable: places["APNS_PROXY_URL"] ?? "APNS_PROXY_URL", problem: error.problem,
                remedy: "write it as http://host:port or http://user:password@host:port")
        }
    }

    /// Whom it trusts.
    var trust: TrustStore { TrustStore(variables, name: places["APNS_CA_PATH"] ?? "APNS_CA_PATH") }

    /// How late its notifications may be.
    func lateness() throws(ConfigurationError) -> Duration {
        guard let maxLateness else { return ServedApp(name: name).maxLateness }
        guard let seconds = TimeArgument.seconds(maxLateness.text[...]), (1...365 * 86_400).contains(seconds) else {
            throw ConfigurationError(
                variable: maxLateness.place,
                problem: "is \"\(DisplayText.cleaned(String(maxLateness.text.prefix(40))))\"",
                remedy: "write it as 90s, 30m, 2h, 1h30m or 7d, at most 365d")
        }
        return .seconds(seconds)
    }

    /// Reads and loads everything.
    func load() throws(CommandFailure) -> AppSettings {
        let credentials: APNsCredentials
        let endpoints: APNsHosts
        do throws(APNsError) {
            credentials = try self.credentials()
            endpoints = try hosts()
        } catch {
            throw CommandFailure(error)
        }
        do throws(ConfigurationError) {
            return AppSettings(
                name: name, credentials: credentials, hosts: endpoints, proxy: try proxy(), trust: trust,
                maxLateness: try lateness())
        } catch {
            throw CommandFailure(error)
        }
    }
}

/// One app, with its credentials loaded.
struct AppSettings: Sendable {
    /// As in the column `app`.
    let name: String
    let credentials: APNsCredentials
    let hosts: APNsHosts
    /// On the way there, if there is one.
    let proxy: HTTPProxy?
    let trust: TrustStore
    /// Rows later than this are not sent any more.
    let maxLateness: Duration
}
