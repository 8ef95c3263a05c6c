// Keys and ids from the environment: every form people have, and one clear line for everything else.

import APNs
import TLS
import Testing

/// Keys of all kinds, made once by the openssl command.
final class KeyFixtures: Sendable {
    static let shared = Result { try KeyFixtures() }

    let pem: String
    let sec1: String
    let sec1WithParameters: String
    /// Name of what it is, the key's text, a word the error must have.
    let refused: [(name: String, bytes: [UInt8], word: String)]

    private init() throws {
        let openssl = try OpenSSLCommand()
        let made = try openssl.run(
            """
            openssl ecparam -name prime256v1 -genkey -out with
            openssl ec -in with -out sec1
            openssl pkcs8 -topk8 -nocrypt -in sec1 -out pk8
            openssl ec -in sec1 -pubout -out public
            openssl ecparam -name secp384r1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out secp384r1
            openssl ecparam -name secp256k1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out secp256k1
            openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa
            openssl genpkey -algorithm ED25519 -out ed25519
            openssl req -x509 -new -key sec1 -subj /CN=x -days 2 -out certificate
            openssl pkcs12 -export -legacy -inkey sec1 -in certificate -passout pass: -out p12
            """)
        guard made else { throw APNsError(.key, "openssl", "is needed for these tests") }
        pem = try openssl.text("pk8")
        sec1 = try openssl.text("sec1")
        sec1WithParameters = try openssl.text("with")
        let truncated = Array(try openssl.read("pk8").dropLast(60))
        refused =
            try ["secp384r1", "secp256k1", "rsa", "ed25519", "public", "p12"].map { name in
                (name, try openssl.read(name), name == "p12" ? ".p12" : "P-256")
            } + [("truncated", truncated, "cut off"), ("words", Array("no key at all".utf8), "not a private key")]
    }

    /// The spellings of F11.
    var spellings: [(name: String, text: String)] {
        let lines = pem.split(separator: "\n").map(String.init)
        let body = lines.dropFirst().dropLast()
        return [
            ("as it is", pem), ("no final newline", lines.joined(separator: "\n")),
            ("CRLF", lines.joined(separator: "\r\n") + "\r\n"), ("literal \\n", lines.joined(separator: "\\n")),
            ("blanks", lines.joined(separator: " ")), ("quotes", "\"\(pem)\""),
            ("quotes and literal \\n", "\"" + lines.joined(separator: "\\n") + "\\n\""),
            ("base64 of the file", Base64.encode(Array(pem.utf8))), ("bare body", body.joined()),
            ("bare body, wrapped", body.joined(separator: "\n")), ("SEC1", sec1),
            ("SEC1 with parameters", sec1WithParameters),
        ]
    }
}

@Suite struct CredentialLoaderTests {
    private let ids = ["APNS_KEY_ID": "ABC123DEFG", "APNS_TEAM_ID": "TEAM123456", "APNS_BUNDLE_ID": "com.example.app"]

    private func environment(_ changes: [String: String?]) -> [String: String] {
        var environment = ids
        for (name, value) in changes { environment[name] = value }
        return environment
    }

    private func refusal(_ changes: [String: String?]) -> APNsError? {
        do {
            _ = try CredentialLoader(environment(changes)).load()
            Issue.record("accepted")
            return nil
        } catch {
            #expect(!error.description.contains("\n"))
            #expect(error.description.utf8.count < 300)
            #expect(CredentialLoader(environment(changes)).problems.contains { $0.subject == error.subject })
            return error
        }
    }

    private func key(_ credentials: APNsCredentials) throws -> APNsKey {
        guard case .key(let key)? = credentials.production else { throw APNsError(.missing, "the key", "is not there") }
        return key
    }

    private func signs(_ key: P256PrivateKey) throws -> Bool {
        let message = Array("m".utf8)
        return key.publicKey.verifyES256(try key.signES256(message), of: message)
    }

    @Test func F11_everySpellingLoadsFromTheEnvironmentAndFromAFile() throws {
        let fixtures = try KeyFixtures.shared.get()
        let openssl = try OpenSSLCommand()
        for (name, text) in fixtures.spellings {
            let loaded = try CredentialLoader(environment(["APNS_KEY": text])).load()
            #expect(try signs(try key(loaded).privateKey), "\(name)")
            try openssl.write(Array(text.utf8), to: "key.p8")
            let fromFile = try CredentialLoader(environment(["APNS_KEY_PATH": openssl.path("key.p8")])).load()
            #expect(try signs(try key(fromFile).privateKey), "\(name)")
            #expect(CredentialLoader(environment(["APNS_KEY": text])).problems.isEmpty)
        }
    }

    @Test func F12_F13_everythingElseIsRefusedInOneLine() throws {
        let fixtures = try KeyFixtures.shared.get()
        let openssl = try OpenSSLCommand()
        for (name, bytes, word) in fixtures.refused {
            try openssl.write(bytes, to: "key.p8")
            let path = openssl.path("key.p8")
            let fault = refusal(["APNS_KEY_PATH": path])
            #expect(fault?.code == .key, "\(name)")
            #expect(
                fault?.description.contains("APNS_KEY_PATH (\(path))") == true, "\(name): \(fault?.description ?? "")")
            #expect(fault?.description.contains(word) == true, "\(name): \(fault?.description ?? "")")
            guard let text = String(validating: bytes, as: UTF8.self) else { continue }
            let fromText = refusal(["APNS_KEY": text])
            #expect(fromText?.description.hasPrefix("APNS_KEY cannot be used") == true, "\(name)")
            #expect(fromText?.description.contains(word) == true, "\(name): \(fromText?.description ?? "")")
            // No line of the key is shown.
            for line in text.split(separator: "\n") where line.count > 20 {
                #expect(fromText?.description.contains(line) == false)
            }
        }
    }

    @Test func missingThingsNameTheVariableAndTheRemedy() throws {
        let pem = try KeyFixtures.shared.get().pem
        #expect(
            refusal([:])?.description
                == "APNS_KEY_PATH is not set: give the path of the .p8 file from Apple, or its contents in APNS_KEY, or a certificate in APNS_CERT_PATH"
        )
        for (name, word) in [
            ("APNS_KEY_ID", "AuthKey_"), ("APNS_TEAM_ID", "membership"), ("APNS_BUNDLE_ID", "com.example"),
        ] {
            for absent in [nil, "", "  \n", "\"\""] as [String?] {
                let fault = refusal(["APNS_KEY": pem, name: absent])
                #expect(fault?.code == .missing)
                #expect(fault?.description.hasPrefix("\(name) is not set: give ") == true)
                #expect(fault?.description.contains(word) == true)
            }
        }
    }

    @Test func malformedIdsAreShownOnlyWhenShort() throws {
        let pem = try KeyFixtures.shared.get().pem
        for name in ["APNS_KEY_ID", "APNS_TEAM_ID"] {
            for bad in ["short", "elevenchars", "with space", "umlautäöü1", "ABC-123-DE"] {
                let fault = refusal(["APNS_KEY": pem, name: bad])
                #expect(fault?.code == .malformed)
                #expect(fault?.description.hasPrefix("\(name) is ") == true)
                #expect(fault?.description.contains("10 letters and digits") == true)
            }
            let leak = refusal(["APNS_KEY": pem, name: pem])
            #expect(leak?.description.contains("a text of") == true)
            #expect(leak?.description.contains("PRIVATE") == false)
        }
        for bad in ["com example", "com/example", ".com", "com.", "bündle", String(repeating: "a", count: 156)] {
            #expect(refusal(["APNS_KEY": pem, "APNS_BUNDLE_ID": bad])?.subject == "APNS_BUNDLE_ID")
        }
    }

    @Test func blanksAndQuotesAroundIdsAreDropped() throws {
        let pem = try KeyFixtures.shared.get().pem
        let loaded = try CredentialLoader(
            environment([
                "APNS_KEY": pem, "APNS_KEY_ID": " ABC123DEFG\n", "APNS_TEAM_ID": "\"TEAM123456\"",
                "APNS_BUNDLE_ID": "com.example.app\r\n",
            ])
        ).load()
        #expect(try key(loaded).keyID == "ABC123DEFG")
        #expect(try key(loaded).teamID == "TEAM123456")
        #expect(loaded.bundleID == "com.example.app")
    }

    @Test func bothKeysAreAConflict() throws {
        let pem = try KeyFixtures.shared.get().pem
        let fault = refusal(["APNS_KEY": pem, "APNS_KEY_PATH": "/x.p8"])
        #expect(fault?.code == .conflict)
        #expect(fault?.description == "APNS_KEY_PATH and APNS_KEY are both set: keep the one that is meant")
    }

    @Test func mixUpsAreNamed() throws {
        let fixtures = try KeyFixtures.shared.get()
        for (name, text) in fixtures.spellings {
            let fault = refusal(["APNS_KEY_PATH": text])
            #expect(
                fault?.description == "APNS_KEY_PATH holds a key instead of a path: put it into APNS_KEY", "\(name)")
        }
        #expect(
            refusal(["APNS_KEY": "/run/secrets/AuthKey_ABC123DEFG.p8"])?.description
                == "APNS_KEY holds a path instead of a key: put it into APNS_KEY_PATH")
    }

    @Test func unreadableFilesSayWhy() {
        #expect(
            refusal(["APNS_KEY_PATH": "/does/not/exist.p8"])?.description
                == "APNS_KEY_PATH cannot read /does/not/exist.p8: No such file or directory")
        #expect(refusal(["APNS_KEY_PATH": "/tmp"])?.description.contains("Is a directory") == true)
    }

    @Test func theFileNameKnowsTheKeyID() throws {
        let openssl = try OpenSSLCommand()
        try openssl.write(Array(try KeyFixtures.shared.get().pem.utf8), to: "AuthKey_XYZ1234567.p8")
        let path = openssl.path("AuthKey_XYZ1234567.p8")
        let missing = refusal(["APNS_KEY_PATH": path, "APNS_KEY_ID": nil])
        #expect(missing?.description.contains("suggests XYZ1234567") == true)
        #expect(
            CredentialLoader(environment(["APNS_KEY_PATH": path])).advice
                == "APNS_KEY_ID is \"ABC123DEFG\", but the key file is named after XYZ1234567")
        #expect(CredentialLoader(environment(["APNS_KEY_PATH": path, "APNS_KEY_ID": "XYZ1234567"])).advice == nil)
        #expect(CredentialLoader(environment(["APNS_KEY_PATH": "/x/key.p8"])).advice == nil)
    }

    @Test func problemsAreAllShown() {
        let subjects = CredentialLoader([:]).problems.map(\.subject)
        #expect(subjects == ["APNS_KEY_PATH", "APNS_KEY_ID", "APNS_TEAM_ID", "APNS_BUNDLE_ID"])
    }
}
