// What a sender needs to talk to the simulator, made once and kept in a folder: an authority of its own, a server
// certificate for this machine, and a signing key like those that Apple gives out.
//
//     DIR/ca.pem  ca.key              the authority: senders trust ca.pem
//     DIR/server.pem  server.key      for localhost, 127.0.0.1 and ::1
//     DIR/AuthKey_<key id>.p8         the sender's key
//     DIR/client-<bundle id>.pem .key .p12   the sender's certificate, for both environments, made on request; .pem holds
//                                     both halves, .key the private one; the password of the .p12 is "simulator"

import Glibc
package import TLS

/// The folder of the simulator's credentials; several simulators may share it.
package struct CredentialFolder: Sendable {
    /// Where it is.
    package let path: String
    package let keyID: String
    package let teamID: String

    private static let serverNames = ["localhost", "127.0.0.1", "::1"]
    private static let tenYears = 3650 * 86_400

    /// The certificate of the authority.
    package var authorityPath: String { path + "/ca.pem" }
    /// The sender's key.
    package var signingKeyPath: String { path + "/AuthKey_\(keyID).p8" }

    /// Opens the folder; makes it and whatever it lacks.
    ///
    /// A second simulator that starts meanwhile waits.
    package init(path: String, keyID: String, teamID: String) throws {
        self.path = path
        self.keyID = keyID
        self.teamID = teamID
        try CredentialFolder.makeFolder(path)
        try FileLock.whileHeld(path + "/.lock") { try complete() }
    }

    /// The registered key, as Apple would know it.
    package func registeredKey() throws -> RegisteredKey {
        try CredentialFolder.key(id: keyID, teamID: teamID, file: signingKeyPath)
    }

    /// A key in a .p8 file, as Apple would know it.
    package static func key(id: String, teamID: String, file: String) throws -> RegisteredKey {
        do throws(TLSError) {
            let publicKey = try P256PrivateKey(file: file).publicKey
            return RegisteredKey(id: id, teamID: teamID) { publicKey.verifyES256($0, of: $1) }
        } catch {
            throw SimulatorError.credentials("\(file): \(error)")
        }
    }

    /// What the server shows to clients.
    package func serverContext(_ face: TLSFace) throws -> TLSServerContext {
        do throws(TLSError) {
            let (chain, key) = try identity(face.certificate)
            // Whoever shows a certificate must have it from here; whoever shows none is known by his tokens.
            return try TLSServerContext(
                identity: TLSIdentity(certificateChainPEM: chain, privateKeyPEM: key), clientCA: readFile("ca.pem"),
                clientsRefusedAs: refusal(face), alpn: face.alpn.names)
        } catch {
            throw SimulatorError.credentials("the server certificate in \(path) cannot be used: \(error)")
        }
    }

    private func refusal(_ face: TLSFace) -> ClientRefusal? {
        guard face.badCertificateBy == .alert else { return nil }
        return switch face.clients {
        case .good: nil
        case .revoked: .revoked
        case .expired: .expired
        }
    }

    private func identity(_ form: CertificateForm) throws(TLSError) -> ([UInt8], [UInt8]) {
        let names = form == .wrongName ? ["gateway.invalid"] : CredentialFolder.serverNames
        let validTo = form == .expired ? -86_400 : CredentialFolder.tenYears
        switch form {
        case .good: return (readFile("server.pem"), readFile("server.key"))
        case .untrusted:
            let issued = try CertificateIssuer(commonName: "Somebody else's CA").issue(names: names)
            return (issued.certificatePEM, issued.privateKeyPEM)
        case .expired, .wrongName:
            let issuer = try CertificateIssuer(certificatePEM: readFile("ca.pem"), privateKeyPEM: readFile("ca.key"))
            let issued = try issuer.issue(names: names, validFrom: -2 * 86_400, validTo: validTo)
            return (issued.certificatePEM, issued.privateKeyPEM)
        }
    }

    // MARK: Client certificates

    /// The password of the .p12 files.
    package static let password = "simulator"

    /// Makes a certificate for an app, `.p12` and beside it the same as `.pem`, and returns the path of the former.
    ///
    /// Each time anew: those that were made before stay good.
    package func clientCertificate(bundleID: String) throws -> String {
        try issue(
            "client-\(bundleID)", topics: ClientCertificate.topics(ofApp: bundleID),
            environments: [.production, .sandbox], days: 365)
    }

    /// Makes a client certificate as it was asked for; `bundleID` is the app where no topics were named.
    package func issue(_ option: CertificateOption, bundleID: String) throws {
        let topics = option.topics ?? ClientCertificate.topics(ofApp: bundleID)
        _ = try issue(option.name, topics: topics, environments: option.environments, days: option.days)
    }

    private func issue(
        _ name: String, topics: [String], environments: Set<SimulatedEnvironment>, days: Int
    ) throws -> String {
        let userID = topics.first ?? ""
        do {
            try FileLock.whileHeld(path + "/.lock") {
                let issuer = try CertificateIssuer(
                    certificatePEM: readFile("ca.pem"), privateKeyPEM: readFile("ca.key"))
                let end = days * 86_400
                let issued = try issuer.issue(
                    commonName: String("Apple Push Services: \(userID)".prefix(64)), names: [], usage: .client,
                    validFrom: min(-3600, end - 86_400), validTo: end, userID: userID,
                    extensions: ClientCertificate.extensions(topics: topics, environments: environments))
                try writeFile(name + ".pem", issued.certificatePEM + issued.privateKeyPEM)
                try writeFile(name + ".key", issued.privateKeyPEM)
                try writeFile(name + ".p12", try issued.pkcs12(password: CredentialFolder.password))
            }
        } catch let error as TLSError {
            throw SimulatorError.credentials("the certificate \(name) cannot be made: \(error)")
        }
        return "\(path)/\(name).p12"
    }

    // MARK: Making

    private func complete() throws {
        if !has("ca.pem") || !has("ca.key") { try makeAuthority() }
        if !has("server.pem") || !has("server.key") { try makeServerCertificate() }
        if !has("AuthKey_\(keyID).p8") { try makeSigningKey() }
    }

    private func makeAuthority() throws {
        let issuer = try CertificateIssuer(commonName: "APNs simulator CA")
        // Whatever an older authority has signed is worth nothing now.
        unsafe unlink(path + "/server.pem")
        try writeFile("ca.key", issuer.privateKeyPEM)
        try writeFile("ca.pem", issuer.certificatePEM)
    }

    private func makeServerCertificate() throws {
        let issuer = try CertificateIssuer(certificatePEM: readFile("ca.pem"), privateKeyPEM: readFile("ca.key"))
        let issued = try issuer.issue(names: CredentialFolder.serverNames, validTo: CredentialFolder.tenYears)
        try writeFile("server.key", issued.privateKeyPEM)
        try writeFile("server.pem", issued.certificatePEM)
    }

    private func makeSigningKey() throws {
        try writeFile("AuthKey_\(keyID).p8", Array(try P256PrivateKey.generate().pkcs8PEM.utf8))
    }

    private static func makeFolder(_ path: String) throws {
        var built = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/") {
            built += "/" + part
            guard unsafe mkdir(built, 0o700) == 0 || errno == EEXIST else {
                throw SimulatorError.system("the folder \(built) cannot be made", errno)
            }
        }
    }

    // MARK: Files

    private func has(_ name: String) -> Bool { unsafe access(path + "/" + name, R_OK) == 0 }

    /// The contents, empty when the file cannot be read: whoever parses them says what is wrong with that.
    private func readFile(_ name: String) -> [UInt8] { FileBytes.read(path + "/" + name) ?? [] }

    private func writeFile(_ name: String, _ bytes: [UInt8]) throws {
        try FileBytes.replace(path + "/" + name, with: bytes)
    }
}

/// What is the matter with the server's certificate.
package enum CertificateForm: String, Sendable, CaseIterable {
    case good
    /// Since yesterday.
    case expired
    /// For another host.
    case wrongName = "wrong-name"
    /// From an authority that nobody knows.
    case untrusted
}
