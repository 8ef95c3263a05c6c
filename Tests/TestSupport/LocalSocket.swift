// Sockets on 127.0.0.1 as the doubles in these tests need them: listened on, connected, closed by FIN or by RST.

import Glibc

/// Calls of the socket interface; descriptors are closed in children.
enum LocalSocket {
    /// A socket that is bound to a port of its own, or to `port`, and listens if it is to; `blocks`: accepting waits.
    ///
    /// - Throws: `CommandError` when a call fails.
    static func bound(port: Int = 0, listens: Bool, blocks: Bool = false) throws -> Int32 {
        let flags = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_INET, blocks ? flags : flags | Int32(SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw CommandError(description: "socket: errno \(errno)") }
        var yes: Int32 = 1
        // Two sockets may hold one port, so that it stays ours while nobody listens there.
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &yes, socklen_t(MemoryLayout<Int32>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        let isBound = withAddress(port) { bind(descriptor, $0, $1) == 0 }
        guard isBound, !listens || listen(descriptor, 128) == 0 else {
            let code = errno
            close(descriptor)
            throw CommandError(description: "bind, listen: errno \(code)")
        }
        return descriptor
    }

    /// The port that a socket is bound to.
    static func port(of descriptor: Int32) -> Int {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        return code == 0 ? Int(UInt16(bigEndian: address.sin_port)) : 0
    }

    /// A connection that was made to a listening socket, non-blocking; nil when there is none.
    static func accepted(on listener: Int32) -> Int32? {
        let descriptor = accept(listener, nil, nil)
        guard descriptor >= 0 else { return nil }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        return descriptor
    }

    /// A connection to a port, non-blocking and possibly still under way; nil when it was refused at once.
    static func connected(to port: Int) -> Int32? {
        let flags = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_INET, flags, 0)
        guard descriptor >= 0 else { return nil }
        if withAddress(port, { connect(descriptor, $0, $1) == 0 || errno == EINPROGRESS }) { return descriptor }
        close(descriptor)
        return nil
    }

    /// Whether somebody listens on a port.
    static func isOpen(_ port: Int) -> Bool {
        guard let descriptor = connected(to: port) else { return false }
        defer { close(descriptor) }
        // Whatever was refused is known by then.
        var state = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        var error: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return poll(&state, 1, 5000) == 1 && getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0
            && error == 0
    }

    /// Closes a connection so that the other side gets RST.
    static func reset(_ descriptor: Int32) {
        var hard = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &hard, socklen_t(MemoryLayout<linger>.size))
        close(descriptor)
    }

    private static func withAddress<T>(_ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> T) -> T {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
    }
}
