// Clients that nobody here wrote: curl and nghttp, so that the simulator is not only tested against our own client.

import Foundation
import TestSupport

/// What a command printed and how it ended.
struct CommandResult: Sendable {
    let output: String
    let errors: String
    let code: Int32
}

/// Runs a command to its end.
func runCommand(_ path: URL, _ arguments: [String]) async throws -> CommandResult {
    let (output, errors) = (try ClosedPipe(), try ClosedPipe())
    let nothing = FileHandle.nullDevice
    let process = try ChildProcess(
        path.path, arguments, input: nothing.fileDescriptor, output: output.writer.fileDescriptor,
        errors: errors.writer.fileDescriptor)
    try output.writer.close()
    try errors.writer.close()
    async let text = readAll(output.reader)
    async let complaints = readAll(errors.reader)
    let (first, second) = await (text, complaints)
    let code = await process.end(within: .seconds(180))
    return CommandResult(output: first, errors: second, code: code)
}

private func readAll(_ handle: FileHandle) async -> String {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().async {
            let data = (try? handle.readToEnd()) ?? Data()
            continuation.resume(returning: String(decoding: data, as: UTF8.self))
        }
    }
}

/// What curl received.
struct CurlAnswer: Sendable {
    /// 0 when there was no answer.
    let status: Int
    let headers: [String: String]
    let body: String
    /// curl's exit code.
    let code: Int32
}

/// A sender made of curl.
struct CurlSender {
    let simulator: SimulatorProcess
    let signer: Signer

    init(_ simulator: SimulatorProcess) throws {
        self.simulator = simulator
        signer = try Signer(file: simulator.environment["APNS_KEY_PATH"] ?? "")
    }

    /// Sends one push over a connection of its own.
    func send(
        _ token: String, to url: String? = nil, headers: [String] = [],
        body: String = "{\"aps\":{\"alert\":\"Hello\"}}",
        bearer: String? = nil, timeout: Int = 60
    ) async throws -> CurlAnswer {
        let bearer = try bearer ?? signer.bearer()
        let result = try await runCommand(
            URL(fileURLWithPath: "/usr/bin/curl"),
            ["--silent", "--http2", "--include", "--max-time", "\(timeout)", "--cacert", simulator.authorityPath]
                + [
                    "--data-binary", body, "--header", "authorization: \(bearer)", "--header",
                    "apns-topic: \(appTopic)",
                ]
                + headers.flatMap { ["--header", $0] } + ["\(url ?? simulator.productionURL)/3/device/\(token)"])
        return CurlSender.read(result)
    }

    /// Sends any request over a connection of its own, signed by a certificate (a .pem with both halves) or by the key.
    func request(
        _ method: String, _ url: String, headers: [String] = [], body: String = "", certificate: String? = nil,
        timeout: Int = 60
    ) async throws -> CurlAnswer {
        let credential =
            try certificate.map { ["--cert", $0] } ?? ["--header", "authorization: \(try signer.bearer())"]
        let result = try await runCommand(
            URL(fileURLWithPath: "/usr/bin/curl"),
            ["--silent", "--http2", "--include", "--max-time", "\(timeout)", "--cacert", simulator.authorityPath]
                + ["--request", method] + credential + (body.isEmpty ? [] : ["--data-binary", body])
                + headers.flatMap { ["--header", $0] } + [url])
        return CurlSender.read(result)
    }

    /// Sends a push that gets no answer, and breaks the connection off once the simulator holds it.
    func sendInVain(_ token: String, to url: String? = nil) async throws -> CurlAnswer {
        async let answer = send(token, to: url, timeout: 120)
        try await simulator.wait(for: .held, atLeast: 1, within: .seconds(60))
        try await simulator.control("finish")
        return try await answer
    }

    private static func read(_ result: CommandResult) -> CurlAnswer {
        var (status, headers) = (0, [String: String]())
        var lines = result.output.components(separatedBy: "\r\n")[...]
        while let line = lines.popFirst() {
            if line.hasPrefix("HTTP/2 ") {
                status = Int(line.dropFirst("HTTP/2 ".count).prefix(3)) ?? 0
                headers = [:]
            } else if line.isEmpty {
                // A 1xx is followed by another head.
                if status >= 200 { break }
            } else if let colon = line.firstIndex(of: ":") {
                headers[String(line[..<colon])] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            }
        }
        return CurlAnswer(status: status, headers: headers, body: lines.joined(separator: "\r\n"), code: result.code)
    }
}

/// Sends several pushes at once over one connection by nghttp and returns the frames that it saw, one a line.
func nghttp(_ simulator: SimulatorProcess, tokens: [String], bearer: String, timeout: Int = 60) async throws -> [String]
{
    let body = simulator.folder + "/nghttp-body"
    try Data("{\"aps\":{\"alert\":\"Hello\"}}".utf8).write(to: URL(fileURLWithPath: body))
    let result = try await runCommand(
        URL(fileURLWithPath: "/usr/bin/nghttp"),
        ["-n", "-v", "-t", "\(timeout)", "-d", body, "-H", ":method: POST", "-H", "authorization: \(bearer)"]
            + ["-H", "apns-topic: \(appTopic)"] + tokens.map { "\(simulator.productionURL)/3/device/\($0)" })
    return result.output.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
}

/// Sends text to a Unix socket and returns the first `lines` lines of what comes back.
func askSocket(_ path: String, _ text: String, lines: Int) async throws -> [String] {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async {
            continuation.resume(with: Result { try askSocketNow(path, text, lines: lines) })
        }
    }
}

private func askSocketNow(_ path: String, _ text: String, lines: Int) throws -> [String] {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let connected = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
    guard connected == 0 else { throw SimulatorFailure(description: "\(path): errno \(errno)") }
    // No answer takes longer than this.
    var patience = timeval(tv_sec: 10, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    let bytes = Array(text.utf8)
    _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    var received: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while received.count(where: { $0 == 0x0A }) < lines {
        let count = recv(descriptor, &chunk, chunk.count, 0)
        guard count > 0 else { break }
        received.append(contentsOf: chunk[..<count])
    }
    return String(decoding: received, as: UTF8.self).split(separator: "\n").map(String.init)
}
