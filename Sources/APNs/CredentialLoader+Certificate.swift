// The certificate that the variables name. Its password comes from the environment or out of a file, and is shown to nobody.

import TLS

extension CredentialLoader {
    /// Reads the certificate and what it is good for.
    ///
    /// One that has expired is read: it holds the app up, which a new one in its place ends, and fails no notification.
    func readCertificate() throws(APNsError) -> APNsCertificate {
        for variable in [Self.keyPath, Self.keyText] where value(variable) != nil {
            throw APNsError(
                .conflict, name(Self.certificatePath),
                "and \(name(variable)) are both set: an app has a key or a certificate, keep the one that is meant")
        }
        let path = value(Self.certificatePath).map(SettingText.trimmed) ?? ""
        guard !SettingText.looksLikeKey(path) else {
            throw APNsError(
                .certificate, name(Self.certificatePath),
                "holds a certificate instead of a path: put it into a file and name that")
        }
        let password = try readPassword()
        do throws(TLSError) {
            return APNsCertificate(try TLSIdentity(file: path, password: password))
        } catch {
            throw APNsError(
                .certificate, name(Self.certificatePath),
                error.code == .file ? error.message : "(\(path)): \(error.message)")
        }
    }

    /// A password without a certificate is half of what was meant.
    func refusePasswordAlone() throws(APNsError) {
        for variable in [Self.certificatePassword, Self.certificatePasswordPath] where value(variable) != nil {
            throw APNsError(
                .missing, name(Self.certificatePath),
                "is not set, but \(name(variable)) is: name the certificate, or unset it")
        }
    }

    private func readPassword() throws(APNsError) -> String? {
        guard let path = value(Self.certificatePasswordPath) else { return value(Self.certificatePassword) }
        guard value(Self.certificatePassword) == nil else {
            throw APNsError(
                .conflict, name(Self.certificatePasswordPath), "and \(Self.certificatePassword) are both set: keep one")
        }
        do throws(TLSError) {
            let text = String(decoding: try readSmallFile(path), as: UTF8.self)
            // Editors end a file with a line break, which is no part of the password.
            return String(text.prefix { !$0.isNewline })
        } catch {
            throw APNsError(.certificate, name(Self.certificatePasswordPath), error.message)
        }
    }
}
