// The control channel, the command line, and how the simulator ends.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("Control commands")
struct ControlTests {
    @Test("the weather changes in mid-flight and calms down again")
    func weather() async throws {
        try await SimulatorProcess.run(["--error-body", "html"]) { simulator in
            let curl = try CurlSender(simulator)
            try await simulator.set("answer-all", "503:ServiceUnavailable")
            let bad = try await curl.send(deviceToken("a1"))
            #expect(bad.status == 503 && bad.body.hasPrefix("<!DOCTYPE html>"))
            #expect(try await simulator.control("get answer-all") == "answer-all=503:ServiceUnavailable")
            try await simulator.control("calm")
            #expect(try await curl.send(deviceToken("a1")).status == 200)
            #expect(try await simulator.control("get error-body") == "error-body=html", "the weather of the start")
            #expect(try simulator.journal().commands.contains("calm"))
        }
    }

    @Test("latency holds answers; they can be waited for and let go")
    func held() async throws {
        try await SimulatorProcess.run(["--latency-ms", "600000"]) { simulator in
            let curl = try CurlSender(simulator)
            async let answer = curl.send(deviceToken("a1"), timeout: 60)
            try await simulator.wait(for: .held, atLeast: 1)
            #expect(try simulator.journal().requests.isEmpty)
            #expect(try simulator.journal().held.map(\.token) == [deviceToken("a1")])
            #expect(try await simulator.control("answer-held") == "1")
            #expect(try await answer.status == 200)
            #expect(try simulator.journal().accepted.count == 1)
        }
    }

    @Test("waiting ends with an error when nothing comes, and other commands go on meanwhile")
    func waiting() async throws {
        try await SimulatorProcess.run { simulator in
            let never = Task { try await simulator.wait(for: .requests, atLeast: 1, within: .milliseconds(300)) }
            try await simulator.set("latency-ms", 1)
            await #expect(throws: SimulatorFailure.self) { try await never.value }
            async let soon: Int = simulator.wait(for: .accepted, atLeast: 1)
            _ = try await CurlSender(simulator).send(deviceToken("a1"))
            #expect(try await soon == 1)
        }
    }

    @Test("the end of one's patience is nobody else's")
    func patience() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            // Its patience has an end, but it is served before.
            async let first: Int = simulator.wait(for: .accepted, atLeast: 1, within: .seconds(10))
            _ = try await curl.send(deviceToken("a1"))
            #expect(try await first == 1)
            async let second: Int = simulator.wait(for: .accepted, atLeast: 2, within: .seconds(100))
            // Something that takes longer than the first one's patience.
            #expect(try await curl.send(magicToken("00aa"), timeout: 11).code == 28)
            _ = try await curl.send(deviceToken("a2"))
            #expect(try await second == 2)
        }
    }

    @Test("nonsense is answered with an error")
    func nonsense() async throws {
        let commands = [
            "", "dance", "set", "set latency-ms", "set latency-ms soon", "set no-such-thing 1", "get no-such-thing",
            "await requests", "await everything 1 1", "goaway x", "abort 77", "revoke NOBODY0001",
        ]
        try await SimulatorProcess.run { simulator in
            for command in commands {
                await #expect(throws: SimulatorFailure.self, "\(command)") { try await simulator.control(command) }
            }
            try await simulator.control("help")
        }
    }

    @Test(
        "closed doors: refused, reset or ignored, and open again",
        arguments: [
            ("refuse", 7), ("abort", 56), ("mute", 28), ("silent", 28), ("cut", 35),
        ])
    func admission(form: String, code: Int32) async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            try await simulator.set("admission", form)
            let failed = try await curl.send(deviceToken("a1"), timeout: code == 28 ? 2 : 60)
            // A reset may reach curl in the middle of its own writing.
            #expect(
                failed.code == code || (["abort", "cut"].contains(form) && [16, 35, 55, 92].contains(failed.code)),
                "\(failed.code)")
            try await simulator.set("admission", "open")
            #expect(try await curl.send(deviceToken("a1")).status == 200)
        }
    }

    @Test(
        "connections end after so many requests, or go dead",
        arguments: [
            ("abort-after", [0, 56]), ("close-after", [0, 18, 52, 56]), ("finish-after", [0, 18, 52, 56, 92]),
            ("mute-after", [28, 0]),
        ])
    func afterRequests(setting: String, codes: [Int32]) async throws {
        try await SimulatorProcess.run(["--\(setting)", "1"]) { simulator in
            let curl = try CurlSender(simulator)
            let answer = try await curl.send(deviceToken("a1"), timeout: setting == "mute-after" ? 2 : 60)
            #expect(codes.contains(answer.code), "\(answer.code)")
            try await simulator.set(setting, 0)
            #expect(try await curl.send(deviceToken("a2")).status == 200)
        }
    }

    @Test("late and absent SETTINGS: nothing is read before")
    func settings() async throws {
        try await SimulatorProcess.run(["--settings-ms", "never"]) { simulator in
            let curl = try CurlSender(simulator)
            #expect(try await curl.send(deviceToken("a1"), timeout: 1).code == 28)
            #expect(try await simulator.counts().requests == 0)
            try await simulator.set("settings-ms", 200)
            #expect(try await curl.send(deviceToken("a1")).status == 200)
            let opened = try #require(try simulator.journal().connections.last { $0.event == "opened" })
            let request = try #require(try simulator.journal().requests.last)
            #expect(request.received - opened.mono >= 200_000_000)
        }
    }

    @Test("idle connections are told so and closed")
    func idle() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            async let answer = curl.send(magicToken("00aa"))
            try await simulator.wait(for: .held, atLeast: 1)
            try await simulator.set("idle-ms", 50)
            #expect(try await simulator.control("answer-held") == "1")
            #expect(try await answer.status == 200)
            try await simulator.wait(for: .closed, atLeast: 1)
        }
    }

    @Test("all provider tokens expire at once; a newer one is good")
    func expire() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            let old = try curl.signer.bearer(age: 60)
            #expect(try await curl.send(deviceToken("a1"), bearer: old).status == 200)
            try await simulator.control("expire-tokens")
            #expect(try await curl.send(deviceToken("a1"), bearer: old).body == "{\"reason\":\"ExpiredProviderToken\"}")
            #expect(try await curl.send(deviceToken("a1")).status == 200)
            try await simulator.control("revoke SIMKEY0001")
            #expect(try await curl.send(deviceToken("a1")).body == "{\"reason\":\"InvalidProviderToken\"}")
            try await simulator.control("restore SIMKEY0001")
            #expect(try await curl.send(deviceToken("a1")).status == 200)
        }
    }

    @Test("commands come over a Unix socket too")
    func socket() async throws {
        let path = "/tmp/apns-simulator-\(UUID().uuidString.prefix(8)).sock"
        try await SimulatorProcess.run(["--control-socket", path]) { simulator in
            let commands = "get latency-ms\n#a set latency-ms 5\nget latency-ms\nnonsense\n"
            let answers = try await askSocket(path, commands, lines: 4)
            let wanted = [
                "ok latency-ms=0", "#a ok", "ok latency-ms=5", "error “nonsense” is not understood; try help",
            ]
            #expect(answers == wanted)
            #expect(try await simulator.control("get latency-ms") == "latency-ms=5")
        }
        #expect(!FileManager.default.fileExists(atPath: path))
    }
}

@Suite("The command")
struct CommandTests {
    private let executable = SimulatorProcess.executable("apns-simulator")

    @Test("--help names every option, switch, command and magic token")
    func help() async throws {
        let result = try await runCommand(executable, ["--help"])
        #expect(result.code == 0 && result.errors.isEmpty)
        for setting in WeatherSetting.table { #expect(result.output.contains("--\(setting.name) ")) }
        for option in SimulatorOption.table { #expect(result.output.contains("--\(option.name)")) }
        for magic in MagicToken.table { #expect(result.output.contains("\n  \(magic.digits) ")) }
        for (command, _) in ControlCommand.manual { #expect(result.output.contains("\n  \(command) ")) }
    }

    @Test("--version")
    func version() async throws {
        let result = try await runCommand(executable, ["--version"])
        #expect(result.code == 0 && result.output.hasPrefix("apns-simulator "))
    }

    @Test(
        "wrong usage ends with 2 and a line that names it",
        arguments: [
            ["--bogus"], ["--port"], ["--port", "70000"], ["word"], ["--latency-ms", "x"], ["--certificate", "fine"],
            ["--key", "id=SHORT"], ["--key-id", "lowercase0"], ["--seed", "-1"], ["--alpn", "spdy"], ["--strict=yes"],
        ])
    func usage(arguments: [String]) async throws {
        let result = try await runCommand(executable, arguments)
        #expect(result.code == 2)
        #expect(result.output.isEmpty && result.errors.contains("--help"))
    }

    @Test(
        "what keeps it from starting ends with 1 and a line",
        arguments: [
            ["--port", "0", "--ca-dir", "/proc/nowhere"], ["--port", "0", "--journal", "/nowhere/journal"],
            ["--port", "0", "--key", "id=ABCDEFGHIJ,team=ABCDEFGHIJ,file=/nowhere/key.p8"],
            ["--port", "0", "--address", "203.0.113.1"],
        ])
    func failures(arguments: [String]) async throws {
        let folder = NSTemporaryDirectory() + "/apns-simulator-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let result = try await runCommand(executable, ["--ca-dir", folder] + arguments)
        #expect(result.code == 1)
        #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
    }

    @Test("SIGTERM ends it with 0 and the counts on stderr; so does the end of its input")
    func ending() async throws {
        for bySignal in [true, false] {
            let simulator = try await SimulatorProcess.start()
            _ = try await CurlSender(simulator).send(deviceToken("a1"))
            #expect(await simulator.stop(bySignal: bySignal, keepFolder: true) == 0)
            #expect(simulator.complaints.contains("\"accepted\":1"))
            try FileManager.default.removeItem(atPath: simulator.folder)
        }
    }

    @Test("quit ends it with 0")
    func quit() async throws {
        let simulator = try await SimulatorProcess.start()
        try await simulator.control("quit")
        #expect(await simulator.stop() == 0)
    }

    @Test("SIGUSR1 prints the counts and nothing else happens")
    func counts() async throws {
        try await SimulatorProcess.run { simulator in
            kill(simulator.processID, SIGUSR1)
            let answer = try await CurlSender(simulator).send(deviceToken("a1"))
            #expect(answer.status == 200)
            #expect(simulator.complaints.contains("{\"requests\":0"))
        }
    }

    @Test("credentials are made once and used again, also by two at a time")
    func credentials() async throws {
        let folder = NSTemporaryDirectory() + "/apns-simulator-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: folder) }
        async let first = SimulatorProcess.start(["--ca-dir", folder])
        async let second = SimulatorProcess.start(["--ca-dir", folder])
        for simulator in [try await first, try await second] {
            #expect(simulator.environment["APNS_KEY_PATH"] == folder + "/AuthKey_SIMKEY0001.p8")
            #expect(simulator.environment["APNS_TEAM_ID"] == "SIMTEAM001")
            #expect(try await CurlSender(simulator).send(deviceToken("a1")).status == 200)
            await simulator.stop()
        }
        let key = try Data(contentsOf: URL(fileURLWithPath: folder + "/AuthKey_SIMKEY0001.p8"))
        let third = try await SimulatorProcess.start(["--ca-dir", folder, "--bundle-id", "com.example.one"])
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder + "/AuthKey_SIMKEY0001.p8")) == key)
        #expect(third.environment["APNS_BUNDLE_ID"] == "com.example.one")
        #expect(try await CurlSender(third).send(deviceToken("a1")).body == "{\"reason\":\"TopicDisallowed\"}")
        await third.stop()
    }
}
