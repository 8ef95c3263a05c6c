// Whom to trust: the bundle that is named, or the system's.

import APNs
import Glibc
import PushStore
import TLS

/// Where trusted authorities come from.
struct TrustStore: Sendable {
    private let environment: [String: String]
    /// A bundle of authorities; nil means the system's.
    let path: String?
    /// What messages call the setting of the bundle.
    private let name: String

    /// Reads APNS_CA_PATH, which messages call `name`.
    init(_ environment: [String: String], name: String = "APNS_CA_PATH") {
        self.environment = environment
        self.name = name
        path = Settings(environment: environment)["APNS_CA_PATH"]
    }

    /// Loads the authorities; `certificate` is shown to servers that ask for one.
    func load(_ certificate: TLSIdentity? = nil) throws(ConfigurationError) -> TLSClientContext {
        // Whatever was put there instead of a path, nobody is shown it.
        if let path, SettingText.looksLikeKey(path) {
            throw ConfigurationError(
                variable: name, problem: "holds certificates or a key instead of a path",
                remedy: "name a PEM file with CA certificates")
        }
        do throws(TLSError) {
            return try TLSClientContext(trust: path.map(TLSTrust.bundleFile) ?? .system, certificate: certificate)
        } catch {
            throw ConfigurationError(
                variable: path == nil ? "the trust store" : name, problem: "cannot be used: \(error.message)",
                remedy: path == nil
                    ? "install ca-certificates" : "name a PEM file with CA certificates")
        }
    }

    /// SHA-256 of the bundle, by which a changed one is known; nil for the system's.
    func digest() throws(CommandFailure) -> [UInt8]? {
        guard let path else { return nil }
        do throws(TLSError) {
            return try SHA256.digest(try readSmallFile(path, limit: 16 << 20))
        } catch {
            throw CommandFailure(.configuration, "\(name) cannot be read: \(error.message)")
        }
    }

    /// The check, and the context that it made.
    func check() -> (Check, TLSClientContext?) {
        do throws(ConfigurationError) {
            let context = try load()
            if let path { return (.ok("trust", "only the authorities in \(path)"), context) }
            return (system, context)
        } catch {
            return (.fail("trust", error), nil)
        }
    }

    /// What is missing for Apple's own hosts, if these are in use.
    static func missingRoot(_ context: TLSClientContext, _ hosts: APNsHosts) -> Check? {
        let isApples = [hosts.production, hosts.sandbox].contains { $0.host.hasSuffix(".push.apple.com") }
        guard isApples, !context.trusts(.userTrustRSA) else { return nil }
        return .warn(
            "trust", "\(KnownAuthority.userTrustRSA.commonName) is not among them: Apple's servers cannot be verified",
            remedy: "install or update ca-certificates, or add this root to the bundle that APNS_CA_PATH names")
    }

    /// OpenSSL loads the system's authorities only when it needs one, and says nothing when there are none.
    private var system: Check {
        let file = environment["SSL_CERT_FILE"] ?? "/etc/ssl/certs/ca-certificates.crt"
        if unsafe access(file, R_OK) == 0 { return .ok("trust", "the authorities of the system, \(file)") }
        return .warn(
            "trust", "\(file) is not there", remedy: "install ca-certificates, or name a bundle by APNS_CA_PATH")
    }
}
