// Section "key files": keys as people hand them over, given to a worker that then sends a push, or says in one line why not.

import Foundation
import TestSupport
import Testing

@Suite("Key files") struct KeyForms {
    /// Runs a shell script in a folder that is removed afterwards, and gives the folder to `body`.
    private func inFolder<T>(_ script: String, _ body: (String) async throws -> T) async throws -> T {
        let folder = NSTemporaryDirectory() + "/pgpush-keys-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try Subprocess.require("/bin/sh", ["-ec", "cd '\(folder)'\n" + script])
        return try await body(folder)
    }

    @Test("F11, F13: every documented form of a P-256 key starts a worker, and what it signs is accepted")
    func goodForms() async throws {
        try await Rig.run { rig in
            // The simulator knows this key; it comes as PKCS#8.
            let file = try #require(rig.environment["APNS_KEY_PATH"])
            let pem = try String(contentsOfFile: file, encoding: .utf8)
            let script = "openssl ec -in '\(file)' -out sec1; (openssl ecparam -name prime256v1; cat sec1) > sec1.with"
            try await inFolder(script) { folder in
                let sec1 = try String(contentsOfFile: folder + "/sec1", encoding: .utf8)
                let settings =
                    texts(pem).map { ["APNS_KEY": $0] }
                    + [
                        ["APNS_KEY": sec1], ["APNS_KEY_PATH": folder + "/sec1"],
                        ["APNS_KEY_PATH": folder + "/sec1.with"],
                    ]
                for (place, setting) in settings.enumerated() {
                    try rig.addDevices(place + 1...place + 1)
                    try rig.addSingles(place + 1...place + 1)
                    let worker = try rig.worker("--once", more: ["APNS_KEY_PATH": ""].merging(setting) { $1 })
                    #expect(try await worker.exitCode() == 0, "form \(place)")
                    expectNoKey(worker.log, of: pem)
                }
                try await rig.allSinglesSent(settings.count)
                expectEachOnce(try rig.simulator.journal(), settings.count)
            }
        }
    }

    /// How a key stands in an environment variable.
    private func texts(_ pem: String) -> [String] {
        let lines = pem.split(separator: "\n").map(String.init)
        let base64 = Data(pem.utf8).base64EncodedString()
        return [
            pem, lines.joined(separator: "\\n"), lines.joined(separator: " "), "\"\(pem)\"", base64,
            lines.dropFirst().dropLast().joined(),
        ]
    }

    /// No line of the key's body stands in a text.
    private func expectNoKey(_ text: String, of key: String, _ location: SourceLocation = #_sourceLocation) {
        for line in key.split(separator: "\n") where line.count > 20 && !line.hasPrefix("-----") {
            #expect(!text.contains(line), sourceLocation: location)
        }
    }

    /// A file that is no signing key, and a word of the line that says so.
    private static let bad = [
        ("secp256k1", "P-256"), ("secp384r1", "P-256"), ("rsa", "P-256"), ("ed25519", "P-256"), ("public", "P-256"),
        ("truncated", "cut off"), ("p12", ".p8"), ("p12.legacy", ".p8"), ("p12.empty", ".p8"), ("cert.der", ".p8"),
        ("nothing", "empty"), ("words", "not a private key"),
    ]

    private static let makeBad = """
        for curve in secp256k1 secp384r1; do
            openssl ecparam -name $curve -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out $curve
        done
        openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa
        openssl genpkey -algorithm ED25519 -out ed25519
        openssl ecparam -name prime256v1 -genkey -noout -out key
        openssl ec -in key -pubout -out public
        openssl pkcs8 -topk8 -nocrypt -in key -out pk8
        head -c 150 pk8 > truncated
        openssl req -x509 -new -key key -subj /CN=x -days 2 -out crt
        openssl x509 -in crt -outform DER -out cert.der
        openssl pkcs12 -export -inkey key -in crt -passout pass:secret -out p12
        openssl pkcs12 -export -legacy -inkey key -in crt -passout pass:secret -out p12.legacy
        openssl pkcs12 -export -inkey key -in crt -passout pass: -out p12.empty
        : > nothing
        echo 'my key is safe' > words
        """

    @Test("F12, F13: every other file stops the start with 4 and one line that says what is needed; nothing is signed")
    func badForms() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            try rig.addSingles(1...1)
            try await inFolder(Self.makeBad) { folder in
                for (name, word) in Self.bad {
                    try expectRefusal(rig, ["APNS_KEY_PATH": "\(folder)/\(name)"], word, "\(name)")
                    // What is no text cannot stand in a variable.
                    guard let text = try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8), !text.isEmpty
                    else { continue }
                    let errors = try expectRefusal(
                        rig, ["APNS_KEY_PATH": "", "APNS_KEY": text], word, "\(name) as text")
                    expectNoKey(errors, of: text)
                }
                // Where a certificate belongs, a wrong password is called that, and told nobody.
                for name in ["p12", "p12.legacy", "p12.empty"] {
                    let variables = [
                        "APNS_KEY_PATH": "", "APNS_CERT_PATH": "\(folder)/\(name)", "APNS_CERT_PASSWORD": "wrong-word",
                    ]
                    let errors = try expectRefusal(
                        rig, variables, "the password does not open it", "\(name) as a certificate")
                    #expect(!errors.contains("wrong-word"))
                }
            }
            #expect(try await rig.simulator.counts().knocks == 0)
            #expect(
                try rig.database.number("SELECT count(*) FROM scheduled_notifications WHERE status = 'pending'") == 1)
        }
    }

    /// The worker ends with 4 and says why in one line (and perhaps a hint); returns what it said.
    @discardableResult
    private func expectRefusal(
        _ rig: Rig, _ variables: [String: String], _ word: String, _ name: String
    ) throws -> String {
        let result = try rig.pgpush("worker", "--once", more: variables)
        #expect(result.status == 4 && result.output.isEmpty, "\(name): \(result.status) \(result.errors)")
        let lines = result.errors.split(separator: "\n")
        #expect(lines.count <= 2 && result.errors.contains(word), "\(name): \(result.errors)")
        return result.errors
    }
}
