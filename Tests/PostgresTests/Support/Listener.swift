// Plain sockets for tests: a listener that accepts nothing, which is what a frozen server looks like from outside, and a
// proxy that can break a connection at a chosen byte.

import Glibc

/// A listening socket on 127.0.0.1; what connects to it is never answered.
final class Listener: Sendable {
    let descriptor: Int32
    let port: Int

    init() throws {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(socket, address, length) | listen(socket, 16) | getsockname(socket, address, &length)
            }
        }
        guard socket >= 0, result == 0 else { throw Failure("listen: \(errno)") }
        descriptor = socket
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    func close() { Glibc.close(descriptor) }
}

/// Carries bytes between a client and a server, and breaks the connection where a test wants it.
final class FaultProxy: @unchecked Sendable {
    /// What happens when the bytes `COMMIT` come from the client.
    enum OnCommit: Sendable {
        case pass
        /// Both sides are closed before the server sees it.
        case cutBefore
        /// The server gets it and is given time to carry it out; the client gets no answer.
        case cutAfter
    }

    private let listener: Listener
    private let server: Int
    private let onCommit: Guarded<OnCommit>
    private let stopped = Guarded(false)

    var port: Int { listener.port }

    init(to server: Int, onCommit: OnCommit = .pass) throws {
        listener = try Listener()
        self.server = server
        self.onCommit = Guarded(onCommit)
        startThread { [self] in accept() }
    }

    func set(_ onCommit: OnCommit) { self.onCommit.withLock { $0 = onCommit } }

    func close() {
        stopped.withLock { $0 = true }
        shutdown(listener.descriptor, Int32(SHUT_RDWR))
    }

    private func accept() {
        while true {
            let client = Glibc.accept(listener.descriptor, nil, nil)
            guard client >= 0, !stopped.withLock({ $0 }) else { return listener.close() }
            startThread { [self] in serve(client) }
        }
    }

    private func serve(_ client: Int32) {
        let upstream = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer {
            Glibc.close(client)
            Glibc.close(upstream)
        }
        var address = loopback(port: server)
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(upstream, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { return }
        var watched = [
            pollfd(fd: client, events: Int16(POLLIN), revents: 0),
            pollfd(fd: upstream, events: Int16(POLLIN), revents: 0),
        ]
        while poll(&watched, 2, 30_000) > 0 {
            if watched[0].revents != 0, !forward(from: client, to: upstream, isFromClient: true) { return }
            if watched[1].revents != 0, !forward(from: upstream, to: client, isFromClient: false) { return }
        }
    }

    private func forward(from source: Int32, to target: Int32, isFromClient: Bool) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(source, &buffer, buffer.count)
        guard count > 0 else { return false }
        let holdsCommit = isFromClient && contains(buffer[..<count], "COMMIT")
        let action = holdsCommit ? onCommit.withLock { $0 } : .pass
        if action == .cutBefore { return false }
        guard send(target, buffer, count, Int32(MSG_NOSIGNAL)) == count else { return false }
        guard action == .cutAfter else { return true }
        // The server's answer shows that it has committed; it is not passed on.
        return read(target, &buffer, buffer.count) < 0
    }

    private func contains(_ bytes: ArraySlice<UInt8>, _ text: String) -> Bool {
        let wanted = Array(text.utf8)
        guard bytes.count >= wanted.count else { return false }
        return (bytes.startIndex...(bytes.endIndex - wanted.count)).contains {
            bytes[$0] == wanted[0] && bytes[$0..<($0 + wanted.count)].elementsEqual(wanted)
        }
    }
}

private func loopback(port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return address
}

/// Runs `body` on a thread of its own.
func startThread(_ body: @escaping @Sendable () -> Void) {
    final class Box {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(body)).toOpaque()
    pthread_create(
        &thread, nil,
        { raw in
            if let raw { Unmanaged<Box>.fromOpaque(raw).takeRetainedValue().body() }
            return nil
        }, box)
    pthread_detach(thread)
}
