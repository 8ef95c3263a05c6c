// TCP sockets as the loops want them: non-blocking, closed on exec, no delay, and never waiting on a dead peer
// for the kernel's quarter of an hour.

import CLinux

/// Makes and asks TCP sockets; the caller owns the descriptor it gets.
package enum TCPSocket {
    /// Begins to connect; the descriptor becomes writable when it is decided, then ask `pendingError`.
    ///
    /// `userTimeout` is how long sent bytes may stay unacknowledged before the kernel gives the connection up.
    package static func connect(
        to address: SocketAddress, userTimeout: Duration = .seconds(30)
    ) throws(ReactorError) -> Int32 {
        let descriptor = try make(address.family)
        setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        setOption(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, Int32(clamping: userTimeout.millisecondsRoundedUp))
        setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
        let result = unsafe address.withSockaddr { unsafe CLinux.connect(descriptor, $0, $1) }
        if result == 0 || currentErrno() == EINPROGRESS { return descriptor }
        let failure = ReactorError.last("connect to \(address)")
        close(descriptor)
        throw failure
    }

    /// Listens on a numeric address; port 0 lets the kernel choose.
    package static func listen(host: String, port: UInt16, backlog: Int32 = 512) throws -> Int32 {
        guard let address = try SocketAddress.lookUp(host: host, port: port, passive: true).first else {
            throw ResolveError(host: host, reason: "no address")
        }
        let descriptor = try make(address.family)
        setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        guard unsafe address.withSockaddr({ unsafe bind(descriptor, $0, $1) }) == 0,
            CLinux.listen(descriptor, backlog) == 0
        else {
            let failure = ReactorError.last("listen on \(address)")
            close(descriptor)
            throw failure
        }
        return descriptor
    }

    /// Takes the next waiting connection; nil when none waits.
    package static func accept(_ listener: Int32) throws(ReactorError) -> Int32? {
        let flags = Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = accept4(listener, nil, nil, flags)
        if descriptor >= 0 {
            setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
            return descriptor
        }
        switch currentErrno() {
        case EAGAIN, EINTR, ECONNABORTED: return nil
        default: throw .last("accept4")
        }
    }

    /// The port that a listening socket got.
    package static func localPort(_ descriptor: Int32) throws(ReactorError) -> UInt16 {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe getsockname(descriptor, $0, &length)
            }
        }
        guard result == 0 else { throw .last("getsockname") }
        return unsafe withUnsafeBytes(of: storage) {
            unsafe SocketAddress(
                bytes: UnsafeRawBufferPointer(rebasing: $0[..<Int(length)]), family: Int32(storage.ss_family))
        }.port
    }

    /// The error that ended a connection attempt, or 0; reading it clears it.
    package static func pendingError(_ descriptor: Int32) -> Int32 {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        let result = unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &value, &length)
        return result == 0 ? value : currentErrno()
    }

    /// Makes `close` send a reset instead of an orderly end.
    package static func setResetOnClose(_ descriptor: Int32) {
        var value = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    private static func make(_ family: Int32) throws(ReactorError) -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, type, 0)
        guard descriptor >= 0 else { throw .last("socket") }
        return descriptor
    }

    // An option that a kernel refuses makes the connection a little worse, not wrong: so its result is not asked.
    private static func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}
