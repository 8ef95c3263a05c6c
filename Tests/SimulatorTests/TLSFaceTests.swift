// What the simulator shows in a TLS handshake and how it breaks one off, changed while it runs; the judges are curl and openssl.

import Foundation
import TestSupport
import Testing

@Suite("The TLS face")
struct TLSFaceTests {
    @Test("a certificate goes bad and comes right again; connections that never come about are counted")
    func certificate() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            for form in ["expired", "wrong-name", "untrusted"] {
                try await simulator.set("certificate", form)
                #expect(try await curl.send(deviceToken("a1")).code == 60, "\(form): curl does not trust it")
            }
            var counts = try await simulator.counts()
            #expect(counts.knocks == 3 && counts.requests == 0)
            try await simulator.control("calm")
            #expect(try await curl.send(deviceToken("a1")).status == 200)
            try await simulator.set("admission", "silent")
            #expect(try await curl.send(deviceToken("a1"), timeout: 1).code == 28)
            try await simulator.wait(for: .knocks, atLeast: 5)
            counts = try await simulator.counts()
            #expect(counts.knocks == 5 && counts.requests == 1)
        }
    }

    @Test("ALPN: HTTP/2, nothing, HTTP/1.1, which is spoken then")
    func alpn() async throws {
        try await SimulatorProcess.run { simulator in
            #expect(try await handshake(simulator).contains("ALPN protocol: h2"))
            try await simulator.set("alpn", "none")
            #expect(try await handshake(simulator).contains("No ALPN negotiated"))
            try await simulator.set("alpn", "http/1.1")
            let old = try await handshake(simulator)
            #expect(old.contains("ALPN protocol: http/1.1") && old.contains("HTTP/1.1 400 Bad Request"))
            // Who offers HTTP/2 alone gets no agreement, and the same words.
            let strict = try await handshake(simulator, offering: "h2")
            #expect(strict.contains("No ALPN negotiated") && strict.contains("HTTP/1.1 400 Bad Request"))
            try await simulator.set("alpn", "h2")
            #expect(try await CurlSender(simulator).send(deviceToken("a1")).status == 200)
        }
    }

    @Test("a connection ends by a fatal alert, on command and after so many requests")
    func alert() async throws {
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            async let held = send(magicToken("00aa"), curl)
            try await simulator.wait(for: .held, atLeast: 1)
            #expect(try await simulator.control("alert") == "1")
            let told = try await held
            #expect(told.code == 56 && told.errors.contains("alert"), "\(told.errors)")
            try await simulator.set("alert-after", 1)
            let after = try await send(magicToken("00aa"), curl)
            #expect(after.code == 56 && after.errors.contains("alert"), "\(after.errors)")
            #expect(try simulator.journal().connections.compactMap(\.cause) == ["control", "alert-after"])
        }
    }

    /// What `openssl s_client` says of a handshake, and what it is told afterwards.
    private func handshake(_ simulator: SimulatorProcess, offering names: String = "h2,http/1.1") async throws -> String
    {
        let result = try await runCommand(
            URL(fileURLWithPath: "/usr/bin/timeout"),
            [
                "10", "/usr/bin/openssl", "s_client", "-connect", "127.0.0.1:\(simulator.productionPort)",
                "-alpn", names, "-CAfile", simulator.authorityPath, "-ign_eof",
            ])
        return result.output
    }

    /// Like `CurlSender.send`, with curl's complaints.
    private func send(_ token: String, _ curl: CurlSender) async throws -> CommandResult {
        try await runCommand(
            URL(fileURLWithPath: "/usr/bin/curl"),
            [
                "--silent", "--show-error", "--http2", "--max-time", "60", "--cacert", curl.simulator.authorityPath,
                "--data", "{\"aps\":{\"alert\":\"Hello\"}}", "--header", "authorization: \(try curl.signer.bearer())",
                "--header", "apns-topic: \(appTopic)", "\(curl.simulator.productionURL)/3/device/\(token)",
            ])
    }
}
