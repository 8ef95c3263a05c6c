// Can Apple's service be reached from here, and does it prove to be what it claims? A TCP connection and a TLS handshake answer
// that; no request is made, so nothing is sent to anybody.
//
//     look up ──► connect to the first address ──► handshake ──► report
//                      └── refused or silent: the next address

import APNs
import CLinux
import Reactor
import TLS

/// What a probe found.
struct ProbeReport: Sendable, Equatable {
    let address: String
    let tlsVersion: String
    /// The protocol agreed; pgpush needs `h2`.
    let alpn: String?
    let milliseconds: Int
}

/// Why a probe did not get through.
struct ProbeFailure: Error, Equatable {
    let message: String
    let remedy: String
}

/// One attempt at one host; used on one loop.
final class TLSProbe: IOHandler {
    private static let limit = Duration.seconds(10)
    /// A silent address must leave time for the others.
    private static let limitPerAddress = Duration.seconds(4)

    private let loop: EventLoop
    private let endpoint: APNsEndpoint
    private let context: TLSClientContext
    private let started = MonotonicTime.now()
    private var answer: CheckedContinuation<Result<ProbeReport, ProbeFailure>, Never>?
    private var addresses: [SocketAddress] = []
    private var lastProblem = "no address"
    private var descriptor: Int32 = -1
    private var registration: IORegistration?
    private var stream: TLSStream?
    private var timer: LoopTimer?

    private init(_ endpoint: APNsEndpoint, _ context: TLSClientContext, _ loop: EventLoop) {
        self.endpoint = endpoint
        self.context = context
        self.loop = loop
    }

    /// Tries to reach the endpoint, for 10 s at most.
    static func run(
        _ endpoint: APNsEndpoint, context: TLSClientContext, loop: EventLoop
    ) async -> Result<ProbeReport, ProbeFailure> {
        let probe = TLSProbe(endpoint, context, loop)
        return await withCheckedContinuation { continuation in
            probe.answer = continuation
            probe.lookUp()
        }
    }

    private func lookUp() {
        Resolver.resolve(host: endpoint.host, port: endpoint.port, timeout: Self.limitPerAddress, loop: loop) {
            result in
            switch result {
            case .success(let found):
                self.addresses = found
                self.connectToNext()
            case .failure(let error):
                self.finish(
                    .failure(ProbeFailure(message: error.description, remedy: "check the name server of this machine")))
            }
        }
    }

    private func connectToNext() {
        closeSocket()
        guard let address = addresses.first, MonotonicTime.now().since(started) < Self.limit else {
            return finish(
                .failure(
                    ProbeFailure(
                        message: "cannot connect to \(endpoint): \(lastProblem)",
                        remedy: "allow outgoing connections to port \(endpoint.port)")))
        }
        addresses.removeFirst()
        do throws(ReactorError) {
            descriptor = try TCPSocket.connect(to: address)
            registration = try loop.register(descriptor, .writable, self)
        } catch {
            lastProblem = error.description
            return connectToNext()
        }
        timer = loop.schedule(after: Self.limitPerAddress) { [self] in
            lastProblem = stream == nil ? "no answer" : "no answer to the TLS handshake"
            connectToNext()
        }
    }

    func ready(_ events: IOEvents) {
        if stream == nil, !beginHandshake() { return }
        guard let stream else { return }
        switch stream.handshake() {
        case .done:
            let elapsed = MonotonicTime.now().since(started).millisecondsRoundedUp
            finish(
                .success(
                    ProbeReport(
                        address: endpoint.description, tlsVersion: stream.version, alpn: stream.selectedALPN,
                        milliseconds: Int(elapsed))))
        case .wantRead: watch(.readable)
        case .wantWrite: watch(.writable)
        case .closed: finish(.failure(handshakeFailure("the other side closed the connection", isTrust: false)))
        case .failed(let error): finish(.failure(handshakeFailure(error.message, isTrust: error.code == .verification)))
        }
    }

    /// False when this address is of no use.
    private func beginHandshake() -> Bool {
        let problem = TCPSocket.pendingError(descriptor)
        if problem != 0 {
            lastProblem = unsafe String(cString: strerror(problem))
            connectToNext()
            return false
        }
        do throws(TLSError) {
            stream = try TLSStream(client: context, descriptor: descriptor, host: endpoint.host)
            return true
        } catch {
            finish(.failure(handshakeFailure(error.message, isTrust: false)))
            return false
        }
    }

    private func handshakeFailure(_ message: String, isTrust: Bool) -> ProbeFailure {
        ProbeFailure(
            message: "\(endpoint): \(message)",
            remedy: isTrust
                ? "install ca-certificates, or name the right bundle by APNS_CA_PATH; a proxy that opens TLS cannot be used"
                : "something between here and \(endpoint) does not let TLS through")
    }

    private func watch(_ interest: IOInterest) {
        if let registration { loop.modify(registration, interest) }
    }

    private func finish(_ result: Result<ProbeReport, ProbeFailure>) {
        closeSocket()
        guard let answer else { return }
        self.answer = nil
        answer.resume(returning: result)
    }

    private func closeSocket() {
        if let timer { loop.cancel(timer) }
        timer = nil
        stream?.shutdown()
        stream = nil
        if let registration { loop.deregister(registration) }
        registration = nil
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }
}
