// A client and a server on the two ends of a socket pair, driven in turn until both rest.

import Glibc

@testable import TLS

final class StreamPair {
    enum Outcome: Equatable {
        case done
        case failed(client: TLSError?, server: TLSError?)
        var clientError: TLSError? { if case .failed(let error, _) = self { error } else { nil } }
        var serverError: TLSError? { if case .failed(_, let error) = self { error } else { nil } }
    }

    let client: TLSStream
    let server: TLSStream
    let serverDescriptor: Int32
    private let clientDescriptor: Int32
    private var serverOpen = true

    init(client: TLSClientContext, server: TLSServerContext, host: String) throws {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0, &ends) == 0 else {
            throw TLSError(.socket, native: Int(errno), "no socket pair")
        }
        (clientDescriptor, serverDescriptor) = (ends[0], ends[1])
        self.client = try TLSStream(client: client, descriptor: ends[0], host: host)
        self.server = try TLSStream(server: server, descriptor: ends[1])
    }

    deinit {
        close(clientDescriptor)
        if serverOpen { close(serverDescriptor) }
    }

    func closeServer() {
        serverOpen = false
        close(serverDescriptor)
    }

    /// Drives both ends until each is done or has failed.
    func handshake() -> Outcome {
        var (ours, theirs): (TLSStep?, TLSStep?) = (nil, nil)
        for _ in 0..<20 {
            if ours?.isFinal != true { ours = client.handshake() }
            if theirs?.isFinal != true { theirs = server.handshake() }
        }
        if ours == .done(0) && theirs == .done(0) { return .done }
        return .failed(client: ours?.error, server: theirs?.error)
    }

    /// Sends all bytes and returns what arrived.
    func carry(_ bytes: [UInt8], from source: TLSStream, to target: TLSStream) -> [UInt8] {
        var sent = 0
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 5000)
        for _ in 0..<10_000 where received.count < bytes.count {
            if sent < bytes.count {
                let step = bytes.withUnsafeBytes { source.write(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
                if case .done(let count) = step { sent += count }
            }
            let step = buffer.withUnsafeMutableBytes { target.read(into: $0) }
            if case .done(let count) = step { received += buffer[..<count] }
        }
        return received
    }

    func readOnce(_ stream: TLSStream) -> TLSStep {
        var buffer = [UInt8](repeating: 0, count: 5000)
        return buffer.withUnsafeMutableBytes { stream.read(into: $0) }
    }
}

extension TLSStep {
    var error: TLSError? { if case .failed(let error) = self { error } else { nil } }
    var isFinal: Bool { self == .done(0) || self == .closed || error != nil }
}
