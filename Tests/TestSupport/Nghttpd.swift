// nghttpd in the place of Apple: an HTTP/2 server that nobody here wrote. It serves files, also to POST, so a device whose token is a
// file is accepted; a token that is a pipe holds the whole server up in the middle of its work. Its log of frames says what it answered.

import Foundation

/// A running nghttpd on 127.0.0.1.
package final class Nghttpd {
    /// TCP port.
    package let port: Int
    private let folder: String
    private let credentials: String
    private let options: [String]
    private var process: ChildProcess?

    /// Runs `body` with one, started with further options, which shows the server certificate of a simulator.
    package static func run(
        _ simulator: SimulatorProcess, _ options: [String] = [], _ body: (Nghttpd) async throws -> Void
    ) async throws {
        let server = try Nghttpd(simulator, options)
        defer {
            server.kill()
            try? FileManager.default.removeItem(atPath: server.folder)
        }
        try await server.start()
        try await body(server)
    }

    private init(_ simulator: SimulatorProcess, _ options: [String]) throws {
        port = try FreePort.find()
        self.options = options
        folder = "\(NSTemporaryDirectory())/nghttpd-\(port)"
        credentials = "\(simulator.folder)/credentials"
        try FileManager.default.createDirectory(atPath: "\(folder)/files/3/device", withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: "\(folder)/log"))
    }

    /// Leads a worker here, in both environments.
    package var variables: [String: String] {
        let url = "https://127.0.0.1:\(port)"
        return ["APNS_PRODUCTION_URL": url, "APNS_SANDBOX_URL": url]
    }

    // MARK: Devices

    private func file(_ token: String) -> String { "\(folder)/files/3/device/\(token)" }

    /// Accepts these device tokens.
    package func accept(_ tokens: [String]) throws {
        for token in tokens { try Data().write(to: URL(fileURLWithPath: file(token))) }
    }

    /// The server stands still as soon as it is to look this token up, until it is killed.
    package func stopAt(_ token: String) throws {
        try? FileManager.default.removeItem(atPath: file(token))
        guard mkfifo(file(token), 0o600) == 0 else { throw SimulatorFailure(description: "mkfifo: errno \(errno)") }
    }

    /// Undoes `stopAt`, for a server that is started afterwards.
    package func goOn(_ token: String) throws {
        try FileManager.default.removeItem(atPath: file(token))
        try accept([token])
    }

    // MARK: The process

    /// Starts it; it accepts connections when this returns.
    package func start() async throws {
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: "\(folder)/log"))
        try log.seekToEnd()
        process = try ChildProcess.mortal(
            ["/usr/sbin/nghttpd", "-v", "-a", "127.0.0.1", "-d", "\(folder)/files"] + options + [
                "\(port)", "\(credentials)/server.key", "\(credentials)/server.pem",
            ], errors: log.fileDescriptor, output: log.fileDescriptor)
        try await until("open port") { LocalSocket.isOpen(port) }
    }

    /// Ends it in the middle of whatever it does.
    package func kill() {
        process?.signal(SIGKILL)
        process?.wait()
        process = nil
    }

    /// Waits until it stands still at a token: what it has answered before is on its way, and what comes is not read.
    package func standsStill(at token: String) async throws {
        let path = file(token)
        try await until("stop at \(token)") {
            // Whoever writes to a pipe that nobody reads is told so; the reader is frozen meanwhile, so that it does not notice.
            process?.signal(SIGSTOP)
            let writer = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            guard writer < 0 else { return close(writer) == 0 }
            process?.signal(SIGCONT)
            return false
        }
    }

    private func until(_ what: String, _ isMet: () -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while !isMet() {
            guard ContinuousClock.now < end else {
                throw SimulatorFailure(description: "nghttpd: no \(what): \(log.suffix(2000))")
            }
            // There is nothing to wait on but its port and its files.
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    // MARK: What it did

    /// What it has logged: each frame, and its headers.
    package var log: String {
        String(decoding: (try? Data(contentsOf: URL(fileURLWithPath: "\(folder)/log"))) ?? Data(), as: UTF8.self)
    }

    /// The apns-ids of the pushes that were answered with a status, in that order.
    package func answered(_ status: Int) -> [String] {
        // Connections are counted anew by each process.
        var ids: [String: String] = [:]
        var answering: String?
        var found: [String] = []
        for line in log.split(separator: "\n") {
            if let range = line.range(of: ") apns-id: ") {
                ids[stream(line)] = String(line[range.upperBound...])
            } else if line.contains("] send HEADERS frame") {
                answering = stream(line)
            } else if line.contains(":status: "), let place = answering {
                if line.hasSuffix(":status: \(status)"), let id = ids[place] { found.append(id) }
                answering = nil
            }
        }
        return found
    }

    /// Connection and stream of a line such as `[id=1] [  0.507] recv (stream_id=13) apns-id: …`.
    private func stream(_ line: Substring) -> String {
        let connection = line.prefix { $0 != "]" }
        let stream = line.components(separatedBy: "stream_id=").last?.prefix(while: \.isNumber) ?? ""
        return "\(connection) \(stream)"
    }
}
