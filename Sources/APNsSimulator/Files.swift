// Small files: read whole, replaced whole, and one lock between processes.

import Glibc

/// Reading and writing whole files.
package enum FileBytes {
    /// The contents; nil when the file cannot be read.
    package static func read(_ path: String) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count > 0 { bytes.append(contentsOf: chunk[..<count]) } else if errno != EINTR { return nil }
        }
    }

    /// Puts a file in place whole, for its owner's eyes only; a reader sees the old or the new one.
    package static func replace(_ path: String, with bytes: [UInt8]) throws(SimulatorError) {
        let draft = path + ".new"
        let descriptor = unsafe open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system("\(draft) cannot be written", errno) }
        defer { close(descriptor) }
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe write(descriptor, $0.baseAddress?.advanced(by: sent), $0.count - sent)
            }
            guard count > 0 || errno == EINTR else { throw .system("\(draft) cannot be written", errno) }
            sent += max(0, count)
        }
        guard unsafe rename(draft, path) == 0 else { throw .system("\(path) cannot be written", errno) }
    }
}

/// A lock that processes share through a file.
enum FileLock {
    /// Runs `body` while no other process holds the lock.
    static func whileHeld(_ path: String, _ body: () throws -> Void) throws {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SimulatorError.system("\(path) cannot be opened", errno) }
        // Closing gives the lock up.
        defer { close(descriptor) }
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { throw SimulatorError.system("\(path) cannot be locked", errno) }
        }
        try body()
    }
}
