// What the environment says about Apple's push service: credentials of the app named `default`, addresses, trust.

import APNs
import PushModel
import PushStore
import TLS

/// Credentials and addresses of a worker.
struct PushSettings: Sendable {
    let credentials: APNsCredentials
    let hosts: APNsHosts
    let trust: TrustStore

    /// Reads and loads what the APNS_* variables name.
    init(_ environment: [String: String]) throws(CommandFailure) {
        do throws(APNsError) {
            credentials = try CredentialLoader.load(environment)
            hosts = try APNsHosts(environment)
        } catch {
            throw CommandFailure(error)
        }
        do throws(ConfigurationError) {
            try Self.refuseUnsupported(Settings(environment: environment))
        } catch {
            throw CommandFailure(error)
        }
        trust = TrustStore(environment)
    }

    /// A variable that this version cannot honour must not be passed over in silence.
    static func refuseUnsupported(_ settings: Settings) throws(ConfigurationError) {
        let unsupported = [
            (
                "APNS_CERT_PATH", "names a certificate, which this version does not use",
                "unset it: APNS_KEY_PATH is enough"
            ),
            (
                "APNS_CERT_PASSWORD", "belongs to a certificate, which this version does not use",
                "unset it: APNS_KEY_PATH is enough"
            ),
            (
                "APNS_MANAGE_URL", "names a host for channels, which this version does not manage",
                "unset it"
            ),
            (
                "APNS_PROXY_URL", "names a proxy, which this version does not use",
                "unset it and allow port 443 outwards"
            ),
            (
                "PGPUSH_CONFIG", "names a file, which this version does not read",
                "configure the app by APNS_* variables"
            ),
        ]
        for (variable, problem, remedy) in unsupported where settings[variable] != nil {
            throw ConfigurationError(variable: variable, problem: problem, remedy: remedy)
        }
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
