// Keys and checks by the openssl command: another implementation than the one under test.

import Foundation

/// A temporary folder in which openssl commands run; removed with its owner.
final class OpenSSLCommand {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("pgpush-apns-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// Runs a script with /bin/sh -e in the folder.
    ///
    /// Returns whether it ended with 0.
    func run(_ script: String) throws -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.currentDirectoryURL = folder
        process.standardError = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.arguments = ["-ec", script]
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    func write(_ bytes: [UInt8], to name: String) throws { try Data(bytes).write(to: url(name)) }

    func read(_ name: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: url(name))) }

    func text(_ name: String) throws -> String { String(decoding: try read(name), as: UTF8.self) }

    func path(_ name: String) -> String { url(name).path }

    private func url(_ name: String) -> URL { folder.appendingPathComponent(name) }
}
