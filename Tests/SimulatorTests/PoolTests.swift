// The project's own HTTP/2 client against the simulator: two readings of the same rules must agree.

import APNsSimulator
import Foundation
import HTTP2
import Reactor
import TLS
import Telemetry
import TestSupport
import Testing

@Suite("With the project's own client")
struct PoolTests {
    private func tokens(_ count: Int) -> [String] { (1...count).map { deviceToken("d" + String(1_000_000 + $0)) } }

    @Test("rejections narrow the limit again and again; every push is answered once")
    func narrowing() async throws {
        try await SimulatorProcess.run { simulator in
            var tokens = tokens(500)
            for place in stride(from: 50, to: 500, by: 100) { tokens.insert(magicToken("0400\(place)"), at: place) }
            let outcomes = try await push(tokens, to: simulator)
            #expect(outcomes.values.count { $0 == "200" } == 500)
            #expect(outcomes.values.count { $0 == "400" } == 5)
            let journal = try simulator.journal()
            #expect(journal.acceptedTokens == tokens.filter { !$0.hasPrefix(MagicToken.prefix) }.sorted())
            #expect(journal.connections.map(\.event).contains("goaway") == false)
        }
    }

    @Test("streams that are refused when the limit falls are sent again")
    func refusedInFlight() async throws {
        try await SimulatorProcess.run(["--latency-ms", "20", "--refuse-in-flight", "on"]) { simulator in
            let tokens = tokens(300) + [magicToken("0400")]
            let outcomes = try await push(tokens.shuffled(), to: simulator)
            #expect(outcomes.values.count { $0 == "200" } == 300)
            let counts = try await simulator.counts()
            #expect(counts.distinctAccepted == 300 && counts.repeatedAccepted == 0)
        }
    }

    @Test("a limit of 0 for a while strands nobody")
    func zero() async throws {
        try await SimulatorProcess.run(["--first-limit", "0", "--stream-limit", "0"]) { simulator in
            async let outcomes = push(tokens(100), to: simulator)
            try await simulator.wait(for: .opened, atLeast: 1)
            #expect(try await simulator.counts().requests == 0)
            try await simulator.set("first-limit", 1)
            try await simulator.set("stream-limit", 100)
            #expect(try await outcomes.values.count { $0 == "200" } == 100)
        }
    }

    @Test("connections that go away lose nothing, unless they break off", arguments: ["drain", "linger", "close"])
    func goAway(afterwards: String) async throws {
        try await SimulatorProcess.run(["--goaway-after", "20", "--goaway-then", afterwards]) { simulator in
            let outcomes = try await push(tokens(200), to: simulator)
            let unknown = outcomes.values.count { $0 == "unknown" }
            #expect(outcomes.values.count { $0 == "200" } + unknown == 200)
            #expect(unknown == 0 || afterwards == "close")
            let counts = try await simulator.counts()
            #expect(counts.distinctAccepted + unknown >= 200 && counts.repeatedAccepted == 0)
            #expect(counts.opened >= 2 && counts.opened <= 12)
        }
    }

    @Test("what a GOAWAY calls unprocessed is not processed", arguments: ["highest", "zero", "middle", "open"])
    func lastStream(form: String) async throws {
        // Without any delay "zero" still lets those through that were answered before it.
        let weather = form == "zero" ? [] : ["--jitter-ms", "5"]
        try await SimulatorProcess.run(weather + ["--goaway-after", "20", "--goaway-last", form]) { simulator in
            let tokens = tokens(200) + (1...3).map { magicToken("02cc\($0)") }
            let outcomes = try await push(tokens, to: simulator)
            #expect(outcomes.values.count { $0 == "200" } == 203)
            let counts = try await simulator.counts()
            #expect(counts.distinctAccepted == 203 && counts.repeatedAccepted == 0)
            #expect(try simulator.journal().requests.contains { $0.outcome == "refused" })
        }
    }

    @Test("what the client believes is what the journal says, in foul weather")
    func foul() async throws {
        let weather = [
            "--gone-share", "0.1", "--bad-token-share", "0.02", "--error-share", "0.1", "--reset-share", "0.05",
        ]
        try await SimulatorProcess.run(weather + ["--refused-share", "0.05", "--jitter-ms", "10"]) { simulator in
            let tokens = tokens(400)
            let outcomes = try await push(tokens, to: simulator, connections: 3)
            let journal = try simulator.journal()
            for token in tokens {
                let last = journal.requests(for: token).last
                let seen = last?.status.map(String.init) ?? last?.outcome ?? "nothing"
                #expect(
                    outcomes[token] == seen || (outcomes[token] == "unknown" && seen == "reset"), "\(token): \(seen)")
            }
            #expect(Set(outcomes.values).isSuperset(of: ["200", "410", "500"]))
        }
    }
}

/// Sends one push to each token through a pool and tells how each ended: a status, `unknown` or `not processed`.
private func push(
    _ tokens: [String], to simulator: SimulatorProcess, connections: Int = 1
) async throws -> [String: String] {
    let port = UInt16(simulator.productionPort)
    let trust = simulator.authorityPath
    let bearer = try CurlSender(simulator).signer.bearer()
    return try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async {
            continuation.resume(
                with: Result { try pushNow(tokens, port: port, trust: trust, bearer: bearer, connections: connections) }
            )
        }
    }
}

private func pushNow(
    _ tokens: [String], port: UInt16, trust: String, bearer: String, connections: Int
) throws -> [String: String] {
    let loop = try EventLoop(name: "sender")
    try loop.start()
    defer {
        loop.stop()
        loop.join()
    }
    return try loop.runBlocking { _ in
        let sender = PoolSender(loop: loop, bearer: bearer)
        return try await sender.push(tokens, port: port, trust: trust, connections: connections)
    }
}

/// Keeps requests and outcomes; lives on the loop.
private final class PoolSender: HTTP2RequestHandler, HTTP2AuthorizationSource {
    let authorization: HTTP2SharedValue?
    private let loop: EventLoop
    private let done: LoopSignal
    private var paths: [UnsafeMutableRawBufferPointer] = []
    private var outcomes: [UInt64: String] = [:]
    private var expected = 0

    init(loop: EventLoop, bearer: String) {
        self.loop = loop
        done = LoopSignal(loop: loop)
        authorization = HTTP2SharedValue(bearer)
    }

    deinit { for path in paths { path.deallocate() } }

    func push(_ tokens: [String], port: UInt16, trust: String, connections: Int) async throws -> [String: String] {
        var configuration = HTTP2PoolConfiguration(host: "127.0.0.1", port: port)
        configuration.maxConnections = connections
        let pool = HTTP2Pool(
            loop: loop, configuration: configuration, tls: try TLSClientContext(trust: .bundleFile(trust)),
            authorization: self, handler: self, logger: .silent)
        defer { pool.close() }
        let head = HTTP2RequestHead(
            fields: [
                HTTP2Field("apns-topic", appTopic), HTTP2Field("apns-push-type", "alert"),
                HTTP2Field("apns-priority", "10"), HTTP2Field("apns-expiration", "0", indexing: .none),
            ], body: plainBody)
        expected = tokens.count
        for (tag, token) in tokens.enumerated() {
            let request = HTTP2Request(
                path: keep("/3/device/\(token)"), id: UnsafeRawBufferPointer(start: nil, count: 0), tag: UInt64(tag),
                deadline: MonotonicTime.now().advanced(by: .seconds(20)))
            guard pool.submit(request, head: head) else { throw SimulatorFailure(description: "the pool is full") }
        }
        _ = await done.wait(.seconds(25))
        return Dictionary(outcomes.map { (tokens[Int($0.key)], $0.value) }, uniquingKeysWith: { $0 + " and " + $1 })
    }

    func requestEnded(tag: UInt64, _ outcome: HTTP2Outcome) {
        let text =
            switch outcome {
            case .answered(let response): String(response.status)
            case .notProcessed: "not processed"
            case .unknown: "unknown"
            }
        outcomes[tag] = outcomes[tag].map { $0 + " and " + text } ?? text
        if outcomes.count == expected { done.raise() }
    }

    func poolHasSpace() {}

    private func keep(_ text: String) -> UnsafeRawBufferPointer {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        paths.append(bytes)
        return UnsafeRawBufferPointer(bytes)
    }
}
