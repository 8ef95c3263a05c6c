// Values that are read from a file: `@FILE`, or `@-` for standard input.

import Glibc
import PushStore

/// Reads small files.
enum InputFile {
    /// Far above the largest payload Apple takes, and small enough to hold.
    private static let limit = 1 << 20

    /// The text of a file; `option` is how messages call the place it is for.
    static func read(_ path: String, for option: String) throws -> String {
        let descriptor = path == "-" ? dup(STDIN_FILENO) : unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path, option) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count == 0 { break }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure(path, option)
            }
            bytes += chunk[..<count]
            if bytes.count > limit { throw UsageError("\(option): \(path) is longer than 1 MB") }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UsageError("\(option): \(path) is not UTF-8")
        }
        return text
    }

    private static func failure(_ path: String, _ option: String) -> CommandFailure {
        CommandFailure(.failed, "\(option): cannot read \(path): \(unsafe String(cString: strerror(errno)))")
    }
}
