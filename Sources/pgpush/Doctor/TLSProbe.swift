// Can Apple's service be reached from here, and does it prove to be what it claims? A TCP connection and a TLS handshake answer
// that; no request is made, so nothing is sent to anybody.
//
//     connect, as the worker does (HTTP2's Connector) ──► handshake ──► report

import APNs
import CLinux
import HTTP2
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

    private let loop: EventLoop
    private let endpoint: APNsEndpoint
    private let proxy: HTTPProxy?
    private let context: TLSClientContext
    private let started = MonotonicTime.now()
    private var answer: CheckedContinuation<Result<ProbeReport, ProbeFailure>, Never>?
    private var connector: Connector?
    private var descriptor: Int32 = -1
    private var registration: IORegistration?
    private var stream: TLSStream?
    private var timer: LoopTimer?

    private init(_ endpoint: APNsEndpoint, _ proxy: HTTPProxy?, _ context: TLSClientContext, _ loop: EventLoop) {
        self.endpoint = endpoint
        self.proxy = proxy
        self.context = context
        self.loop = loop
    }

    /// Tries to reach the endpoint, for 10 s at most.
    static func run(
        _ endpoint: APNsEndpoint, through proxy: HTTPProxy? = nil, context: TLSClientContext, loop: EventLoop
    ) async -> Result<ProbeReport, ProbeFailure> {
        let probe = TLSProbe(endpoint, proxy, context, loop)
        return await withCheckedContinuation { continuation in
            probe.answer = continuation
            probe.connect()
        }
    }

    private func connect() {
        timer = loop.schedule(after: Self.limit) { [self] in
            finish(.failure(handshakeFailure("no answer to the TLS handshake", isTrust: false)))
        }
        // The connection must have time left for TLS.
        let connector = Connector(
            loop: loop, host: endpoint.host, port: endpoint.port, proxy: proxy,
            deadline: started.advanced(by: Self.limit * 4 / 5), order: { $0 }
        ) { self.connected($0) }
        self.connector = connector
        connector.start()
    }

    private func connected(_ result: Result<(descriptor: Int32, address: SocketAddress), HTTP2Fault>) {
        connector = nil
        switch result {
        case .failure(let fault): finish(.failure(unreachable(fault)))
        case .success((let descriptor, _)):
            self.descriptor = descriptor
            do {
                registration = try loop.register(descriptor, .writable, self)
                stream = try TLSStream(client: context, descriptor: descriptor, host: endpoint.host)
            } catch {
                finish(.failure(handshakeFailure("\(error)", isTrust: false)))
            }
        }
    }

    private func unreachable(_ fault: HTTP2Fault) -> ProbeFailure {
        switch fault.code {
        case .resolve: ProbeFailure(message: fault.message, remedy: "check the name server of this machine")
        case .proxy: ProbeFailure(message: fault.message, remedy: "check APNS_PROXY_URL, and what the proxy allows")
        default:
            ProbeFailure(
                message: "cannot connect to \(endpoint): \(fault.message)",
                remedy: proxy == nil
                    ? "allow outgoing connections to port \(endpoint.port), or name a proxy by APNS_PROXY_URL"
                    : "check APNS_PROXY_URL (\(proxy?.description ?? ""))")
        }
    }

    func ready(_ events: IOEvents) {
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
        connector?.cancel()
        connector = nil
        stream?.shutdown()
        stream = nil
        if let registration { loop.deregister(registration) }
        registration = nil
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }
}
