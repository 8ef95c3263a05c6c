// nginx in the place of Apple, or before it: an HTTP/2 server that nobody here wrote. Its access log says what it answered.

import Foundation

/// A running nginx on 127.0.0.1.
package final class Nginx {
    /// TCP port of the TLS endpoint.
    package let port: Int
    private let folder: String
    private let credentials: String
    private var process: ChildProcess?

    /// A push that was answered.
    package struct Answer: Sendable {
        package let status: Int
        package let apnsID: String
        /// nginx's number of the connection.
        package let connection: Int
        package let path: String
    }

    /// Runs `body` with one that is configured so, and ends it afterwards.
    package static func run(
        _ simulator: SimulatorProcess, _ server: String, beside: String = "", _ body: (Nginx) async throws -> Void
    ) async throws {
        let nginx = try Nginx(simulator)
        try nginx.configure(server, beside: beside)
        do {
            try await nginx.start()
            try await body(nginx)
            await nginx.stop()
        } catch {
            await nginx.stop()
            throw error
        }
    }

    /// One that shows the server certificate of a simulator, which is trusted by whoever trusts that.
    private init(_ simulator: SimulatorProcess) throws {
        port = try FreePort.find()
        folder = "\(NSTemporaryDirectory())/nginx-\(port)"
        credentials = "\(simulator.folder)/credentials"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    /// Leads a worker here, in both environments.
    package var variables: [String: String] {
        let url = "https://127.0.0.1:\(port)"
        return ["APNS_PRODUCTION_URL": url, "APNS_SANDBOX_URL": url]
    }

    /// A socket in its folder, for a second server behind it.
    package var innerSocket: String { "unix:\(folder)/inner" }

    /// What it has logged about itself.
    package var log: String { (try? String(contentsOfFile: "\(folder)/error", encoding: .utf8)) ?? "" }

    /// What it has answered, in that order; of a line that is being written nothing.
    package var answers: [Answer] {
        let text = (try? String(contentsOfFile: "\(folder)/access", encoding: .utf8)) ?? ""
        return text.components(separatedBy: "\n").dropLast().compactMap { line in
            let words = line.components(separatedBy: " ")
            guard words.count == 4, let status = Int(words[0]), let connection = Int(words[2]) else { return nil }
            return Answer(status: status, apnsID: words[1], connection: connection, path: words[3])
        }
    }

    /// Writes the configuration.
    ///
    /// - Parameters:
    ///   - server: what stands in the server of the TLS endpoint.
    ///   - beside: what stands beside that server.
    /// - Throws: when the file cannot be written.
    package func configure(_ server: String, beside: String = "") throws {
        // What is started by root gives root up, and could not write into folders of ours then.
        let user = geteuid() == 0 ? "user root;" : ""
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder)/\($0);" }
        try """
        daemon off;
        \(user)
        worker_processes 1;
        pid \(folder)/pid;
        error_log \(folder)/error info;
        events { worker_connections 512; }
        http {
            log_format pushes '$status $http_apns_id $connection $uri';
            access_log \(folder)/access pushes;
            \(temporary.joined(separator: "\n"))
            default_type application/json;
            \(beside)
            server {
                listen 127.0.0.1:\(port) ssl http2;
                ssl_certificate \(credentials)/server.pem;
                ssl_certificate_key \(credentials)/server.key;
                \(server)
            }
        }
        """.write(toFile: "\(folder)/conf", atomically: true, encoding: .utf8)
    }

    /// Starts it; it accepts connections when this returns.
    private func start() async throws {
        process = try ChildProcess.mortal(
            ["/usr/sbin/nginx", "-p", folder, "-e", "\(folder)/error", "-c", "\(folder)/conf"], by: "TERM")
        // Only then are its signals what they should be.
        try await until("worker") { log.contains("start worker process ") && LocalSocket.isOpen(port) }
    }

    /// Has it read its configuration again; from then on new connections meet the new one, and the old worker says goodbye to its own.
    package func reload() async throws {
        let before = log.count(of: "gracefully shutting down")
        process?.signal(SIGHUP)
        try await until("an old worker that shuts down") { log.count(of: "gracefully shutting down") > before }
    }

    /// Waits until it has given so many answers.
    package func answered(_ count: Int) async throws {
        try await until("\(count) answers") { answers.count >= count }
    }

    private func until(_ what: String, _ isMet: () -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while !isMet() {
            guard ContinuousClock.now < end else {
                throw SimulatorFailure(description: "nginx: no \(what): \(log.suffix(2000))")
            }
            // There is nothing to wait on but its files.
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Ends it with its workers.
    private func stop() async {
        process?.signal(SIGTERM)
        _ = await process?.end(within: .seconds(20))
        process = nil
        try? FileManager.default.removeItem(atPath: folder)
    }
}
