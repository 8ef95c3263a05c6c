// A TCP port that nobody uses, and that nobody gets while these tests run: neither the kernel, which gives away ports of its ephemeral
// range to whoever binds to 0 or connects somewhere, nor another test process, which looks at the same locks.

import Foundation
import Glibc

/// Finds free TCP ports on 127.0.0.1.
package enum FreePort {
    private static let lock = NSLock()
    nonisolated(unsafe) private static var isTaken: Set<Int> = []
    /// Opened once, since to close it would end all locks; for tests of all users of the machine.
    private static let file: Int32 = {
        let path = "/tmp/pgpush-test-ports"
        // Some kernels refuse O_CREAT for what another user has made there.
        let known = open(path, O_RDWR | O_CLOEXEC)
        if known >= 0 { return known }
        let made = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
        if made >= 0 { fchmod(made, 0o666) }
        return made
    }()

    /// A port that is free, outside the ephemeral range, and this process's alone from now on until it ends.
    ///
    /// - Throws: `CommandError` when there is none.
    package static func find() throws -> Int {
        try lock.withLock {
            let range = range()
            // At random, so that processes that start together do not try the same ones one after the other.
            let first = Int.random(in: range)
            for step in 0..<range.count {
                let port = range.lowerBound + (first - range.lowerBound + step) % range.count
                guard !isTaken.contains(port), isFree(port), hold(port) else { continue }
                isTaken.insert(port)
                return port
            }
            throw CommandError(description: "no free port in \(range)")
        }
    }

    /// The ports below the ephemeral range, or above it where that begins low; all of them where it is everything.
    private static func range() -> Range<Int> {
        let text = try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        let limits = (text ?? "").split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
        guard limits.count == 2 else { return 10_240..<32_768 }
        if limits[0] > 12_000 { return 10_240..<limits[0] }
        if limits[1] < 63_000 { return limits[1] + 1..<65_536 }
        return 10_240..<65_536
    }

    /// Whether nobody is bound to it.
    private static func isFree(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    /// Locks the byte of this number in a file that all share; the lock ends with the process, however that ends.
    private static func hold(_ port: Int) -> Bool {
        // Without the file it is left to chance, which is kind where each begins at random.
        guard file >= 0 else { return true }
        var byte = flock()
        byte.l_type = Int16(F_WRLCK)
        byte.l_whence = Int16(SEEK_SET)
        byte.l_start = port
        byte.l_len = 1
        return fcntl(file, F_SETLK, &byte) == 0
    }
}
