// The file that PGPUSH_CONFIG names: what it may say, where its settings go before or behind those of the environment, and how a
// mistake in it is told.

import APNs
import Foundation
import PushModel
import TLS
import TestSupport
import Testing

@testable import PushStore
@testable import pgpush

@Suite("The configuration file") struct CommandLineAppsFile {
    private static let path = "/etc/pgpush/apps.json"

    private func problem(_ text: String) -> String? {
        do throws(ConfigurationError) {
            _ = try ConfigurationFile(text, path: Self.path)
            return nil
        } catch {
            #expect(error.variable == "PGPUSH_CONFIG" && !error.remedy.isEmpty)
            return error.problem
        }
    }

    private static let mistakes: [(String, String)] = [
        ("", "line 1: the text ends in the middle"),
        ("[]", "line 1: the file must hold an object, not a list"),
        ("{}", "\"apps\" must be there"),
        (#"{"apps": []}"#, "at least one app"),
        (#"{"apps": {}}"#, "\"apps\" must be there and be a list"),
        (#"{"apps": ["x"]}"#, "an app must be an object, not a text"),
        (#"{"apps": [{"bundle_id": "x"}]}"#, "has no \"name\""),
        (#"{"apps": [{"name": ""}]}"#, "\"name\" must be a text in quotes, not an empty text"),
        (#"{"apps": [{"name": 7}]}"#, "\"name\" must be a text in quotes, not a number"),
        (#"{"apps": [{"name": "a\u0007"}]}"#, "\"name\" must be what stands in the column app"),
        (
            "{\"apps\": [{\"name\": \"a\"},\n{\"name\": \"a\"}]}",
            "line 2: app \"a\" stands here a second time (first on line 1)"
        ),
        (
            "{\"apps\": [{\"name\": \"a\",\n\n\"bundel_id\": \"x\"}]}",
            "line 3: \"bundel_id\" is not known in an app, did you mean \"bundle_id\"?"
        ),
        (#"{"apps": [{"name": "a"}], "colour": "red"}"#, "\"colour\" is not known beside \"apps\"; known are key_path"),
        (#"{"apps": [{"name": "a"}], "bundle_id": "x"}"#, "\"bundle_id\" is not known beside \"apps\""),
        (#"{"apps": [{"name": "a", "key": "-----BEGIN"}]}"#, "name its file by \"key_path\""),
        (#"{"apps": [{"name": "a", "cert_password": "x"}]}"#, "name its file by \"cert_password_path\""),
        (#"{"apps": [{"name": "a", "production": "x"}]}"#, "must be an object with a key or a certificate, not a text"),
        (#"{"apps": [{"name": "a", "sandbox": {}}]}"#, "\"sandbox\" must be an object"),
        (#"{"apps": [{"name": "a", "sandbox": {"url": "x"}}]}"#, "\"url\" is not known under \"sandbox\""),
        (#"{"apps": [{"name": "a"}], "cert_path": "x"}"#, "\"cert_path\" is not known beside \"apps\""),
        (#"{"apps": [{"name": "a", "key_id": null}]}"#, "\"key_id\" must be a text in quotes, not null"),
        (#"{"apps": [{"name": "a", "max_lateness": 60}]}"#, "\"max_lateness\" must be a text in quotes, not a number"),
        (#"{"apps": [{"name": "a", "name": "b"}]}"#, "\"name\" stands here a second time"),
        (#"{"apps": [{"name": "a"},]}"#, "a value is expected here"),
        (#"{"apps": [{"name": "a",}]}"#, "a name in quotes is expected here"),
        ("// apps\n{}", "line 1: a value is expected here"),
        (#"{"apps": [{"name": "a"}]} x"#, "behind the end"),
        ("{\"apps\": [{\"name\": \"a\nb\"}]}", "a line break or control character"),
        (#"{"apps": [{"name": "\x"}]}"#, "not an escape"),
        (#"{"apps": [{"name": "\ud800"}]}"#, "half a character"),
        (#"{"apps": [{"name": "\u12"}]}"#, "four hexadecimal digits"),
        (#"{"apps": [{"name": "a"#, "a text does not end"),
        (#"{"apps": [{"name" "a"}]}"#, "a colon is expected after \"name\""),
        (#"{"apps": [{"name": "a"} {"name": "b"}]}"#, "a comma or ] is expected here"),
        (String(repeating: "[", count: 100_000), "nested too deeply"),
        (#"{"apps": 1e}"#, "is not a number"),
    ]

    @Test("tells each mistake with its line", arguments: mistakes) func mistake(_ text: String, _ expected: String) {
        let found = problem(text)
        #expect(found?.contains(expected) == true, "\(found ?? "no mistake")")
        #expect(found?.contains("(\(Self.path)), line") == true)
    }

    @Test("never shows a key that was put into it, or in its place, and no text stops the reader", arguments: 1...40)
    func confidential(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let secret = "MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg"
        let whole = Array(
            #"{"key_path": "\#(secret)", "apps": [{"name": "shop", "key": "\#(secret)", "bundle_id": "com.example.shop", "key_id": "\#(secret)", "team_id": ["\#(secret)", 1.5e3, null, "\u00e4"]}]}"#
                .utf8)
        for _ in 0..<250 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: place)
                case 2: bytes.insert(#"{}[]:,"\u/"#.utf8.randomElement(using: &random) ?? 0, at: place)
                default: bytes.removeSubrange(place...)
                }
                if bytes.isEmpty { bytes = [0x7b] }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            let said = problem(text) ?? ""
            #expect(!said.contains(secret.prefix(20)) && !said.contains(secret.suffix(20)), "\(said)")
        }
        for text in [String(decoding: whole, as: UTF8.self), "-----BEGIN PRIVATE KEY-----\n\(secret)", secret + secret]
        {
            do throws(ConfigurationError) {
                _ = try ConfigurationFile(path: text)
                Issue.record("that is no path")
            } catch {
                #expect(!"\(error)".contains(secret))
            }
        }
    }

    /// The app of a file with a certificate for both environments, and something else for the sandbox.
    private func sandbox(_ own: String, _ environment: [String: String] = [:]) throws -> [String: String] {
        let folder = NSTemporaryDirectory() + "/pgpush-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let issuer = try CertificateIssuer()
        for name in ["shared", "own"] {
            let issued = try issuer.issue(commonName: "x", names: [], usage: .client, userID: "com.example.app")
            let open = issued.certificatePEM + issued.privateKeyPEM
            let bytes = name == "shared" ? try issued.pkcs12(password: "s3cret") : open
            try Data(bytes).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
        }
        try Data(try P256PrivateKey.generate().pkcs8PEM.utf8).write(to: URL(fileURLWithPath: "\(folder)/key.p8"))
        try Data("s3cret\n".utf8).write(to: URL(fileURLWithPath: "\(folder)/password"))
        let text = """
            {"apps": [{"name": "default", "bundle_id": "com.example.app", "cert_path": "shared"\(environment.isEmpty ? ", \"cert_password_path\": \"password\"" : ""),
                       "sandbox": \(own)}]}
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/apps.json"))
        let variables = ["PGPUSH_CONFIG": "\(folder)/apps.json"].merging(environment) { $1 }
        let credentials = try PushSettings(variables).apps[0].credentials
        return [
            "production": credentials.production?.summary ?? "", "sandbox": credentials.sandbox?.summary ?? "",
            "same": credentials.production?.certificate?.fingerprint == credentials.sandbox?.certificate?.fingerprint
                ? "yes" : "no",
        ]
    }

    @Test("gives a password to its certificate alone, and a key beside it needs none")
    func passwords() throws {
        let key = #"{"key_path": "key.p8", "key_id": "ABC123DEFG", "team_id": "DEF123GHIJ"}"#
        for environment in [[:], ["APNS_CERT_PASSWORD": "s3cret"]] {
            let mixed = try sandbox(key, environment)
            #expect(
                mixed["production"] == "certificate \"x\""
                    && mixed["sandbox"] == "P-256 key ABC123DEFG of team DEF123GHIJ")
            #expect(try sandbox(#"{"cert_path": "own"}"#, environment)["same"] == "no")
            #expect(
                try sandbox(#"{"cert_path": "shared", "cert_password_path": "password"}"#, environment)["same"] == "yes"
            )
        }
    }

    @Test("asks for no credential where only the management host of an environment is named")
    func managedElsewhere() throws {
        let found = try sandbox(#"{"manage_url": "https://manage.example.com:2196"}"#)
        #expect(found["production"] == "certificate \"x\"" && found["same"] == "yes")
    }

    @Test("doctor tells two certificates of one name apart")
    func namesakes() throws {
        func certificate(_ validTo: Int) throws -> APNsCredential {
            let issued = try CertificateIssuer().issue(
                commonName: "x", names: [], usage: .client, validFrom: -30 * 86_400, validTo: validTo,
                userID: "com.example.app")
            return .certificate(
                APNsCertificate(
                    try TLSIdentity(certificateChainPEM: issued.certificatePEM, privateKeyPEM: issued.privateKeyPEM)))
        }
        let (good, expired) = (try certificate(300 * 86_400), try certificate(-86_400))
        func states(_ production: APNsCredential?, _ sandbox: APNsCredential?) throws -> [Check.State] {
            let credentials = try APNsCredentials(production: production, sandbox: sandbox, bundleID: "com.example.app")
            return CredentialChecks(
                name: "credentials", credentials: credentials, now: Int64(Date().timeIntervalSince1970)
            ).all.map(\.state)
        }
        #expect(try states(good, good) == [.ok])
        #expect(try states(good, expired) == [.ok, .fail])
        #expect(try states(certificate(10 * 86_400), nil) == [.warn, .ok])
        #expect(try states(nil, nil) == [.fail])
    }

    @Test func notText() { #expect(throws: JSONFault.self) { try JSONReader.read([0x22, 0xff, 0x22]) } }

    @Test("means what JSON means") func values() throws {
        func read(_ text: String) throws -> JSONNode.Value { try JSONReader.read(Array(text.utf8)).value }
        #expect(try read(#" "a\n\"\\\/\u00e4\ud83d\ude00ü" "#) == .text("a\n\"\\/ä😀ü"))
        #expect(
            try read("[true, false, null, -1.5e3]")
                == .array([
                    JSONNode(value: .bool(true), line: 1), JSONNode(value: .bool(false), line: 1),
                    JSONNode(value: .null, line: 1), JSONNode(value: .number("-1.5e3"), line: 1),
                ]))
        #expect(try read("{}") == .object([]) && read(" [ ] ") == .array([]))
    }

    // MARK: Where settings come from

    private func drafts(_ text: String, _ environment: [String: String] = [:]) throws -> [String: AppDraft] {
        let file = try ConfigurationFile(text, path: Self.path)
        let drafts = file.apps.map { AppDraft($0, file, Settings(environment: environment)) }
        return Dictionary(drafts.map { ($0.name, $0) }) { first, _ in first }
    }

    private static let two = """
        {
          "key_path": "keys/team.p8", "key_id": "SHAREDKEY1", "team_id": "TEAM000001", "max_lateness": "2h",
          "production_url": "https://wide.example",
          "apps": [
            {"name": "default", "bundle_id": "com.example.one", "key_id": "OWNKEY0001"},
            {"name": "two", "bundle_id": "com.example.two", "key_path": "/abs/two.p8", "max_lateness": "1h30m",
             "sandbox_url": "https://own.example:8443"}
          ]
        }
        """

    @Test("an app's own settings go before those for all, paths begin at the file") func precedence() throws {
        let drafts = try drafts(Self.two)
        let one = try #require(drafts["default"])
        let two = try #require(drafts["two"])
        #expect(
            one.variables["APNS_KEY_PATH"] == "/etc/pgpush/keys/team.p8"
                && two.variables["APNS_KEY_PATH"] == "/abs/two.p8")
        #expect(one.variables["APNS_KEY_ID"] == "OWNKEY0001" && two.variables["APNS_KEY_ID"] == "SHAREDKEY1")
        #expect(
            try one.hosts().production.host == "wide.example"
                && one.hosts().sandbox.host == "api.sandbox.push.apple.com")
        #expect(try two.hosts().sandbox.description == "https://own.example:8443")
        #expect(try one.lateness() == .seconds(7200) && two.lateness() == .seconds(5400))
        let plain = try #require(try self.drafts(#"{"apps": [{"name": "x"}]}"#)["x"])
        #expect(try plain.lateness() == .seconds(86_400))
        #expect(plain.trust.path == nil)
    }

    @Test("the environment speaks of the app named default, and of hosts and trust for whoever has none of their own")
    func environment() throws {
        let drafts = try drafts(
            Self.two,
            [
                "APNS_KEY_ID": "ENVKEY0001", "APNS_KEY": "text", "APNS_BUNDLE_ID": "com.example.env",
                "APNS_SANDBOX_URL": "https://env.example", "APNS_PRODUCTION_URL": "https://envp.example",
                "APNS_CA_PATH": "/env/ca.pem",
            ])
        let one = try #require(drafts["default"])
        let two = try #require(drafts["two"])
        #expect(one.variables["APNS_KEY_ID"] == "ENVKEY0001" && one.variables["APNS_BUNDLE_ID"] == "com.example.env")
        #expect(one.variables["APNS_KEY"] == "text" && one.variables["APNS_KEY_PATH"] == nil)
        #expect(two.variables["APNS_KEY_ID"] == "SHAREDKEY1" && two.variables["APNS_KEY"] == nil)
        #expect(two.variables["APNS_BUNDLE_ID"] == "com.example.two")
        #expect(try two.hosts().sandbox.host == "own.example" && two.hosts().production.host == "envp.example")
        #expect(try one.hosts().sandbox.host == "env.example")
        #expect(one.trust.path == "/env/ca.pem" && two.trust.path == "/env/ca.pem")
    }

    @Test("an app that the environment alone describes is served besides those of the file") func besides() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("apps.json").path
        try #"{"apps": [{"name": "shop"}]}"#.write(toFile: path, atomically: true, encoding: .utf8)
        func names(_ more: [String: String]) throws -> [String] {
            try PushSettings.drafts(["PGPUSH_CONFIG": path].merging(more) { $1 }).map(\.name)
        }
        #expect(try names([:]) == ["shop"])
        #expect(try names(["APNS_BUNDLE_ID": "com.example.x"]) == ["default", "shop"])
        #expect(try names(["APNS_PRODUCTION_URL": "https://x"]) == ["shop"])
    }

    @Test("says of each setting where it stands") func places() throws {
        let drafts = try drafts(
            #"{"team_id": "short", "apps": [{"name": "a"}, {"name": "b", "key_path": "-----BEGIN PRIVATE KEY-----", "max_lateness": "soon", "production_url": "http://x"}]}"#
        )
        let missing = try #require(drafts["a"]).loader.problems.map(\.description)
        let place = "PGPUSH_CONFIG (\(Self.path)): "
        #expect(missing.contains { $0.hasPrefix("\(place)key_path of app \"a\" is not set: give the path") })
        #expect(missing.contains { $0.hasPrefix("\(place)key_id of app \"a\" is not set") })
        #expect(missing.contains { $0.hasPrefix("\(place)team_id is \"short\", but must be 10 letters") })
        #expect(missing.contains { $0.hasPrefix("\(place)bundle_id of app \"a\" is not set") })
        let b = try #require(drafts["b"])
        #expect(b.loader.problems.contains { $0.description.contains("holds a key instead of a path") })
        #expect(!b.loader.problems.contains { $0.description.contains("BEGIN") })
        #expect { try b.lateness() } throws: { error in
            (error as? ConfigurationError)?.description == "\(place)max_lateness of app \"b\" is \"soon\""
        }
        #expect { try b.hosts() } throws: {
            "\($0)".hasPrefix("\(place)production_url of app \"b\" begins with http://")
        }
    }

    @Test(arguments: ["0s", "366d", "-1h", "1h 30m", "1m1h", "24", "∞", "1.5h"]) func latenesses(_ text: String) throws
    {
        let draft = try #require(try drafts(#"{"apps": [{"name": "x", "max_lateness": "\#(text)"}]}"#)["x"])
        #expect(throws: ConfigurationError.self) { try draft.lateness() }
    }

    // MARK: As a process

    @Test("stops the start with 4 and one line; doctor finds all of it") func processes() async throws {
        try await Rig.run { rig in
            let folder = rig.simulator.folder
            func refusal(_ text: String?, _ words: String...) async throws {
                let path = "\(folder)/apps.json"
                try? FileManager.default.removeItem(atPath: path)
                try text?.write(toFile: path, atomically: true, encoding: .utf8)
                let worker = try rig.worker(more: ["PGPUSH_CONFIG": path])
                #expect(try await worker.exitCode(within: .seconds(30)) == 4)
                #expect(worker.log.split(separator: "\n").count <= 2, "\(worker.log)")
                for word in [path] + words { #expect(worker.log.contains(word), "\(worker.log)") }
                let doctor = try rig.pgpush("doctor", more: ["PGPUSH_CONFIG": path])
                #expect(doctor.status == 4 && doctor.output.contains(words.last ?? ""), "\(doctor.output)")
            }
            try await refusal(nil, "PGPUSH_CONFIG", "No such file")
            try await refusal("{\n\"apps\": [\n{\"name\": \"a\", \"bundel_id\": \"x\"}]}", "line 3", "bundle_id")
            try await refusal(#"{"apps": [{"name": "a", "key_path": "nowhere.p8"}]}"#, "key_path of app", "nowhere.p8")
            try await refusal(
                #"{"max_lateness": "soon", "apps": [{"name": "default"}]}"#, "max_lateness is", "soon")

            var file = AppsFile()
            file.add("shop", at: rig.simulator, ["max_lateness": "2h"])
            file.add("news", at: rig.simulator)
            let variables = try file.write(in: folder)
            let doctor = try rig.pgpush("doctor", more: variables)
            #expect(doctor.status == 0, "\(doctor.output)")
            for words in ["describes 2 apps", "credentials of shop: ", "credentials of news: ", "production: "] {
                #expect(doctor.output.contains(words), "\(doctor.output)")
            }
        }
    }
}
