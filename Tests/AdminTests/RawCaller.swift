// A caller who does what no good one would.

import Glibc

struct NotConnected: Error {
    let errno: Int32
}

/// A TCP connection to a port of this machine.
struct RawCaller {
    private let descriptor: Int32

    init(_ port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        // Longer than anybody here waits for anything.
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw NotConnected(errno: errno) }
    }

    func close() { Glibc.close(descriptor) }

    @discardableResult
    func send(_ text: String) -> Bool {
        var bytes = Array(text.utf8)
        return Glibc.send(descriptor, &bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }

    /// Whether a byte comes within a minute.
    func waitForByte() -> Bool {
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, 0) == 1
    }

    /// Whether the other side ends the connection within a minute.
    func waitForEnd() -> Bool {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &bytes, bytes.count, 0)
            if count == 0 || (count < 0 && errno == ECONNRESET) { return true }
            if count < 0 { return false }
        }
    }

    /// The same while a byte of a head that never ends goes out ten times a second.
    func dripUntilEnd() -> Bool {
        for _ in 0..<600 {
            var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&state, 1, 100) > 0 { return waitForEnd() }
            if !send("a") { return true }
        }
        return false
    }
}
