// Reads the credentials of the app `default` from the environment. Everything that can be wrong is said in one line that names
// the variable and what to do; key text is never shown, not even when it stands in the wrong variable.

import TLS

/// The environment variables of token authentication.
package enum CredentialLoader {
    static let keyPath = "APNS_KEY_PATH"
    static let keyText = "APNS_KEY"
    static let keyID = "APNS_KEY_ID"
    static let teamID = "APNS_TEAM_ID"
    static let bundleID = "APNS_BUNDLE_ID"
    static let certificatePath = "APNS_CERT_PATH"

    /// The credentials, or the first thing that is wrong with them.
    ///
    /// - Parameter environment: The variables of the process; an empty one counts as absent.
    /// - Returns: Key and bundle id.
    /// - Throws: `APNsError`, whose description is one line for the operator.
    package static func load(_ environment: [String: String]) throws(APNsError) -> APNsCredentials {
        let privateKey = try readKey(environment)
        let key = try APNsKey(
            privateKey: privateKey, keyID: try keyIDText(environment),
            teamID: try required(
                teamID, environment, "the 10 characters on the membership page of the developer account"))
        return try APNsCredentials(
            key: key, bundleID: try required(bundleID, environment, "the app's bundle id, such as com.example.app"))
    }

    /// Everything that is wrong, for a check that shows all at once; empty when `load` works.
    package static func problems(_ environment: [String: String]) -> [APNsError] {
        var problems: [APNsError] = []
        func check(_ body: () throws(APNsError) -> Void) {
            do { try body() } catch { problems.append(error) }
        }
        check { () throws(APNsError) in _ = try readKey(environment) }
        check { () throws(APNsError) in _ = try APNsKey.identifier(try keyIDText(environment), keyID, "") }
        check { () throws(APNsError) in
            _ = try APNsKey.identifier(try required(teamID, environment, "10 characters"), teamID, "")
        }
        check { () throws(APNsError) in _ = try required(bundleID, environment, "the app's bundle id") }
        if problems.isEmpty { check { () throws(APNsError) in _ = try load(environment) } }
        return problems
    }

    /// What looks wrong but need not be: a key file that is named after another key id.
    package static func advice(_ environment: [String: String]) -> String? {
        guard let named = idInFileName(value(keyPath, environment)), let given = value(keyID, environment),
            named != SettingText.trimmed(given)
        else { return nil }
        return "\(keyID) is \(SettingText.shown(SettingText.trimmed(given))), but the key file is named after \(named)"
    }

    // MARK: The key

    private static func readKey(_ environment: [String: String]) throws(APNsError) -> P256PrivateKey {
        switch (value(keyPath, environment), value(keyText, environment)) {
        case (_?, _?):
            throw APNsError(.conflict, keyPath, "and \(keyText) are both set: keep the one that is meant")
        case (let path?, nil): return try key(atPath: path)
        case (nil, let text?): return try key(fromText: text)
        case (nil, nil) where value(certificatePath, environment) != nil:
            throw APNsError(
                .missing, keyPath,
                "is not set: this version signs in with a key (.p8) only, \(certificatePath) cannot be used yet")
        case (nil, nil):
            throw APNsError(
                .missing, keyPath,
                "is not set: give the path of the .p8 file from Apple, or its contents in \(keyText)")
        }
    }

    private static func key(atPath path: String) throws(APNsError) -> P256PrivateKey {
        guard !SettingText.looksLikeKey(path) else {
            throw APNsError(.key, keyPath, "holds a key instead of a path: put it into \(keyText)")
        }
        do {
            return try P256PrivateKey(file: path)
        } catch {
            throw APNsError(.key, keyPath, error.code == .file ? error.message : "(\(path)): \(error.message)")
        }
    }

    private static func key(fromText text: String) throws(APNsError) -> P256PrivateKey {
        do {
            return try P256PrivateKey(text)
        } catch {
            if !SettingText.looksLikeKey(text), text.hasSuffix(".p8") || text.hasSuffix(".pem") || text.hasPrefix("/") {
                throw APNsError(.key, keyText, "holds a path instead of a key: put it into \(keyPath)")
            }
            throw APNsError(.key, keyText, "cannot be used: \(error.message)")
        }
    }

    // MARK: The names

    private static func keyIDText(_ environment: [String: String]) throws(APNsError) -> String {
        let suggestion = idInFileName(value(keyPath, environment)).map { " (the file name suggests \($0))" } ?? ""
        return try required(
            keyID, environment, "the 10 characters in the key file's name, AuthKey_<id>.p8\(suggestion)")
    }

    private static func required(
        _ name: String, _ environment: [String: String], _ remedy: String
    ) throws(APNsError) -> String {
        guard let text = value(name, environment) else {
            throw APNsError(.missing, name, "is not set: give \(remedy)")
        }
        return text
    }

    /// The value when it holds more than blanks.
    private static func value(_ name: String, _ environment: [String: String]) -> String? {
        guard let text = environment[name], !SettingText.trimmed(text).isEmpty else { return nil }
        return text
    }

    /// The id in `…/AuthKey_ABCDE12345.p8`.
    private static func idInFileName(_ path: String?) -> String? {
        guard let file = path?.split(separator: "/").last, file.hasPrefix("AuthKey_"), file.hasSuffix(".p8") else {
            return nil
        }
        let id = file.dropFirst("AuthKey_".count).dropLast(".p8".count)
        return id.utf8.count == 10 && id.utf8.allSatisfy(SettingText.isLetterOrDigit) ? String(id) : nil
    }
}
