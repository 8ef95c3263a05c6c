// send-test: one push, and everything that Apple says about it. No database is needed, and none is named here.

import Foundation
import TestSupport
import Testing

@Suite("send-test") struct SendTests {
    private let token = "ab12" + String(repeating: "0", count: 60)

    private func runner(_ simulator: SimulatorProcess, _ more: [String: String] = [:]) -> CommandLineRunner {
        CommandLineRunner().with(simulator.environment).with(more)
    }

    /// The simulator's table of magic tokens, as its help prints it.
    private func magicTokens() throws -> [(digits: String, summary: String)] {
        let help = try Subprocess.require(SimulatorProcess.executable("apns-simulator").path, ["--help"])
        var rows: [(digits: String, summary: String)] = []
        var isThere = false
        for line in help.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("Magic device tokens") { isThere = true } else if isThere, line.isEmpty { break }
            let words = line.split(separator: " ", maxSplits: 1)
            guard isThere, line.hasPrefix("  "), words.count == 2 else { continue }
            rows.append((String(words[0]), words[1].trimmingCharacters(in: .whitespaces)))
        }
        return rows
    }

    @Test("tells status, reason and remedy of every answer that the simulator knows")
    func everyAnswer() async throws {
        let table = try magicTokens()
        try #require(table.count > 60)
        try await SimulatorProcess.run { simulator in
            let pgpush = runner(simulator)
            for (digits, summary) in table {
                let magic = "5ca1ab1e" + digits + String(repeating: "0", count: 52)
                let isSilent = ["00aa", "01aa", "03aa", "03bb"].contains(digits)
                var words = ["send-test", "--token", magic, "--json", "--timeout", isSilent ? "4" : "60"]
                if summary.contains("on the sandbox") { words.append("--sandbox") }
                let result = try Subprocess.run(
                    CommandLineRunner.executable, words, environment: pgpush.environment)
                let said = try #require(
                    try CommandLineRunner.objects(result.output).first, "\(digits): \(result.errors)")
                let remedy = said["remedy"] as? String
                #expect(remedy?.isEmpty == false && (said["meaning"] as? String)?.isEmpty == false, "\(digits)")
                let parts = summary.split(whereSeparator: { " ,".contains($0) })
                if let status = parts.first.flatMap({ Int($0) }), status >= 400 {
                    #expect(said["status"] as? Int == status, "\(digits) \(summary): \(result.output)")
                    #expect(said["result"] as? String == "rejected")
                    #expect(result.status == (status == 403 ? 4 : 6), "\(digits)")
                    // The others are about bodies that have no reason, or an odd one.
                    if !digits.hasSuffix("dd") { #expect(said["reason"] as? String == String(parts[1])) }
                    #expect(
                        said["retry_after"] as? String == (summary.contains("retry-after") ? "2" : nil), "\(digits)")
                } else if said["result"] as? String == "accepted" {
                    #expect(said["status"] as? Int == 200 && result.status == 0, "\(digits)")
                    #expect(!isSilent && !["00bb", "04bb"].contains(digits), "\(digits)")
                } else {
                    #expect(["unknown", "not_sent"].contains(said["result"] as? String), "\(digits) \(result.output)")
                    // A goodbye that names the certificate asks for another one.
                    let isRefused = summary.hasPrefix("GOAWAY BadCertificate")
                    #expect(result.status == (isRefused ? 4 : 6) && said["status"] is NSNull, "\(digits)")
                    #expect(!summary.contains("accepted after 2 s") && !digits.hasSuffix("ee"), "\(digits)")
                }
                if digits == "0410" || digits == "1410" {
                    let age = Date().timeIntervalSince1970 - ((said["timestamp"] as? Double) ?? 0) / 1000
                    #expect(digits == "0410" ? (-5...120).contains(age) : age > 86_000)
                }
            }
        }
    }

    @Test("prints what Apple has answered, for people")
    func text() async throws {
        try await SimulatorProcess.run { simulator in
            let pgpush = runner(simulator)
            let accepted = try pgpush.run("send-test", "--token", token, "--sandbox", "--body", "Hi")
            #expect(accepted.status == 0 && accepted.errors.isEmpty, "\(accepted.errors)")
            let sent = try #require(try simulator.journal().requests.first)
            #expect(sent.environment == "sandbox" && sent.token == token)
            #expect(sent.body == #"{"aps":{"alert":{"body":"Hi"},"sound":"default"}}"# && sent.warnings == nil)
            let now = Int(Date().timeIntervalSince1970)
            #expect((now + 3000...now + 3700).contains(Int(sent.headers["apns-expiration"] ?? "") ?? 0))
            #expect(sent.headers["apns-priority"] == "10" && sent.headers["apns-push-type"] == "alert")
            for part in [
                "accepted", "200", sent.answerId ?? "?", "apns-unique-id", "sandbox", " ms", simulator.sandboxURL,
            ] {
                #expect(accepted.output.contains(part), "\(part) in \(accepted.output)")
            }
            let production = try pgpush.run("send-test", "--token", token)
            #expect(production.status == 0 && !production.output.contains("apns-unique-id"))

            let bad = try pgpush.run("send-test", "--token", "5ca1ab1e0400" + String(repeating: "0", count: 52))
            #expect(bad.status == 6 && bad.output.contains("BadDeviceToken") && bad.output.contains("Xcode"))
            let gone = try pgpush.run("send-test", "--token", "5ca1ab1e0410" + String(repeating: "0", count: 52))
            #expect(gone.status == 6 && gone.output.contains("dead since") && gone.output.contains("delete the token"))
        }
    }

    @Test("sends what it is told to: silent, raw, of any type, to a topic")
    func forms() async throws {
        try await SimulatorProcess.run(["--strict"]) { simulator in
            let pgpush = runner(simulator)
            let spelled = "<" + token.uppercased().prefix(8) + " " + token.dropFirst(8) + ">\n"
            try pgpush.output("send-test", "--token", spelled, "--silent")
            let raw = "{ \"aps\" : {\"alert\":\"ä\"} , \"x\":1.0 }"
            try pgpush.output(
                "send-test", "--token", token, "--raw", "-", "--collapse-id", "c1", "--priority", "5", input: raw)
            try pgpush.output("send-test", "--token", token, "--push-type", "widgets")
            try pgpush.output(
                "send-test", "--token", token, "--push-type", "mdm", "--topic", "com.apple.mgmt.External.1", "--raw",
                "-",
                input: #"{"mdm":"magic"}"#)
            let long = "{\"aps\":{},\"x\":\"" + String(repeating: "x", count: 5120 - 17) + "\"}"
            try pgpush.output("send-test", "--token", token, "--push-type", "voip", "--raw", "-", input: long)

            let requests = try simulator.journal().requests
            try #require(requests.count == 5 && requests.allSatisfy(\.isAccepted))
            #expect(requests[0].token == token && requests[0].body == #"{"aps":{"content-available":1}}"#)
            #expect(
                requests[0].headers["apns-push-type"] == "background" && requests[0].headers["apns-priority"] == "5")
            #expect(requests[1].body == raw && requests[1].headers["apns-collapse-id"] == "c1")
            #expect(requests[1].headers["apns-priority"] == "5")
            #expect(requests[2].headers["apns-topic"] == "com.example.pgpush.push-type.widgets")
            #expect(requests[2].body == #"{"aps":{"content-changed":true}}"#)
            #expect(requests[3].headers["apns-topic"] == "com.apple.mgmt.External.1")
            #expect(requests[4].bodyLength == 5120)
        }
    }

    @Test("refuses what cannot be sent, and sends nothing then")
    func refusals() async throws {
        try await SimulatorProcess.run { simulator in
            func refusal(_ words: String..., input: String = "", more: [String: String] = [:]) throws -> CommandResult {
                try Subprocess.run(
                    CommandLineRunner.executable, ["send-test"] + words,
                    environment: runner(simulator, more).environment, input: input)
            }
            let cases: [([String], String, String)] = [
                ([], "", "--token is missing"),
                (["--token", "abc"], "", "odd number"),
                (["--token", "{length = 32, bytes = 0x1234 ... 5678}"], "", "shortened description"),
                (["--token", "zz" + token], "", "not hex digits"),
                (["--token", token, "--silent", "--body", "x"], "", "exclude each other"),
                (["--token", token, "--push-type", "liveactivity"], "", "--raw"),
                (["--token", token, "--push-type", "loud"], "", "one of alert"),
                (["--token", token, "--push-type", "mdm", "--raw", "-"], "{}", "topic"),
                (["--token", token, "--silent", "--priority", "10"], "", "apns-priority"),
                (["--token", token, "--priority", "7"], "", "--priority"),
                (["--token", token, "--raw", "-"], "", "is empty"),
                (["--token", token, "--raw", "-"], String(repeating: "x", count: 4097), "more than 4096"),
                (["--token", token, "--push-type", "voip", "--raw", "-"], String(repeating: "x", count: 5121), "5120"),
                (["--token", token, "--collapse-id", String(repeating: "é", count: 33)], "", "64 bytes"),
            ]
            for (words, input, expected) in cases {
                let result = try Subprocess.run(
                    CommandLineRunner.executable, ["send-test"] + words, environment: runner(simulator).environment,
                    input: input)
                #expect(result.status == 2, "\(words): \(result.errors)")
                #expect(result.errors.contains(expected), "\(words): \(result.errors)")
                #expect(!result.errors.contains(token), "messages end up in logs")
            }
            #expect(try refusal("--token", token, "--raw", "/nonexistent").status == 1)
            #expect(try refusal("--token", token, more: ["APNS_TEAM_ID": ""]).status == 4)
            #expect(try refusal("--token", token, more: ["APNS_PRODUCTION_URL": "https://127.0.0.1:1"]).status == 6)
            // It goes the way that the worker would go.
            let unproxied = try refusal("--token", token, more: ["APNS_PROXY_URL": "http://127.0.0.1:1"])
            #expect(unproxied.status == 6 && unproxied.output.contains("not_sent"), "\(unproxied.output)")
            #expect(try refusal("--token", token, more: ["APNS_PROXY_URL": "https://x:1"]).status == 4)
            #expect(try simulator.journal().requests.isEmpty)
        }
    }

    @Test("goes through the proxy that is named, and so do channels")
    func proxied() async throws {
        let proxy = try TinyProxy()
        try await proxy.start()
        try await SimulatorProcess.run { simulator in
            let pgpush = runner(simulator, ["APNS_PROXY_URL": proxy.url])
            #expect(try pgpush.run("send-test", "--token", token, "--sandbox").status == 0)
            try pgpush.output("channels", "create")
            #expect(proxy.log.contains("127.0.0.1:\(simulator.sandboxPort)"), "\(proxy.log)")
            #expect(proxy.log.contains("127.0.0.1:\(simulator.productionPort)"))
            let stranger = try pgpush.with(["APNS_PROXY_URL": "http://127.0.0.1:\(proxy.port)"])
                .run("send-test", "--token", token)
            #expect(
                stranger.status == 6 && stranger.output.contains("asks for a user and a password"), "\(stranger.output)"
            )
        }
        await proxy.stop()
    }

    @Test("by certificate, and with one that Apple does not accept")
    func certificates() async throws {
        try await SimulatorProcess.run(["--auth", "certificate"]) { simulator in
            #expect(try runner(simulator).run("send-test", "--token", token).status == 0)
            let foreign = "\(simulator.folder)/foreign.pem"
            let script = """
                openssl req -x509 -newkey rsa:2048 -nodes -keyout \(foreign).key -out \(foreign).crt -days 2 \
                    -subj '/CN=Nobody/UID=com.example.pgpush' 2>/dev/null
                cat \(foreign).crt \(foreign).key > \(foreign)
                """
            try #require(try Subprocess.run("/bin/sh", ["-ec", script]).status == 0)
            let refused = try runner(simulator, ["APNS_CERT_PATH": foreign, "APNS_CERT_PASSWORD": ""])
                .run("send-test", "--token", token)
            #expect(refused.status == 4 && refused.output.contains("refuses us"), "\(refused.output) \(refused.errors)")
            #expect(try simulator.journal().requests.count == 1)

            // Said by GOAWAY instead of by an answer: nothing is gained by waiting, or by another connection.
            try await simulator.set("goaway-reason", "BadCertificateEnvironment")
            let knocks = try await simulator.counts().knocks
            let goAway = "5ca1ab1e02cc" + String(repeating: "0", count: 52)
            let other = try runner(simulator).run("send-test", "--token", goAway, "--timeout", "120")
            #expect(other.status == 4, "\(other.output) \(other.errors)")
            #expect(other.output.contains("BadCertificateEnvironment") && other.output.contains("other environment"))
            #expect(try await simulator.counts().knocks <= knocks + 2)
        }
    }
}
