// An HTTP proxy that nobody here wrote, with a password, for those who must go out through one.

import Foundation

/// A running tinyproxy.
package final class TinyProxy {
    /// TCP port on 127.0.0.1.
    package let port: Int
    private let folder: String
    private var process: ChildProcess?

    /// One that lets user anna with the password s3cret:pass through, to `ports` alone if there are any.
    package init(ports: [String] = []) throws {
        port = try FreePort.find()
        folder = "\(NSTemporaryDirectory())/tinyproxy-\(port)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try """
        Port \(port)
        Listen 127.0.0.1
        Timeout 600
        MaxClients 50
        LogFile "\(folder)/log"
        LogLevel Connect
        Allow 127.0.0.1
        BasicAuth anna s3cret
        \(ports.map { "ConnectPort \($0)" }.joined(separator: "\n"))
        """.write(toFile: "\(folder)/conf", atomically: true, encoding: .utf8)
    }

    /// For those who know the password.
    package var url: String { "http://anna:s3cret@127.0.0.1:\(port)" }
    /// What it has logged.
    package var log: String { (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "" }

    /// Starts it; it accepts connections when this returns.
    package func start() async throws {
        process = try ChildProcess.mortal(["/usr/bin/tinyproxy", "-d", "-c", "\(folder)/conf"])
        let end = ContinuousClock.now + .seconds(60)
        // A short sleep may last longer than that where all threads are taken: the last look comes after it.
        while !LocalSocket.isOpen(port) {
            guard ContinuousClock.now < end else {
                throw SimulatorFailure(description: "tinyproxy does not listen: \(log)")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Kills it, with all connections through it.
    package func stop() async {
        process?.signal(SIGKILL)
        _ = await process?.end(within: .seconds(60))
        process = nil
    }
}
