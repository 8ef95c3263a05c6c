// Who an app is to Apple: a signing key or a certificate, for each of the two environments. As a rule one is good for both; Apple's
// newer keys and some certificates are for one only, and then the other has one of its own, or is not sent to.

package import PushModel

/// What proves to Apple who is sending.
package enum APNsCredential: Sendable {
    /// Signs a token that goes with each request.
    case key(APNsKey)
    /// Is shown when a connection is made.
    case certificate(APNsCertificate)

    package var certificate: APNsCertificate? {
        if case .certificate(let certificate) = self { certificate } else { nil }
    }

    package var key: APNsKey? {
        if case .key(let key) = self { key } else { nil }
    }

    /// Whether both are the same key or certificate; names alone can come twice.
    package func isSame(as other: APNsCredential) -> Bool {
        switch (self, other) {
        case (.key(let one), .key(let other)): one.keyID == other.keyID && one.teamID == other.teamID
        case (.certificate(let one), .certificate(let other)): one.fingerprint == other.fingerprint
        case (.key, .certificate), (.certificate, .key): false
        }
    }

    /// What it is, for people; nothing secret.
    package var summary: String {
        switch self {
        case .key(let key): "P-256 key \(key.keyID) of team \(key.teamID)"
        case .certificate(let certificate): "certificate \"\(certificate.name)\""
        }
    }
}

/// Everything that is needed to send for one app.
package struct APNsCredentials: Sendable {
    package let production: APNsCredential?
    package let sandbox: APNsCredential?
    /// Topic of the app; push types add their suffix.
    package let bundleID: String

    /// - Throws: `malformed` when the bundle id cannot be one; `bundleIDName` is what its setting is called.
    package init(
        production: APNsCredential?, sandbox: APNsCredential?, bundleID: String, bundleIDName: String = "APNS_BUNDLE_ID"
    ) throws(APNsError) {
        let id = SettingText.trimmed(bundleID)
        let isSound =
            (1...155).contains(id.utf8.count)
            && id.utf8.allSatisfy { SettingText.isLetterOrDigit($0) || "-._".utf8.contains($0) }
            && id.utf8.first != UInt8(ascii: ".") && id.utf8.last != UInt8(ascii: ".")
        guard isSound else {
            throw APNsError(
                .malformed, bundleIDName,
                "is \(SettingText.shown(id)), but must be the app's bundle id, such as com.example.app")
        }
        self.production = production
        self.sandbox = sandbox
        self.bundleID = id
    }

    /// The credential for an environment; nil: it is not sent to.
    package subscript(environment: PushEnvironment) -> APNsCredential? {
        switch environment {
        case .production: production
        case .sandbox: sandbox
        }
    }
}
