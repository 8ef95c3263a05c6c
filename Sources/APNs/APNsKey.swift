// The key of token authentication: what signs, and the two names that go with it.

package import TLS

/// A signing key with its id and the id of the team it belongs to.
package struct APNsKey: Sendable {
    package let privateKey: P256PrivateKey
    /// Ten letters and digits; stands in the name of the file Apple gave out.
    package let keyID: String
    /// Ten letters and digits.
    package let teamID: String

    /// Puts a key together.
    ///
    /// - Parameters:
    ///   - privateKey: The key.
    ///   - keyID: Its id, blanks around it are dropped.
    ///   - teamID: The team's id, likewise.
    ///   - keyIDName: What the setting of the key id is called, for errors.
    ///   - teamIDName: What the setting of the team id is called.
    /// - Throws: `malformed` when an id cannot be one.
    package init(
        privateKey: P256PrivateKey, keyID: String, teamID: String, keyIDName: String = "APNS_KEY_ID",
        teamIDName: String = "APNS_TEAM_ID"
    ) throws(APNsError) {
        self.privateKey = privateKey
        self.keyID = try APNsKey.identifier(keyID, keyIDName, "the key file's name (AuthKey_<id>.p8) shows it")
        self.teamID = try APNsKey.identifier(teamID, teamIDName, "the account's membership page shows it")
    }

    /// An id as Apple gives them out.
    static func identifier(_ text: String, _ name: String, _ remedy: String) throws(APNsError) -> String {
        let id = SettingText.trimmed(text)
        guard id.utf8.count == 10, id.utf8.allSatisfy(SettingText.isLetterOrDigit) else {
            throw APNsError(
                .malformed, name, "is \(SettingText.shown(id)), but must be 10 letters and digits: \(remedy)")
        }
        return id
    }
}
