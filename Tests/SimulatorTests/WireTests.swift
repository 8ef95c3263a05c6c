// The simulator as an executable, met by curl and nghttp over real TLS and HTTP/2.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("On the wire")
struct WireTests {
    @Test("200 with the apns-id of the request, or one of its own; apns-unique-id on the sandbox only")
    func accepted() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            let id = "01234567-89ab-cdef-0123-456789abcdef"
            let production = try await curl.send(deviceToken("a1"), headers: ["apns-id: \(id)"])
            #expect(production.status == 200)
            #expect(production.headers["apns-id"] == id)
            #expect(production.headers["apns-unique-id"] == nil)
            #expect(production.body.isEmpty)
            let sandbox = try await curl.send(deviceToken("a2"), to: simulator.sandboxURL)
            #expect(sandbox.status == 200)
            #expect(sandbox.headers["apns-unique-id"].map(PushRules.isUUID) == true)
            let made = try #require(sandbox.headers["apns-id"])
            #expect(PushRules.isUUID(made) && made == made.uppercased())
        }
    }

    @Test("a refusal has a reason, a 410 a time in milliseconds")
    func refused() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            let missing = try await curl.send(deviceToken("a1"), headers: ["authorization:"], bearer: "")
            #expect(missing.status == 403 && missing.body == "{\"reason\":\"MissingProviderToken\"}")
            #expect(missing.headers["apns-id"] != nil)
            let before = Int64(Date().timeIntervalSince1970 * 1000)
            let gone = try await curl.send(magicToken("0410"))
            let object = try #require(JSONText(Array(gone.body.utf8)))
            let timestamp = try #require(object["timestamp"]?.whole)
            #expect(gone.status == 410 && object["reason"]?.text == "Unregistered")
            #expect((before...before + 60_000).contains(timestamp))
            let earlier = try #require(
                JSONText(Array(try await curl.send(magicToken("1410")).body.utf8))?["timestamp"]?.whole)
            #expect((before - 86_400_000...before - 86_340_000).contains(earlier))
        }
    }

    @Test("bodies in every form")
    func bodies() async throws {
        let forms = [
            ("00dd", ""), ("01dd", ""), ("03dd", "{\"reason\":\"BadD"), ("04dd", "{}"),
            ("05dd", "{\"reason\":\"SomethingNobodyHasHeardOf\"}"), ("06dd", "{\"reason\":\"Bad\\u0000Reason\"}"),
            ("07dd", "{\"reason\":400}"), ("08dd", "{\"reason\":\"BadDeviceToken\"}"),
        ]
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            for (digits, body) in forms {
                let answer = try await curl.send(magicToken(digits))
                #expect(answer.status == 400 && answer.body == body && answer.code == 0, "\(digits)")
            }
        }
    }

    @Test("forms of success, retry-after, no answer at all")
    func forms() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            #expect(try await curl.send(magicToken("00ee")).status == 200)
            let withoutID = try await curl.send(magicToken("01ee"))
            #expect(withoutID.status == 200 && withoutID.headers["apns-id"] == nil)
            #expect(try await curl.send(magicToken("2429")).headers["retry-after"] == "2")
            #expect(try await curl.send(magicToken("2429")).status == 200)
            #expect(try await curl.sendInVain(magicToken("00aa")).status == 0)
            // A stream that was reset.
            #expect(try await curl.send(magicToken("00bb")).code == 92)
            #expect(try await curl.send(magicToken("05bb")).code == 92)
            // Where the end of the connection meets curl is a matter of chance.
            for digits in ["00cc", "01cc", "04cc"] {
                let cut = try await curl.send(magicToken(digits))
                // Of an answer before the end it may have read nothing.
                #expect(cut.status == 0 || cut.status == 200 && digits == "04cc", "\(digits): \(cut.status)")
                #expect([16, 18, 52, 55, 56, 92].contains(cut.code), "\(digits): \(cut.code)")
            }
            let journal = try simulator.journal()
            #expect(journal.requests(for: magicToken("00aa")).map(\.outcome) == ["lost"])
            #expect(journal.requests(for: magicToken("00bb")).map(\.outcome) == ["reset"])
            #expect(journal.requests(for: magicToken("00cc")).map(\.outcome) == ["cut off"])
        }
    }

    @Test("a provider token with a DER signature is refused")
    func derSignature() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            let answer = try await curl.send(deviceToken("a1"), bearer: curl.signer.bearer(encode: asDER))
            #expect(answer.body == "{\"reason\":\"InvalidProviderToken\"}")
        }
    }

    @Test("the stream limit moves as Apple's does, seen by nghttp")
    func streamLimit() async throws {
        try await SimulatorProcess.run(["--first-limit", "4"]) { simulator in
            let bearer = try CurlSender(simulator).signer.bearer()
            let tokens = [deviceToken("a1"), deviceToken("a2"), magicToken("0400"), magicToken("0410")]
            let frames = try await nghttp(simulator, tokens: tokens, bearer: bearer)
            #expect(limits(in: frames) == [4, 1000, 1])
            let more = try await nghttp(simulator, tokens: [magicToken("0400"), deviceToken("a3")], bearer: bearer)
            #expect(limits(in: more) == [4, 1, 1000])
            #expect(frames.contains { $0.contains("[SETTINGS_MAX_HEADER_LIST_SIZE(0x06):8000]") })
        }
    }

    @Test("streams beyond the limit are refused, as nghttp finds that assumes 100 at first")
    func refusedStreams() async throws {
        // nghttp must not learn of the limit before it has sent everything.
        try await SimulatorProcess.run(["--settings-ms", "3000"]) { simulator in
            let bearer = try CurlSender(simulator).signer.bearer()
            let frames = try await nghttp(
                simulator, tokens: (1...5).map { deviceToken("a\($0)") }, bearer: bearer)
            #expect(limits(in: frames) == [1, 1000])
            #expect(frames.count { $0.contains("error_code=REFUSED_STREAM") } == 4)
            #expect(try simulator.journal().accepted.count == 1)
        }
    }

    @Test("REFUSED_STREAM and then STREAM_CLOSED, when the limit falls under what waits and by a magic token")
    func resetTwice() async throws {
        try await SimulatorProcess.run(["--first-limit", "4", "--refuse-in-flight", "on"]) { simulator in
            let bearer = try CurlSender(simulator).signer.bearer()
            let waiting = (1...3).map { magicToken("00aa" + "\($0)") }
            async let falling = nghttp(simulator, tokens: waiting + [magicToken("0400")], bearer: bearer)
            try await simulator.wait(for: .unanswered, atLeast: 2)
            // nghttp ends by itself when it has its last answer, and has read everything then.
            try await simulator.control("answer-held")
            let both = ["REFUSED_STREAM", "STREAM_CLOSED"]
            let codes = resets(in: try await falling)
            #expect(codes.count == 2 && codes.values.allSatisfy { $0 == both }, "\(codes)")

            // What was still waiting is counted when the connection has ended.
            try await simulator.wait(for: .closed, atLeast: 1)
            try await simulator.control("forget")
            async let magic = nghttp(simulator, tokens: [magicToken("00aa"), magicToken("06bb")], bearer: bearer)
            try await simulator.wait(for: .requests, atLeast: 2)
            try await simulator.control("answer-held")
            let again = resets(in: try await magic)
            #expect(again.values.map(\.self) == [both], "\(again)")
        }
    }

    /// The error codes of the RST_STREAM frames that were received, by stream.
    private func resets(in frames: [String]) -> [String: [String]] {
        var stream: Substring?
        var codes: [String: [String]] = [:]
        for line in frames {
            if let stream, let start = line.range(of: "error_code=") {
                codes[String(stream), default: []].append(String(line[start.upperBound...].prefix { $0 != "(" }))
            }
            stream = line.contains("recv RST_STREAM") ? line.split(separator: "stream_id=").last : nil
        }
        return codes
    }

    private func limits(in frames: [String]) -> [Int] {
        // What nghttp sends itself is 100.
        var isOurs = false
        return frames.compactMap { line in
            if line.contains("SETTINGS frame") { isOurs = line.contains("recv") }
            guard isOurs, let number = line.split(separator: ":").last, line.contains("MAX_CONCURRENT_STREAMS") else {
                return nil
            }
            return Int(number.dropLast())
        }
    }

    @Test("GOAWAY with its reason as JSON, once or twice", arguments: [false, true])
    func goAway(isTwice: Bool) async throws {
        // nghttp ends with its last answer, so one request gets none until everything else has been seen.
        let arguments = [
            "--first-limit", "2", "--goaway-after", "2", "--goaway-twice", isTwice ? "on" : "off", "--goaway-code",
            "11",
        ]
        let count = isTwice ? 2 : 1
        try await SimulatorProcess.run(arguments) { simulator in
            let bearer = try CurlSender(simulator).signer.bearer()
            let frames = try await framesUntilGoAway(simulator, bearer, count: count)
            let description = "error_code=ENHANCE_YOUR_CALM(0x0b), opaque_data(21)=[{\"reason\":\"Shutdown\"}]"
            #expect(frames.count { $0.contains("(last_stream_id=15, \(description)") } == count)
            #expect(frames.contains { $0.contains(":status: 200") })
            let sent = try simulator.journal().connections.filter { $0.event == "goaway" }
            #expect(sent.map(\.debug) == Array(repeating: "{\"reason\":\"Shutdown\"}", count: count))
            #expect(sent.allSatisfy { $0.lastStream == 15 && $0.code == 11 }, "nghttp's streams are 13 and 15")
        }
    }

    /// What nghttp sees of a push and of one without an answer, until so many GOAWAYs have been sent.
    private func framesUntilGoAway(
        _ simulator: SimulatorProcess, _ bearer: String, count: Int
    ) async throws -> [String] {
        async let frames = nghttp(simulator, tokens: [deviceToken("a1"), magicToken("00aa")], bearer: bearer)
        let deadline = ContinuousClock.now + .seconds(50)
        while try simulator.journal().connections.count(where: { $0.event == "goaway" }) < count,
            ContinuousClock.now < deadline
        { try await Task.sleep(for: .milliseconds(20)) }
        // nghttp ends by itself when it has its last answer, and has read everything then.
        try await simulator.control("answer-held")
        return try await frames
    }

    @Test("the last stream of a GOAWAY", arguments: [("highest", 15), ("zero", 0), ("open", 2_147_483_647)])
    func lastStream(form: String, stream: Int) async throws {
        try await SimulatorProcess.run(["--first-limit", "2", "--goaway-after", "2", "--goaway-last", form]) {
            simulator in
            let bearer = try CurlSender(simulator).signer.bearer()
            let frames = try await framesUntilGoAway(simulator, bearer, count: form == "open" ? 2 : 1)
            #expect(frames.contains { $0.contains("(last_stream_id=\(stream), error_code=NO_ERROR") })
            let sent = try simulator.journal().connections.filter { $0.event == "goaway" }
            #expect(sent.compactMap(\.lastStream) == (form == "open" ? [.max, 15] : [Int32(stream)]))
        }
    }

    @Test(
        "the server's certificate: expired, for another host, from somebody else",
        arguments: [
            "expired", "wrong-name", "untrusted",
        ])
    func certificates(form: String) async throws {
        try await SimulatorProcess.run(["--certificate", form]) { simulator in
            let answer = try await CurlSender(simulator).send(deviceToken("a1"))
            #expect(answer.code == 60, "curl does not trust it")
            #expect(try simulator.journal().requests.isEmpty)
        }
    }

    @Test("one port for both services: the host that is asked for decides")
    func sharedPort() async throws {
        try await SimulatorProcess.run(onePort: true) { simulator in
            #expect(simulator.productionURL == simulator.sandboxURL)
            let curl = try CurlSender(simulator)
            _ = try await curl.send(deviceToken("a1"))
            let sandbox = try await curl.send(deviceToken("a2"), headers: ["Host: api.sandbox.push.apple.com"])
            #expect(sandbox.headers["apns-unique-id"] != nil)
            #expect(try simulator.journal().requests.map(\.environment) == ["production", "sandbox"])
        }
        #expect(SimulatedEnvironment(authority: "api.sandbox.push.apple.com") == .sandbox)
        #expect(SimulatedEnvironment(authority: "api.development.push.apple.com:443") == .sandbox)
        #expect(SimulatedEnvironment(authority: "api.push.apple.com") == .production)
    }
}
