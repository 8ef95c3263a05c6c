// The journal: complete, in time, readable while it grows; and the counts beside it.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("Journal")
struct JournalTests {
    @Test("a line has everything a test may ask about, and never the provider token")
    func complete() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            let bearer = try curl.signer.bearer()
            let body = "{\"aps\":{\"alert\":\"Ä \\\"quoted\\\" \u{1F600}\\n\",\"odd\":1}}"
            let headers = ["apns-push-type: alert", "apns-priority: 5", "apns-collapse-id: news", "apns-expiration: 0"]
            _ = try await curl.send(deviceToken("A1"), headers: headers, body: body, bearer: bearer)
            let journal = try simulator.journal()
            let line = try #require(journal.requests.first)
            #expect(line.environment == "production" && line.connection == 1 && line.stream == 1 && line.attempt == 1)
            #expect(line.method == "POST" && line.path == "/3/device/\(deviceToken("A1"))")
            #expect(line.token == deviceToken("a1"), "lower-case, whatever the path says")
            #expect(
                line.headers == [
                    "apns-topic": appTopic, "apns-push-type": "alert", "apns-priority": "5", "apns-collapse-id": "news",
                    "apns-expiration": "0",
                ])
            #expect(line.body == body && line.bodyLength == body.utf8.count)
            #expect(line.warnings == ["aps.odd is unknown"])
            #expect(line.outcome == "answered" && line.status == 200 && line.reason == "" && line.code == nil)
            #expect(line.received <= line.mono && line.answerId?.count == 36)
            #expect(line.authorization?.count == 16)
            let text = try String(contentsOfFile: simulator.folder + "/journal", encoding: .utf8)
            let secret = try #require(bearer.split(separator: ".").last)
            #expect(!text.contains(secret))
        }
    }

    @Test("whoever has an answer finds its line")
    func inTime() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            for number in 1...10 {
                _ = try await curl.send(deviceToken("a\(number)f"))
                #expect(try simulator.journal().requests.count == number)
            }
            let counts = try await simulator.counts()
            #expect(counts.requests == 10 && counts.accepted == 10 && counts.distinctAccepted == 10)
            #expect(counts.count(200) == 10 && counts.repeatedAccepted == 0)
        }
    }

    @Test("doubles are counted and named")
    func doubles() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            for token in [
                deviceToken("a1"), deviceToken("a2"), deviceToken("a1"), magicToken("0410"), magicToken("0410"),
            ] {
                _ = try await curl.send(token)
            }
            let counts = try await simulator.counts()
            #expect(counts.distinctAccepted == 2 && counts.repeatedAccepted == 1)
            #expect(counts.repeatedExamples == [deviceToken("a1")])
            #expect(counts.count(410, "Unregistered") == 2)
            #expect(try simulator.journal().requests.map(\.attempt) == [1, 1, 2, 1, 2])
        }
    }

    @Test("connections come and go", arguments: [("abort", "control"), ("finish", "control"), ("close", "control")])
    func connections(command: String, cause: String) async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            async let answer = curl.send(magicToken("00aa"), timeout: 60)
            try await simulator.wait(for: .held, atLeast: 1)
            try await simulator.control(command)
            _ = try await answer
            try await simulator.wait(for: .closed, atLeast: 1)
            let journal = try simulator.journal()
            #expect(journal.connections.map(\.event) == ["opened", "closed"])
            #expect(journal.connections.last?.cause == cause && journal.connections.last?.requests == 1)
            #expect(journal.held.map(\.token) == [magicToken("00aa")])
            #expect(journal.requests.map(\.outcome) == ["lost"])
        }
    }

    @Test("bodies as hashes, or not at all", arguments: [("hash", true), ("none", false)])
    func bodies(form: String, hasHash: Bool) async throws {
        try await SimulatorProcess.run(["--journal-body", form]) { simulator in
            _ = try await CurlSender(simulator).send(deviceToken("a1"), body: "{}")
            let line = try #require(try simulator.journal().requests.first)
            #expect(line.body == nil && line.bodyLength == 2)
            #expect(
                line.bodySha256 == (hasHash ? "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" : nil))
        }
    }

    @Test("a request that is not text and not right is in it too")
    func bytes() async throws {
        try await SimulatorProcess.run { simulator in
            _ = try await CurlSender(simulator).send("", headers: ["apns-topic: twice"], body: "\u{1}")
            let line = try #require(try simulator.journal().requests.first)
            #expect(line.status == 400 && line.reason == "DuplicateHeaders" && line.body == "\u{1}" && line.token == "")
        }
    }
}
