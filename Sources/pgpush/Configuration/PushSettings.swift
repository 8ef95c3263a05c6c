// What environment and configuration file say about Apple's push service: the apps that are served, with credentials, addresses
// and trust. Without a file there is one app, `default`, which the APNS_* variables describe.

import APNs
import PushModel
import PushStore
import TLS

/// The apps of a worker.
struct PushSettings: Sendable {
    /// At least one, with different names.
    let apps: [AppSettings]

    /// Reads and loads what the environment names.
    init(_ environment: [String: String]) throws(CommandFailure) {
        let drafts: [AppDraft]
        do throws(ConfigurationError) {
            drafts = try Self.drafts(environment)
        } catch {
            throw CommandFailure(error)
        }
        var apps: [AppSettings] = []
        for draft in drafts { apps.append(try draft.load()) }
        self.apps = apps
    }

    /// The apps as they are described, not looked at yet; reads the configuration file.
    static func drafts(_ environment: [String: String]) throws(ConfigurationError) -> [AppDraft] {
        let settings = Settings(environment: environment)
        guard let path = settings["PGPUSH_CONFIG"] else { return [AppDraft(environment)] }
        let file = try ConfigurationFile(path: path)
        let drafts = file.apps.map { AppDraft($0, file, settings) }
        // Whoever has described the app `default` by variables wants it served, file or not.
        let isDescribed = CredentialLoader.variables.contains { settings[$0] != nil }
        if isDescribed, !drafts.contains(where: { $0.name == "default" }) { return [AppDraft(environment)] + drafts }
        return drafts
    }

    /// Reads APNS_ENVIRONMENT, the default for `devices.environment`; nil when it is not set.
    static func defaultEnvironment(_ settings: Settings) throws(ConfigurationError) -> PushEnvironment? {
        switch settings["APNS_ENVIRONMENT"]?.lowercased() {
        case nil: return nil
        case "production": return .production
        case "sandbox", "development": return .sandbox
        case .some:
            throw ConfigurationError(
                variable: "APNS_ENVIRONMENT", problem: "is neither 'production' nor 'sandbox' ('development')",
                remedy: "set it to 'production' or 'sandbox', or leave it out")
        }
    }
}

extension CommandFailure {
    /// A fault in a setting; its message ends in what to do about it.
    init(_ error: APNsError) { self.init(.configuration, error.description) }
}
