// What a certificate is good for, and how its settings are read.

import Foundation
import PushModel
import TLS
import TestSupport
import Testing

@testable import APNs

@Suite struct CertificateTests {
    private static let apple = "1.2.840.113635.100.6.3."
    private static let null: [UInt8] = [0x05, 0x00]

    private static func text(_ text: String) -> [UInt8] { [0x0c, UInt8(text.utf8.count)] + text.utf8 }

    private static func list(_ topics: [String]) -> [UInt8] {
        let inner: [UInt8] = topics.flatMap { (topic: String) -> [UInt8] in text(topic) + [0x30, 0x05] + text("app") }
        return inner.count < 128 ? [0x30, UInt8(inner.count)] + inner : [0x30, 0x81, UInt8(inner.count)] + inner
    }

    private func issue(
        _ topics: [String] = ["com.example.app", "com.example.app.voip"], environments: String = "12",
        userID: String? = "com.example.app",
        validFrom: Int = -3600, validTo: Int = 100 * 86_400, lists: String = "6"
    ) throws -> CertificateIssuer.Issued {
        var extensions: [(oid: String, der: [UInt8])] = environments.map { (Self.apple + String($0), Self.null) }
        for list in lists { extensions.append((Self.apple + String(list), Self.list(topics))) }
        return try CertificateIssuer().issue(
            commonName: "Apple Push\u{7} Services", names: [], usage: .client, validFrom: validFrom, validTo: validTo,
            userID: userID,
            extensions: extensions)
    }

    private func certificate(_ issued: CertificateIssuer.Issued) throws -> APNsCertificate {
        APNsCertificate(
            try TLSIdentity(certificateChainPEM: issued.certificatePEM, privateKeyPEM: issued.privateKeyPEM))
    }

    @Test func saysWhatItIsGoodFor() throws {
        let both = try certificate(issue())
        #expect(
            both.topics == ["com.example.app", "com.example.app.voip"] && both.environments == [.production, .sandbox])
        #expect(both.name == "Apple Push Services" && both.fingerprint.utf8.count == 16)
        #expect(try certificate(issue(environments: "1")).environments == [.sandbox])
        #expect(try certificate(issue(environments: "2")).environments == [.production])
        // Without a list it is the UID, without flags both.
        let plain = try certificate(issue(environments: "", lists: ""))
        #expect(plain.topics == ["com.example.app"] && plain.environments == [.production, .sandbox])
        #expect(try certificate(issue(userID: nil, lists: "")).topics.isEmpty)
        #expect(try certificate(issue(lists: "4")).topics.count == 2)
    }

    @Test func countsItsDays() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let certificate = try certificate(issue(validTo: 10 * 86_400))
        #expect(certificate.daysLeft(at: now) == 9 || certificate.daysLeft(at: now) == 10)
        #expect(certificate.daysLeft(at: certificate.notAfter) == 0)
        #expect(certificate.daysLeft(at: certificate.notAfter + 1) == -1)
        #expect(certificate.daysLeft(at: certificate.notAfter + 86_401) == -2)
    }

    @Test func damagedListsAreEmpty() {
        #expect(APNsCertificate.names(in: Self.list(["a", "b"])) == ["a", "b"])
        for bad in [
            [], [0x30], [0x30, 0x05, 0x0c], [0x0c, 0x01, 0x61], [0x30, 0x84, 0, 0, 0, 1],
            [0x30, 0x03, 0x0c, 0x05, 0x61],
        ] as [[UInt8]] {
            #expect(APNsCertificate.names(in: bad).isEmpty, "\(bad)")
        }
        var random = SeededGenerator(seed: 9)
        for _ in 0..<5000 {
            var bytes = Self.list(["com.example.app", "com.example.app.voip"])
            for _ in 0..<3 {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            #expect(APNsCertificate.names(in: bytes).count <= bytes.count)
        }
    }

    // MARK: Settings

    private func write(_ bytes: [UInt8], _ name: String) throws -> String {
        let path = NSTemporaryDirectory() + "/pgpush-\(UUID().uuidString)-\(name)"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test func isReadFromSettings() throws {
        let issued = try issue(environments: "2")
        let path = try write(try issued.pkcs12(password: "s3cret"), "c.p12")
        var variables = ["APNS_CERT_PATH": path, "APNS_CERT_PASSWORD": "s3cret", "APNS_BUNDLE_ID": "com.example.app"]
        let loaded = try CredentialLoader(variables).load()
        #expect(loaded.production?.certificate?.topics.count == 2 && loaded.sandbox == nil)
        #expect(CredentialLoader(variables).problems.isEmpty)
        // The password in a file, as an editor writes it.
        variables["APNS_CERT_PASSWORD"] = nil
        variables["APNS_CERT_PASSWORD_PATH"] = try write(Array("s3cret\r\n".utf8), "password")
        #expect(try CredentialLoader(variables).load().production != nil)

        func refusal(_ changes: [String: String?]) -> APNsError? {
            var changed = variables
            for (name, value) in changes { changed[name] = value }
            do {
                _ = try CredentialLoader(changed).load()
                return nil
            } catch {
                #expect(!error.description.contains("s3cret") && !error.description.contains("\n"))
                return error
            }
        }
        #expect(refusal(["APNS_CERT_PASSWORD": "x"])?.code == .conflict)
        #expect(
            refusal(["APNS_CERT_PASSWORD": "x", "APNS_CERT_PASSWORD_PATH": nil])?.message.contains("does not open")
                == true)
        #expect(refusal(["APNS_CERT_PASSWORD_PATH": "/nowhere"])?.subject == "APNS_CERT_PASSWORD_PATH")
        #expect(refusal(["APNS_KEY_PATH": "/x.p8"])?.code == .conflict)
        #expect(refusal(["APNS_CERT_PATH": "/nowhere.p12"])?.message.contains("No such file") == true)
        #expect(
            refusal(["APNS_CERT_PATH": "-----BEGIN CERTIFICATE-----"])?.message.contains("instead of a path") == true)
        #expect(
            refusal(["APNS_BUNDLE_ID": "com.example.other"])?.description
                == "APNS_BUNDLE_ID is com.example.other, but the certificate is for com.example.app, com.example.app.voip"
        )
    }
}
