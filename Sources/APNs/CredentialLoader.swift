// Reads the credentials of an app from variables: those of the process for the app `default`, or what stands in the configuration
// file under other names. Everything that can be wrong is said in one line that names the setting and what to do; key text is never
// shown, not even when it stands in the wrong place.

import PushModel
import TLS

/// The variables that say who sends, and what to call them.
package struct CredentialLoader: Sendable {
    static let keyPath = "APNS_KEY_PATH"
    static let keyText = "APNS_KEY"
    static let keyID = "APNS_KEY_ID"
    static let teamID = "APNS_TEAM_ID"
    static let bundleID = "APNS_BUNDLE_ID"
    static let certificatePath = "APNS_CERT_PATH"
    static let certificatePassword = "APNS_CERT_PASSWORD"
    /// A file with the password; not a variable of the environment.
    package static let certificatePasswordPath = "APNS_CERT_PASSWORD_PATH"

    /// All that say who sends; whoever sets one of them in the environment means the app `default`.
    package static let variables = [
        keyPath, keyText, keyID, teamID, bundleID, certificatePath, certificatePassword,
    ]
    /// Those that belong to a certificate.
    package static let certificateVariables = [certificatePath, certificatePassword, certificatePasswordPath]
    /// Those that belong to a key, but for its text.
    package static let keyVariables = [keyPath, keyID, teamID]

    private let variables: [String: String]
    private let names: [String: String]

    /// Reads from `variables`, of which an empty one counts as absent.
    ///
    /// `names` is what messages call a variable instead of its own name.
    package init(_ variables: [String: String], names: [String: String] = [:]) {
        self.variables = variables
        self.names = names
    }

    /// The credentials, or the first thing that is wrong with them.
    ///
    /// - Returns: Key or certificate, for the environments that it is good for, and bundle id.
    /// - Throws: `APNsError`, whose description is one line for the operator.
    package func load() throws(APNsError) -> APNsCredentials {
        let credential = try credential()
        func covering(_ environment: PushEnvironment) -> APNsCredential? {
            if case .certificate(let certificate) = credential, !certificate.environments.contains(environment) {
                return nil
            }
            return credential
        }
        return try credentials(production: covering(.production), sandbox: covering(.sandbox))
    }

    /// These credentials for the app with the bundle id that is set here.
    ///
    /// - Throws: `missing` or `malformed` for the bundle id; `certificate` when one is for other apps only.
    package func credentials(
        production: APNsCredential?, sandbox: APNsCredential?
    ) throws(APNsError) -> APNsCredentials {
        let credentials = try APNsCredentials(
            production: production, sandbox: sandbox,
            bundleID: try required(Self.bundleID, "the app's bundle id, such as com.example.app"),
            bundleIDName: name(Self.bundleID))
        for case .certificate(let certificate)? in [production, sandbox] {
            let topics = certificate.topics
            guard topics.isEmpty || topics.contains(credentials.bundleID) else {
                throw APNsError(
                    .certificate, name(Self.bundleID),
                    "is \(credentials.bundleID), but the certificate is for \(topics.prefix(5).joined(separator: ", "))"
                )
            }
        }
        return credentials
    }

    /// The credential, or the first thing that is wrong with it.
    package func credential() throws(APNsError) -> APNsCredential {
        if isCertificate { return .certificate(try readCertificate()) }
        try refusePasswordAlone()
        return .key(
            try APNsKey(
                privateKey: try readKey(), keyID: try keyIDText(),
                teamID: try required(
                    Self.teamID, "the 10 characters on the membership page of the developer account"),
                keyIDName: name(Self.keyID), teamIDName: name(Self.teamID)))
    }

    /// Whether anything says who sends.
    package var hasCredential: Bool {
        [Self.keyPath, Self.keyText, Self.certificatePath].contains { value($0) != nil }
    }

    var isCertificate: Bool { value(Self.certificatePath) != nil }

    /// Everything that is wrong, for a check that shows all at once; empty when `load` works.
    package var problems: [APNsError] {
        var problems: [APNsError] = []
        func check(_ body: () throws(APNsError) -> Void) {
            do { try body() } catch { problems.append(error) }
        }
        if isCertificate {
            check { () throws(APNsError) in _ = try readCertificate() }
        } else {
            check { () throws(APNsError) in try refusePasswordAlone() }
            check { () throws(APNsError) in _ = try readKey() }
            check { () throws(APNsError) in _ = try APNsKey.identifier(try keyIDText(), name(Self.keyID), "") }
            check { () throws(APNsError) in
                _ = try APNsKey.identifier(try required(Self.teamID, "10 characters"), name(Self.teamID), "")
            }
        }
        check { () throws(APNsError) in _ = try required(Self.bundleID, "the app's bundle id") }
        if problems.isEmpty { check { () throws(APNsError) in _ = try load() } }
        return problems
    }

    /// What looks wrong but need not be: a key file that is named after another key id.
    package var advice: String? {
        guard let named = Self.idInFileName(value(Self.keyPath)), let given = value(Self.keyID),
            named != SettingText.trimmed(given)
        else { return nil }
        let shown = SettingText.shown(SettingText.trimmed(given))
        return "\(name(Self.keyID)) is \(shown), but the key file is named after \(named)"
    }

    // MARK: The key

    private func readKey() throws(APNsError) -> P256PrivateKey {
        switch (value(Self.keyPath), value(Self.keyText)) {
        case (_?, _?):
            throw APNsError(
                .conflict, name(Self.keyPath), "and \(name(Self.keyText)) are both set: keep the one that is meant")
        case (let path?, nil): return try key(atPath: path)
        case (nil, let text?): return try key(fromText: text)
        case (nil, nil):
            let other = names[Self.keyPath] == nil ? ", or its contents in \(Self.keyText)" : ""
            throw APNsError(
                .missing, name(Self.keyPath),
                "is not set: give the path of the .p8 file from Apple\(other), or a certificate in \(name(Self.certificatePath))"
            )
        }
    }

    private func key(atPath path: String) throws(APNsError) -> P256PrivateKey {
        guard !SettingText.looksLikeKey(path) else {
            let other = names[Self.keyPath] == nil ? "put it into \(Self.keyText)" : "put it into a file and name that"
            throw APNsError(.key, name(Self.keyPath), "holds a key instead of a path: \(other)")
        }
        do {
            return try P256PrivateKey(file: path)
        } catch {
            throw APNsError(
                .key, name(Self.keyPath), error.code == .file ? error.message : "(\(path)): \(error.message)")
        }
    }

    private func key(fromText text: String) throws(APNsError) -> P256PrivateKey {
        do {
            return try P256PrivateKey(text)
        } catch {
            if !SettingText.looksLikeKey(text), text.hasSuffix(".p8") || text.hasSuffix(".pem") || text.hasPrefix("/") {
                throw APNsError(
                    .key, name(Self.keyText), "holds a path instead of a key: put it into \(Self.keyPath)")
            }
            throw APNsError(.key, name(Self.keyText), "cannot be used: \(error.message)")
        }
    }

    // MARK: The names

    private func keyIDText() throws(APNsError) -> String {
        let suggestion = Self.idInFileName(value(Self.keyPath)).map { " (the file name suggests \($0))" } ?? ""
        return try required(
            Self.keyID, "the 10 characters in the key file's name, AuthKey_<id>.p8\(suggestion)")
    }

    private func required(_ variable: String, _ remedy: String) throws(APNsError) -> String {
        guard let text = value(variable) else {
            throw APNsError(.missing, name(variable), "is not set: give \(remedy)")
        }
        return text
    }

    /// What messages call a variable.
    func name(_ variable: String) -> String { names[variable] ?? variable }

    /// The value when it holds more than blanks.
    func value(_ variable: String) -> String? {
        guard let text = variables[variable], !SettingText.trimmed(text).isEmpty else { return nil }
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
