// Certificates in every form that people have them in, made by the openssl command: what loads, and what is said of the rest.

import Foundation
import TestSupport
import Testing

@testable import TLS

@Suite struct IdentityFileTests {
    /// A folder with an RSA certificate for com.example.app, its authority, and files made of them.
    private static func files() throws -> String {
        let folder = NSTemporaryDirectory() + "/pgpush-identity-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let script = """
            cd \(folder)
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=CA -days 2 2>/dev/null
            openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request -subj '/CN=Apple Push Services: com.example.app/UID=com.example.app' 2>/dev/null
            openssl x509 -req -in request -CA ca.pem -CAkey ca.key -set_serial 7 -days 2 -out cert.pem 2>/dev/null
            openssl ecparam -name prime256v1 -genkey -noout -out other.pem
            openssl pkcs12 -export -inkey key.pem -in cert.pem -certfile ca.pem -passout pass:secret -out new.p12
            openssl pkcs12 -export -legacy -inkey key.pem -in cert.pem -passout pass:secret -out old.p12
            openssl pkcs12 -export -inkey key.pem -in cert.pem -passout pass: -out open.p12
            openssl pkcs12 -export -nomac -inkey key.pem -in cert.pem -passout pass:secret -out nomac.p12
            openssl pkcs8 -topk8 -in key.pem -provider legacy -provider default -v1 PBE-SHA1-RC2-40 -passout pass:secret -out rc2-key.pem
            openssl rsa -in key.pem -des -provider legacy -provider default -passout pass:secret -traditional -out des-key.pem 2>/dev/null
            openssl pkcs12 -export -nokeys -in cert.pem -passout pass:secret -out keyless.p12
            openssl pkcs8 -topk8 -in key.pem -passout pass:secret -out locked-key.pem
            openssl rsa -in key.pem -aes128 -passout pass:secret -traditional -out oldlocked-key.pem 2>/dev/null
            openssl rsa -in key.pem -traditional -out rsa-key.pem 2>/dev/null
            cat cert.pem key.pem > both.pem
            cat key.pem ca.pem cert.pem > mixed.pem
            cat cert.pem rsa-key.pem > rsa.pem
            cat cert.pem locked-key.pem > locked.pem
            cat oldlocked-key.pem cert.pem > oldlocked.pem
            cat cert.pem rc2-key.pem > rc2.pem
            cat cert.pem des-key.pem > des.pem
            cat cert.pem other.pem > foreign.pem
            head -c 700 new.p12 > cut.p12
            head -c 1000 both.pem > cut.pem
            printf '' > empty
            """
        try #require(try Subprocess.run("/bin/sh", ["-ec", script]).status == 0)
        return folder
    }

    private static let shared = Result { try files() }

    private func load(_ name: String, _ password: String? = nil) throws -> TLSIdentity {
        try TLSIdentity(file: try Self.shared.get() + "/" + name, password: password)
    }

    @Test(
        arguments: [
            ("new.p12", "secret"), ("old.p12", "secret"), ("open.p12", ""), ("open.p12", nil), ("both.pem", nil),
            ("both.pem", "not needed"), ("mixed.pem", nil), ("rsa.pem", nil), ("locked.pem", "secret"),
            ("oldlocked.pem", "secret"),
        ] as [(String, String?)])
    func loads(_ name: String, _ password: String?) throws {
        let identity = try load(name, password)
        let facts = identity.facts
        #expect(facts.commonName == "Apple Push Services: com.example.app" && facts.userID == "com.example.app")
        let left = facts.notAfter - Int64(Date().timeIntervalSince1970)
        #expect((86_400...2 * 86_400).contains(left) && facts.notBefore < facts.notAfter)
        #expect(facts.fingerprint.utf8.count == 64)
        // It can be shown to a server.
        _ = try TLSClientContext(trust: .system, certificate: identity)
    }

    @Test(
        arguments: [
            ("new.p12", "wrong", "the password does not open it"), ("new.p12", nil, "it needs a password"),
            ("old.p12", "wrong", "the password does not open it"), ("keyless.p12", "secret", "no private key"),
            ("locked.pem", "wrong", "does not open the private key"), ("locked.pem", nil, "needs a password"),
            ("oldlocked.pem", "wrong", "does not open the private key"), ("oldlocked.pem", nil, "needs a password"),
            ("cert.pem", nil, "no private key"), ("key.pem", nil, "holds no certificate"),
            ("foreign.pem", nil, "belongs to none of the certificates"), ("cut.p12", "secret", "damaged"),
            ("cut.pem", nil, "no "), ("empty", nil, "holds no certificate"), ("request", nil, "holds no certificate"),
            ("nomac.p12", "secret", "'openssl pkcs12 -nomacver"),
            ("rc2.pem", "secret", "old cipher: convert"), ("des.pem", "secret", "old cipher: convert"),
            ("nowhere.p12", nil, "No such file"),
        ] as [(String, String?, String)])
    func refusal(_ name: String, _ password: String?, _ words: String) throws {
        do {
            _ = try load(name, password)
            Issue.record("\(name) was taken")
        } catch let error as TLSError {
            #expect(error.message.contains(words), "\(name): \(error.message)")
            #expect(!error.message.contains("\n") && !error.message.contains("secret"))
        }
    }

    @Test func damagedBytesStopNobody() throws {
        let folder = try Self.shared.get()
        var random = SeededGenerator(seed: 5)
        for name in ["new.p12", "old.p12", "mixed.pem", "locked.pem"] {
            let whole = [UInt8](try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(name)")))
            for _ in 0..<60 {
                var bytes = whole
                for _ in 0..<Int.random(in: 1...8, using: &random) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                // Whatever comes of it, it is an identity or a fault with words.
                do { _ = try TLSIdentity(contents: bytes, password: "secret").facts } catch {
                    #expect(!error.message.isEmpty)
                }
            }
        }
    }

    @Test func aMissingRootIsNoticed() throws {
        let own = try TLSClientContext(trust: .pem(try CertificateIssuer().certificatePEM))
        #expect(!own.trusts(.userTrustRSA))
        // Debian's ca-certificates have it.
        #expect(try TLSClientContext(trust: .system).trusts(.userTrustRSA))
    }

    @Test func extensionsAndExportsOfOurOwn() throws {
        let issuer = try CertificateIssuer()
        let value: [UInt8] = [0x30, 0x03, 0x0c, 0x01, 0x61]
        let issued = try issuer.issue(
            commonName: "x", names: [], usage: .client, userID: "com.example.x",
            extensions: [("1.2.840.113635.100.6.3.6", value)])
        let identity = try TLSIdentity(contents: try issued.pkcs12(password: "p"), password: "p")
        #expect(identity.extensionValue("1.2.840.113635.100.6.3.6") == value)
        #expect(identity.extensionValue("1.2.840.113635.100.6.3.1") == nil)
        let read = try #require(CertificateFacts.read(issued.certificateDER, extensions: ["1.2.840.113635.100.6.3.6"]))
        #expect(read.facts == identity.facts && read.extensions == ["1.2.840.113635.100.6.3.6": value])
        #expect(CertificateFacts.read([1, 2, 3], extensions: []) == nil)
    }
}
