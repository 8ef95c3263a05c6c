// Each switch of the weather, set by the name that --help gives it, with what a client of other origin then sees.

import APNsSimulator
import Foundation
import TLS
import TestSupport
import Testing

@Suite("Each switch of the weather") struct SwitchWalkTests {
    /// What a walk works with.
    struct Bed {
        let simulator: SimulatorProcess
        let curl: CurlSender
        /// Signs for a key of the sandbox, and for one of another team.
        let sandboxKey, foreignKey: Signer

        func set(_ name: String, _ value: any CustomStringConvertible & Sendable) async throws {
            try await simulator.set(name, value)
        }
        func push(_ token: String = deviceToken("a1")) async throws -> CurlAnswer { try await curl.send(token) }
        func reason(_ token: String = deviceToken("a1")) async throws -> String { try await push(token).body }

        /// The statuses of pushes over one connection, one for each provider token.
        func together(_ bearers: [String], on url: String? = nil) async throws -> [String] {
            let parts = bearers.enumerated().map { number, bearer in
                (number == 0 ? [] : ["--next"]) + [
                    "--silent", "--http2", "--max-time", "60", "--cacert", simulator.authorityPath, "--output",
                    "/dev/null",
                    "--write-out", "%{http_code}\n", "--data", "{\"aps\":{\"alert\":\"Hello\"}}", "--header",
                    "authorization: \(bearer)", "--header", "apns-topic: \(appTopic)",
                    "\(url ?? simulator.productionURL)/3/device/\(deviceToken("b\(number)"))",
                ]
            }
            let result = try await runCommand(URL(fileURLWithPath: "/usr/bin/curl"), parts.flatMap(\.self))
            return result.output.split(separator: "\n").map(String.init)
        }

        /// The frames that nghttp saw of pushes to these tokens at once.
        func frames(_ tokens: [String]) async throws -> [String] {
            try await nghttp(simulator, tokens: tokens, bearer: curl.signer.bearer())
        }

        /// What the journal says of connections.
        func events(_ event: String) throws -> [SimulatedConnectionEvent] {
            try simulator.journal().connections.filter { $0.event == event }
        }

        /// Waits until the journal, or whatever else, says so.
        func until(_ isMet: () async throws -> Bool) async throws -> Bool {
            let deadline = ContinuousClock.now + .seconds(60)
            while true {
                if try await isMet() { return true }
                guard ContinuousClock.now < deadline else { return false }
                try await Task.sleep(for: .milliseconds(20))
            }
        }

        /// Whether so many GOAWAYs have been sent, within a while.
        func hasSaidGoodbye(_ count: Int) async throws -> Bool {
            try await until { try events("goaway").count == count }
        }

        /// Whether a connection is open and dead.
        func isMute() async throws -> Bool {
            try await simulator.control("connections").contains("\"mute\":true")
        }

        /// A client that says nothing after its handshake, until the connection ends.
        func silentClient() async throws {
            _ = try await runCommand(
                URL(fileURLWithPath: "/usr/bin/timeout"),
                [
                    "60", "/usr/bin/openssl", "s_client", "-connect", "127.0.0.1:\(simulator.productionPort)", "-alpn",
                    "h2", "-ign_eof",
                ])
        }
    }

    /// What is tried of some switches.
    struct Walk: Sendable, CustomTestStringConvertible {
        let names: [String]
        let steps: @Sendable (Bed) async throws -> Void
        var testDescription: String { names.joined(separator: ", ") }

        init(_ names: String..., steps: @escaping @Sendable (Bed) async throws -> Void) {
            self.names = names
            self.steps = steps
        }
    }

    static let walks = answers + streams + tokens + others + goodbyes + ends

    @Test("does what its line says", arguments: walks) func walk(_ walk: Walk) async throws {
        let folder = "\(NSTemporaryDirectory())/keys-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func key(_ id: String, _ team: String) throws -> Signer {
            var signer = try Signer.fresh()
            (signer.keyID, signer.teamID) = (id, team)
            try Data(try signer.key.pkcs8PEM.utf8).write(to: URL(fileURLWithPath: "\(folder)/\(id).p8"))
            return signer
        }
        let (sandbox, foreign) = (try key("SANDBOXKEY", "SIMTEAM001"), try key("FOREIGNKEY", "OTHERTEAM1"))
        let options = [
            "--key", "id=SANDBOXKEY,team=SIMTEAM001,file=\(folder)/SANDBOXKEY.p8,environment=sandbox",
            "--key", "id=FOREIGNKEY,team=OTHERTEAM1,file=\(folder)/FOREIGNKEY.p8",
            "--issue", "name=app", "--issue", "name=sand,topics=\(appTopic),environment=sandbox",
        ]
        try await SimulatorProcess.run(options) { simulator in
            try await walk.steps(
                Bed(
                    simulator: simulator, curl: try CurlSender(simulator), sandboxKey: sandbox, foreignKey: foreign))
        }
    }

    @Test("is walked here") func complete() {
        #expect(Set(Self.walks.flatMap(\.names)) == Set(WeatherSetting.table.map(\.name)))
    }
}

extension SwitchWalkTests {
    // MARK: Answers

    private static func share(_ name: String, _ status: Int, _ reason: String) -> Walk {
        Walk(name) { bed in
            try await bed.set(name, 1)
            let answer = try await bed.push()
            #expect(answer.status == status && answer.body.contains("\"\(reason)\""), "\(answer)")
            try await bed.set(name, 0)
            #expect(try await bed.push().status == 200)
        }
    }

    private static func lost(_ name: String, _ code: UInt32) -> Walk {
        Walk(name) { bed in
            try await bed.set(name, 1)
            #expect(try await bed.push().status == 0)
            let seen = try #require(try bed.simulator.journal().requests.first)
            #expect(seen.outcome == "reset" && seen.code == code)
        }
    }

    /// An answer takes so long that it comes by command.
    private static func delay(_ name: String) -> Walk {
        Walk(name) { bed in
            try await bed.set(name, 1_000_000_000)
            async let answer = bed.push()
            try await bed.simulator.wait(for: .held, atLeast: 1)
            #expect(try await bed.simulator.control("answer-held") == "1")
            #expect(try await answer.status == 200)
        }
    }

    private static let answers = [
        delay("latency-ms"), delay("jitter-ms"), share("gone-share", 410, "Unregistered"),
        share("bad-token-share", 400, "BadDeviceToken"), share("throttled-share", 429, "TooManyRequests"),
        share("error-share", 500, "InternalServerError"), lost("reset-share", StreamError.internalError),
        lost("refused-share", StreamError.refusedStream),
        Walk("answer-all") { bed in
            try await bed.set("answer-all", "403:InvalidProviderToken")
            #expect(try await bed.reason() == "{\"reason\":\"InvalidProviderToken\"}")
        },
        Walk("silent-share") { bed in
            try await bed.set("silent-share", 1)
            #expect(try await bed.curl.sendInVain(deviceToken("a1")).status == 0)
        },
        Walk("retry-after-s") { bed in
            try await bed.set("retry-after-s", 7)
            #expect(try await bed.push(magicToken("1503")).headers["retry-after"] == "7")
            #expect(try await bed.push(magicToken("0400")).headers["retry-after"] == nil)
        },
        Walk("gone-timestamp") { bed in
            try await bed.set("gone-share", 1)
            try await bed.set("gone-timestamp", "day-before")
            let body = try await bed.reason()
            let time = try #require(Int64(body.filter(\.isNumber)))
            let age = Int64(Date().timeIntervalSince1970 * 1000) - time
            #expect((86_400_000..<86_700_000).contains(age), "\(body)")
            try await bed.set("gone-timestamp", "absent")
            #expect(try await bed.reason() == "{\"reason\":\"Unregistered\"}")
        },
        Walk("error-body", "success") { bed in
            try await bed.set("error-body", "broken")
            try await bed.set("success", "no-id")
            #expect(try await bed.reason(magicToken("0400")) == "{\"reason\":\"BadD")
            let accepted = try await bed.push()
            #expect(accepted.status == 200 && accepted.headers["apns-id"] == nil)
        },
    ]

    // MARK: Streams

    private static let streams = [
        Walk("first-limit", "stream-limit", "narrowed-limit") { bed in
            for (name, value) in [("first-limit", 3), ("stream-limit", 50), ("narrowed-limit", 2)] {
                try await bed.set(name, value)
            }
            let told = try await bed.frames([deviceToken("a1"), magicToken("0400")]).filter {
                $0.hasPrefix("[SETTINGS_MAX_CONCURRENT_STREAMS")
            }
            // Between them, nghttp's own.
            #expect(
                told.filter { !$0.hasSuffix(":100]") }.map { $0.split(separator: ":").last } == ["3]", "50]", "2]"])
        },
        Walk("refuse-in-flight") { bed in
            try await bed.set("first-limit", 4)
            try await bed.set("refuse-in-flight", "on")
            let waiting = (1...3).map { magicToken("00aa\($0)") }
            async let frames = bed.frames(waiting + [magicToken("0400")])
            try await bed.simulator.wait(for: .unanswered, atLeast: 2)
            try await bed.simulator.control("answer-held")
            _ = try await frames
            let refused = try bed.simulator.journal().requests.filter { $0.outcome == "refused" }
            #expect(refused.map(\.token) == Array(waiting.dropFirst()))
        },
    ]

    // MARK: Credentials

    private static let tokens = [
        Walk("token-change-s") { bed in
            let bearers = try (0...1).map { try bed.curl.signer.bearer(age: $0 * 60) }
            #expect(try await bed.together(bearers) == ["200", "429"])
            try await bed.set("token-change-s", 0)
            #expect(try await bed.together(bearers) == ["200", "200"])
        },
        Walk("token-change-shared") { bed in
            try await bed.set("token-change-shared", "on")
            #expect(try await bed.push().status == 200)
            let other = try bed.curl.signer.bearer(age: 60)
            let refused = try await bed.curl.send(deviceToken("a2"), bearer: other)
            #expect(refused.body == "{\"reason\":\"TooManyProviderTokenUpdates\"}", "on another connection, too")
            try await bed.set("token-change-shared", "off")
            #expect(try await bed.curl.send(deviceToken("a2"), bearer: other).status == 200)
        },
        Walk("key-binding") { bed in
            try await bed.set("token-change-s", 0)
            let bearers = [try bed.curl.signer.bearer(), try bed.foreignKey.bearer()]
            #expect(try await bed.together(bearers) == ["200", "403"])
            try await bed.set("key-binding", "off")
            #expect(try await bed.together(bearers) == ["200", "200"])
        },
        Walk("documented-key-reason") { bed in
            let bearer = try bed.sandboxKey.bearer()
            let wire = try await bed.curl.send(deviceToken("a1"), bearer: bearer)
            #expect(wire.body == "{\"reason\":\"BadEnvironmentKeyInToken\"}")
            try await bed.set("documented-key-reason", "on")
            let documented = try await bed.curl.send(deviceToken("a1"), bearer: bearer)
            #expect(documented.body == "{\"reason\":\"BadEnvironmentKeyIdInToken\"}")
            let own = try await bed.curl.send(deviceToken("a1"), to: bed.simulator.sandboxURL, bearer: bearer)
            #expect(own.status == 200)
        },
        Walk("wedge") { bed in
            let bearers = [try bed.curl.signer.bearer(age: 7200), try bed.curl.signer.bearer()]
            #expect(try await bed.together(bearers) == ["403", "403"])
            try await bed.set("wedge", "off")
            #expect(try await bed.together(bearers) == ["403", "200"])
            try await bed.set("wedge", "silent")
            async let silent = bed.together(bearers)
            try await bed.simulator.wait(for: .held, atLeast: 1)
            try await bed.simulator.control("finish")
            // curl tries again by itself on a connection of its own.
            #expect(try await silent.first == "403")
            #expect(try bed.simulator.journal().requests.contains { $0.outcome == "lost" })
        },
        Walk("clock-offset-s") { bed in
            try await bed.set("clock-offset-s", 4000)
            #expect(try await bed.reason() == "{\"reason\":\"ExpiredProviderToken\"}")
        },
    ]

    private static func certified(_ bed: Bed, _ name: String) async throws -> String {
        try await bed.curl.request(
            "POST", "\(bed.simulator.productionURL)/3/device/\(deviceToken("a1"))",
            headers: ["apns-topic: \(appTopic)"],
            body: "{\"aps\":{\"alert\":\"Hello\"}}", certificate: "\(bed.simulator.folder)/credentials/\(name).pem"
        ).body
    }

    private static func manage(_ bed: Bed, _ method: String, _ path: String, _ body: String = "") async throws -> String
    {
        try await bed.curl.request(method, "\(bed.simulator.manageURL)/1/apps/\(appTopic)/\(path)", body: body).body
    }

    private static let others = [
        Walk("client-certificate", "bad-certificate-by") { bed in
            #expect(try await certified(bed, "app") == "")
            try await bed.set("bad-certificate-by", "answer")
            try await bed.set("client-certificate", "revoked")
            #expect(try await certified(bed, "app") == "{\"reason\":\"BadCertificate\"}")
        },
        Walk("wrong-environment-by") { bed in
            #expect(try await certified(bed, "sand") == "{\"reason\":\"BadCertificateEnvironment\"}")
            try await bed.set("wrong-environment-by", "goaway")
            #expect(try await certified(bed, "sand") == "")
            #expect(try bed.events("goaway").first?.debug == "{\"reason\":\"BadCertificateEnvironment\"}")
        },
        Walk("broadcast-feature", "channel-limit") { bed in
            try await bed.set("channel-limit", 0)
            let body = "{\"message-storage-policy\":1,\"push-type\":\"LiveActivity\"}"
            #expect(try await manage(bed, "POST", "channels", body) == "{\"reason\":\"CannotCreateChannelConfig\"}")
            try await bed.set("broadcast-feature", "off")
            #expect(try await manage(bed, "GET", "all-channels") == "{\"reason\":\"FeatureNotEnabled\"}")
        },
    ]

    // MARK: Connections

    private static func goodbye(_ then: String, _ steps: @escaping @Sendable (Bed) async throws -> Void) -> Walk {
        Walk("goaway-then") { bed in
            try await bed.set("goaway-then", then)
            try await bed.set("goaway-after", 1)
            async let frames = bed.frames([magicToken("00aa")])
            #expect(try await bed.hasSaidGoodbye(1))
            try await steps(bed)
            _ = try await frames
        }
    }

    private static let goodbyes = [
        Walk("goaway-after", "goaway-last", "goaway-code", "goaway-reason", "goaway-body", "goaway-twice") { bed in
            let settings = [
                ("goaway-last", "zero"), ("goaway-code", "7"), ("goaway-body", "raw"), ("goaway-twice", "on"),
                ("goaway-reason", "Maximum active streams violated for this endpoint."), ("goaway-after", "1"),
            ]
            for (name, value) in settings { try await bed.set(name, value) }
            async let frames = bed.frames([magicToken("00aa")])
            #expect(try await bed.hasSaidGoodbye(2))
            let told = try await frames.filter { $0.contains("last_stream_id=0, error_code=REFUSED_STREAM(0x07)") }
            // nghttp may end before it has read the second.
            #expect(!told.isEmpty && told.allSatisfy { $0.contains("[Maximum active streams violated for this") })
            #expect(try bed.events("goaway").allSatisfy { $0.lastStream == 0 && $0.code == 7 })
        },
        goodbye("close") { bed in try await bed.simulator.wait(for: .closed, atLeast: 1) },
        goodbye("drain") { bed in
            #expect(try await bed.simulator.control("answer-held") == "1")
            try await bed.simulator.wait(for: .closed, atLeast: 1)
        },
        goodbye("linger") { bed in
            let connections = try await bed.simulator.control("connections")
            #expect(connections.contains("\"going_away\":true,\"mute\":false"))
            try await bed.simulator.control("abort")
        },
        goodbye("mute") { bed in
            #expect(try await bed.until(bed.isMute))
            try await bed.simulator.control("abort")
        },
        Walk("idle-ms") { bed in
            async let client: Void = bed.silentClient()
            try await bed.simulator.wait(for: .opened, atLeast: 1)
            try await bed.set("idle-ms", 50)
            try await bed.simulator.wait(for: .closed, atLeast: 1)
            try await client
            #expect(try bed.events("goaway").map(\.debug) == ["{\"reason\":\"IdleTimeout\"}"])
        },
    ]

    private static let ends =
        ["close-after", "abort-after", "finish-after", "alert-after"].map { name in
            Walk(name) { bed in
                try await bed.set(name, 1)
                #expect(try await bed.push(magicToken("00aa")).status == 0)
                try await bed.simulator.wait(for: .closed, atLeast: 1)
                #expect(try bed.events("closed").first?.cause == name)
            }
        } + [
            Walk("mute-after") { bed in
                try await bed.set("mute-after", 1)
                async let answer = bed.push(magicToken("00aa"))
                #expect(try await bed.until(bed.isMute))
                try await bed.simulator.control("abort")
                #expect(try await answer.status == 0)
            },
            Walk("settings-ms") { bed in
                try await bed.set("settings-ms", 300)
                #expect(try await bed.push().status == 200)
                let opened = try #require(try bed.events("opened").first)
                let request = try #require(try bed.simulator.journal().requests.first)
                #expect(request.received - opened.mono >= 300_000_000)
            },
            Walk("admission", "certificate", "alpn") { bed in
                try await bed.set("admission", "refuse")
                #expect(try await bed.push().code == 7)
                try await bed.set("admission", "open")
                try await bed.set("certificate", "wrong-name")
                #expect(try await bed.push().code == 60)
                try await bed.set("certificate", "good")
                try await bed.set("alpn", "http/1.1")
                #expect(try await bed.push().status != 200)
                #expect(try bed.simulator.journal().requests.isEmpty)
                try await bed.set("alpn", "h2")
                #expect(try await bed.push().status == 200)
            },
        ]
}
