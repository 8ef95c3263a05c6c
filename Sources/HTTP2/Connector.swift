// The way to a connected descriptor on which TLS can start: name, addresses, TCP, and a tunnel where a proxy stands in between;
// nothing above needs to know of it.
//
//   resolve ──> connect to address 1 ──(fault, or its share of the time is over)──> address 2 ──> … ──> (CONNECT) ──> completion
//
// With a proxy the name that is looked up is the proxy's.

import Glibc
package import Reactor

/// How often each address of a host is in use, so that the connections of a pool spread over all of them.
struct AddressBook {
    private var uses: [String: Int] = [:]

    /// The addresses, the least used first; among equals the resolver's order turned by `turn`.
    func ordered(_ addresses: [SocketAddress], turn: Int) -> [SocketAddress] {
        guard let family = addresses.first?.family else { return [] }
        // The resolver puts the family that works first (RFC 6724).
        let preferred = addresses.filter { $0.family == family }
        let others = addresses.filter { $0.family != family }
        let start = turn % preferred.count
        let turned = Array(preferred[start...] + preferred[..<start])
        let counted = turned.enumerated().map { (rank: (uses[$1.description] ?? 0, $0), address: $1) }
        return counted.sorted { $0.rank < $1.rank }.map(\.address) + others
    }

    mutating func acquire(_ address: SocketAddress) { uses[address.description, default: 0] += 1 }

    mutating func release(_ address: SocketAddress) {
        guard let count = uses[address.description] else { return }
        uses[address.description] = count > 1 ? count - 1 : nil
    }
}

/// One attempt to get a connected descriptor; calls back exactly once unless it is cancelled.
package final class Connector: IOHandler {
    package typealias Completion = (Result<(descriptor: Int32, address: SocketAddress), HTTP2Fault>) -> Void

    private let loop: EventLoop
    private let host: String
    private let port: UInt16
    private let deadline: MonotonicTime
    private let order: ([SocketAddress]) -> [SocketAddress]
    private var completion: Completion?
    private var addresses: ArraySlice<SocketAddress> = []
    private var address: SocketAddress?
    private var descriptor: Int32?
    private var registration: IORegistration?
    private var attemptTimer: LoopTimer?
    private var lastFault = HTTP2Fault(.connect, "no address")
    private let proxy: HTTPProxy?
    private var tunnel: ProxyTunnel?
    /// What has not been sent to the proxy yet.
    private var unsent: ArraySlice<UInt8> = []

    /// `order` puts the resolved addresses into the order in which they are tried.
    package init(
        loop: EventLoop, host: String, port: UInt16, proxy: HTTPProxy? = nil, deadline: MonotonicTime,
        order: @escaping ([SocketAddress]) -> [SocketAddress], completion: @escaping Completion
    ) {
        self.loop = loop
        self.host = host
        self.port = port
        self.proxy = proxy
        self.deadline = deadline
        self.order = order
        self.completion = completion
    }

    /// Begins with a fresh look-up.
    package func start() {
        Resolver.resolve(
            host: proxy?.host ?? host, port: proxy?.port ?? port, timeout: deadline.since(loop.now), loop: loop
        ) { [weak self] result in
            self?.resolved(result)
        }
    }

    /// Gives up; nothing is called back.
    package func cancel() {
        completion = nil
        dropAttempt()
    }

    private func resolved(_ result: Result<[SocketAddress], ResolveError>) {
        guard completion != nil else { return }
        switch result {
        case .success(let found):
            addresses = order(found)[...]
            tryNext()
        case .failure(let error): finish(.failure(HTTP2Fault(.resolve, error.description)))
        }
    }

    private func tryNext() {
        guard completion != nil else { return }
        guard let next = addresses.popFirst() else { return finish(.failure(lastFault)) }
        address = next
        do throws(ReactorError) {
            let descriptor = try TCPSocket.connect(to: next)
            self.descriptor = descriptor
            registration = try loop.register(descriptor, .writable, self)
        } catch {
            return attemptFailed(HTTP2Fault(.connect, native: Int(error.errno), error.description))
        }
        // A silent address must leave time for the next ones.
        let left = deadline.since(.now())
        let share = addresses.isEmpty ? left : left / Swift.min(addresses.count + 1, 3)
        attemptTimer = loop.schedule(after: share) { [weak self] in
            self?.attemptFailed(HTTP2Fault(.connectTimeout, "connect to \(next): no answer"))
        }
    }

    package func ready(_ events: IOEvents) {
        guard let descriptor, let address else { return }
        if tunnel != nil { return goOnWithProxy(descriptor) }
        let error = TCPSocket.pendingError(descriptor)
        guard error == 0 else {
            let text = ReactorError(call: "connect to \(address)", errno: error).description
            return attemptFailed(HTTP2Fault(.connect, native: Int(error), text))
        }
        guard let proxy else { return connected(descriptor, address) }
        let tunnel = ProxyTunnel(proxy, host: host, port: port)
        self.tunnel = tunnel
        unsent = tunnel.request[...]
        goOnWithProxy(descriptor)
    }

    private func connected(_ descriptor: Int32, _ address: SocketAddress) {
        stopWatching()
        self.descriptor = nil
        finish(.success((descriptor, address)))
    }

    // MARK: The proxy

    private func goOnWithProxy(_ descriptor: Int32) {
        while !unsent.isEmpty {
            let count = unsafe unsent.withUnsafeBytes {
                unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0 {
                if errno == EINTR { continue }
                guard errno == EAGAIN else {
                    return proxyFailed(HTTP2Fault(.proxy, native: Int(errno), "\(host): the proxy is gone"))
                }
                return
            }
            unsent = unsent.dropFirst(count)
            if unsent.isEmpty, let registration { loop.modify(registration, .readable) }
        }
        hearProxy(descriptor)
    }

    /// Byte by byte: the first one after the answer is TLS.
    private func hearProxy(_ descriptor: Int32) {
        var byte: UInt8 = 0
        while tunnel != nil, let address {
            let count = unsafe recv(descriptor, &byte, 1, 0)
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN { return }
            guard count == 1, let state = tunnel?.take(byte) else {
                return proxyFailed(tunnel?.ended ?? HTTP2Fault(.proxy, "no proxy"))
            }
            switch state {
            case .waiting: continue
            case .open:
                tunnel = nil
                return connected(descriptor, address)
            case .failed(let fault): return proxyFailed(fault)
            }
        }
    }

    /// Another address of the proxy would say the same.
    private func proxyFailed(_ fault: HTTP2Fault) {
        dropAttempt()
        finish(.failure(fault))
    }

    private func attemptFailed(_ fault: HTTP2Fault) {
        lastFault = fault
        dropAttempt()
        tryNext()
    }

    private func dropAttempt() {
        stopWatching()
        if let descriptor { close(descriptor) }
        descriptor = nil
        tunnel = nil
        unsent = []
    }

    private func stopWatching() {
        if let attemptTimer { loop.cancel(attemptTimer) }
        attemptTimer = nil
        if let registration { loop.deregister(registration) }
        registration = nil
    }

    private func finish(_ result: Result<(descriptor: Int32, address: SocketAddress), HTTP2Fault>) {
        let completion = self.completion
        self.completion = nil
        completion?(result)
    }
}
