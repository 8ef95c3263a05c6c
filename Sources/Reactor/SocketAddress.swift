// An address that a socket can connect to or listen on.

import CLinux

/// An IPv4 or IPv6 address with a port, as `getaddrinfo` gave it.
@safe package struct SocketAddress: Sendable, Equatable, CustomStringConvertible {
    private let storage: [UInt8]

    /// `AF_INET` or `AF_INET6`.
    package let family: Int32

    /// Copies the bytes of a `sockaddr`.
    init(bytes: UnsafeRawBufferPointer, family: Int32) {
        storage = unsafe [UInt8](bytes)
        self.family = family
    }

    /// Lends the address to a system call.
    func withSockaddr<T>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> T) -> T {
        unsafe storage.withUnsafeBytes { raw in
            // The storage is at least as aligned as an array's buffer, 16 bytes.
            let address = unsafe raw.baseAddress.map { unsafe $0.assumingMemoryBound(to: sockaddr.self) }
            guard let address = unsafe address else { preconditionFailure("an address is never empty") }
            return unsafe body(address, socklen_t(raw.count))
        }
    }

    /// The port number.
    package var port: UInt16 { storage.count < 4 ? 0 : UInt16(storage[2]) << 8 | UInt16(storage[3]) }

    /// The numeric address without the port, for example `17.188.143.34`.
    package var host: String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { name in
            let result = unsafe withSockaddr { address, length in
                unsafe getnameinfo(address, length, name.baseAddress, socklen_t(name.count), nil, 0, NI_NUMERICHOST)
            }
            guard result == 0, let text = name.baseAddress else { return "?" }
            return unsafe String(cString: text)
        }
    }

    /// Address and port, for example `127.0.0.1:8443` or `[::1]:8443`.
    package var description: String { family == AF_INET6 ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Looks `host` up, which may block for as long as the resolver likes: never call it on a loop.
    package static func lookUp(host: String, port: UInt16, passive: Bool = false) throws(ResolveError)
        -> [SocketAddress]
    {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : AI_ADDRCONFIG)
        var list: UnsafeMutablePointer<addrinfo>?
        var result = unsafe getaddrinfo(host, String(port), &hints, &list)
        if result != 0 && !passive {
            // Without a configured network even loopback names fail under AI_ADDRCONFIG.
            unsafe hints.ai_flags = AI_NUMERICSERV
            result = unsafe getaddrinfo(host, String(port), &hints, &list)
        }
        guard result == 0 else {
            throw ResolveError(host: host, reason: unsafe String(cString: gai_strerror(result)))
        }
        defer { unsafe freeaddrinfo(list) }
        return unsafe collect(list)
    }

    private static func collect(_ list: UnsafeMutablePointer<addrinfo>?) -> [SocketAddress] {
        var addresses: [SocketAddress] = []
        var entry = unsafe list
        while let info = unsafe entry?.pointee {
            if let address = unsafe info.ai_addr {
                let bytes = unsafe UnsafeRawBufferPointer(start: address, count: Int(info.ai_addrlen))
                unsafe addresses.append(SocketAddress(bytes: bytes, family: info.ai_family))
            }
            unsafe entry = info.ai_next
        }
        return addresses
    }
}
