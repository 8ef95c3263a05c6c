// The key, from the place the settings name.

import TLS

/// Loads keys.
enum Credentials {
    /// Reads the key.
    static func key(_ source: KeySource) throws(ConfigurationError) -> P256PrivateKey {
        do throws(TLSError) {
            switch source {
            case .file(let path): return try P256PrivateKey(file: path)
            case .text(let text): return try P256PrivateKey(text)
            }
        } catch {
            throw ConfigurationError(
                variable: source.variable, problem: "cannot be used: \(error.message)",
                remedy: "give the AuthKey_….p8 file as Apple gave it to you")
        }
    }

    /// Checks key and ids without keeping them.
    static func check(_ settings: PushSettings) throws(ConfigurationError) -> Check {
        _ = try key(settings.key)
        return .ok("key", "P-256 key \(settings.keyID) of team \(settings.teamID) for \(settings.bundleID)")
    }
}
