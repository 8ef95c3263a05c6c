// Requests by hand, one after the other: what the command line asks of Apple. A pool of one connection that is given up at the first
// attempt that fails: somebody waits in front of it, and "connection refused" must not take fifteen seconds to be told.

package import HTTP2
import PushModel
package import Reactor
package import TLS
import Telemetry

/// An answer to a single request.
package struct APNsReply: Sendable {
    package let status: Int
    /// As Apple sent it, cleaned; empty when there is none.
    package let reason: String
    /// Milliseconds since 1970, with a 410: since when the token is known to be dead.
    package let timestamp: Int64?
    package let body: [UInt8]
    /// From the call to the answer, the making of a connection included where there was none.
    package let elapsed: Duration
    private let fields: [(name: String, value: String)]

    package init(_ response: HTTP2Response, elapsed: Duration) {
        let said = response.status < 300 ? nil : AnswerBody(response.body)
        status = Int(response.status)
        reason = said?.reason ?? ""
        timestamp = response.status == 410 ? said?.timestamp : nil
        body = response.body
        fields = response.fields
        self.elapsed = elapsed
    }

    /// The first value of a response field, cleaned.
    package subscript(_ name: String) -> String? {
        fields.first { $0.name == name }.map { CleanText.cleaned(Array($0.value.utf8)) }
    }
}

/// Why there is no answer.
package struct APNsSilence: Error, Sendable, Equatable {
    /// What happened, without a full stop.
    package let message: String
    package let remedy: String
    /// The request was sent, so it may have been carried out.
    package let mayHaveArrived: Bool
    /// Apple does not accept our key or certificate.
    package let isCredential: Bool

    init(_ fault: HTTP2Fault, at endpoint: APNsEndpoint, mayHaveArrived: Bool) {
        self.mayHaveArrived = mayHaveArrived
        isCredential = fault.certificateAlert != nil
        message = "\(endpoint) \(APNsSilence.words(fault))"
        remedy = APNsSilence.remedy(fault, endpoint)
    }

    /// Apple has ended the connection because of whom we are.
    init(_ farewell: Farewell, at endpoint: APNsEndpoint) {
        let advice = AnswerAdvice.of(status: 403, reason: farewell.reason)
        mayHaveArrived = false
        isCredential = true
        message = "\(endpoint) ends the connection, \(farewell.reason): \(advice.meaning)"
        remedy = advice.remedy ?? ""
    }

    private static func words(_ fault: HTTP2Fault) -> String {
        switch fault.code {
        case .resolve, .connect, .connectTimeout, .proxy: "cannot be reached: \(fault.message)"
        case .verification: "cannot be trusted: \(fault.message)"
        case .alert: "refuses us: \(fault.certificateAlert ?? fault.message)"
        case .handshake, .alpn: "does not speak HTTP/2 over TLS with us: \(fault.message)"
        case .deadline, .pingTimeout: "has not answered in time: \(fault.message)"
        case .connectionLost, .goAway, .reset, .protocolError, .closed: "has broken off: \(fault.message)"
        case .unsendable, .withdrawn: "was not asked: \(fault.message)"
        }
    }

    private static func remedy(_ fault: HTTP2Fault, _ endpoint: APNsEndpoint) -> String {
        switch fault.code {
        case .resolve: "check the host's name, and the name server of this machine"
        case .connect, .connectTimeout:
            "allow outgoing connections to port \(endpoint.port); 'pgpush doctor' looks closer"
        case .proxy: "check APNS_PROXY_URL, and what the proxy allows"
        case .verification: "install ca-certificates, or name the right bundle by APNS_CA_PATH"
        case .alert: "look at the certificate by 'pgpush doctor': has it expired, was it revoked?"
        case .handshake, .alpn: "something between here and \(endpoint) does not let TLS through"
        case .unsendable: "shorten what is sent"
        case .deadline, .pingTimeout, .connectionLost, .goAway, .reset, .protocolError, .closed, .withdrawn:
            "try again in a while"
        }
    }
}

/// Sends single requests under one credential; loop-confined, to be closed before it is let go.
package final class SingleCaller: HTTP2RequestHandler {
    /// How often it is looked whether a connection can be had at all.
    private static let glance = Duration.milliseconds(20)

    private let loop: EventLoop
    private let endpoint: APNsEndpoint
    private let pool: OnePool
    private var answer: CheckedContinuation<Result<APNsReply, APNsSilence>, Never>?
    private var started = MonotonicTime.now()
    private var timer: LoopTimer?
    /// Tells the request that is waited for from those that were given up.
    private var tag: UInt64 = 0

    /// What differs between pushes and channel management.
    package struct Kind: Sendable {
        /// Name of the field that carries a request's id.
        let idField: String
        let responseFields: [String]
        let bodyLimit: Int

        /// Pushes to devices and to channels.
        package static let push = Kind(
            idField: "apns-id", responseFields: ["apns-id", "apns-unique-id", "retry-after"], bodyLimit: 4096)
        /// Channel management.
        package static let channels = Kind(
            idField: ChannelRequest.idField, responseFields: ChannelRequest.responseFields,
            bodyLimit: ChannelRequest.longestAnswer)
    }

    /// Connects at the first request.
    ///
    /// - Throws: `signing` when the key cannot sign.
    package init(
        _ kind: Kind, to endpoint: APNsEndpoint, through proxy: HTTPProxy?, as credential: APNsCredential,
        tls: TLSClientContext, loop: EventLoop
    ) throws(APNsError) {
        self.loop = loop
        self.endpoint = endpoint
        var configuration = HTTP2PoolConfiguration(host: endpoint.host, port: endpoint.port)
        configuration.proxy = proxy
        configuration.idField = kind.idField
        configuration.responseFields = kind.responseFields
        configuration.bodyLimit = kind.bodyLimit
        configuration.provesFirst = credential.key != nil
        let token = credential.key.map { ProviderToken(key: $0) }
        try token?.prepare()
        pool = OnePool()
        pool.open(loop, configuration, tls, token, self) { [weak self] in self?.heard($0) }
    }

    /// Sends one request and waits for its end, `limit` at most.
    ///
    /// - Parameters:
    ///   - path: The value of `:path`.
    ///   - id: The request's own id, a UUID.
    ///   - head: Method, fields, body.
    ///   - limit: How long to wait.
    /// - Returns: The answer, whatever its status, or why there is none.
    package func send(
        path: String, id: String, head: HTTP2RequestHead, within limit: Duration
    ) async -> Result<APNsReply, APNsSilence> {
        await withCheckedContinuation { continuation in
            answer = continuation
            started = .now()
            tag += 1
            let taken = pool.submit(path, id, head, tag, deadline: started.advanced(by: limit))
            if !taken { finish(.failure(silence(HTTP2Fault(.closed, "the connection was closed"), false))) }
            look()
        }
    }

    /// Closes the connection.
    package func close() {
        if let timer { loop.cancel(timer) }
        timer = nil
        pool.close()
    }

    package func requestEnded(tag: UInt64, _ outcome: HTTP2Outcome) {
        guard tag == self.tag else { return }
        switch outcome {
        case .answered(let response):
            finish(.success(APNsReply(response, elapsed: MonotonicTime.now().since(started))))
        case .notProcessed(let fault): finish(.failure(silence(fault, false)))
        case .unknown(let fault): finish(.failure(silence(fault, true)))
        }
    }

    package func poolHasSpace() {}

    /// Apple may refuse a certificate so, without an answer; the next connection would end alike.
    private func heard(_ words: HTTP2Farewell) {
        let farewell = Farewell(debugData: words.debugData)
        guard let verdict = farewell.verdict(repeats: 1), case .hold = verdict.request else { return }
        finish(.failure(APNsSilence(farewell, at: endpoint)))
    }

    /// The pool would try for as long as the deadline lets it.
    private func look() {
        timer = nil
        guard answer != nil else { return }
        if let fault = pool.fault { return finish(.failure(silence(fault, false))) }
        timer = loop.schedule(after: Self.glance) { [weak self] in self?.look() }
    }

    private func silence(_ fault: HTTP2Fault, _ mayHaveArrived: Bool) -> APNsSilence {
        APNsSilence(fault, at: endpoint, mayHaveArrived: mayHaveArrived)
    }

    private func finish(_ result: Result<APNsReply, APNsSilence>) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard let answer else { return }
        self.answer = nil
        answer.resume(returning: result)
    }
}

/// The pool behind a caller, with the memory that its requests point at.
@safe private final class OnePool {
    private var pool: HTTP2Pool?
    /// Kept to the end: a request may outlive the wait for it.
    private var texts: [UnsafeMutableRawBufferPointer] = unsafe []

    deinit { unsafe texts.forEach { unsafe $0.deallocate() } }

    func open(
        _ loop: EventLoop, _ configuration: HTTP2PoolConfiguration, _ tls: TLSClientContext, _ token: ProviderToken?,
        _ handler: any HTTP2RequestHandler, _ heard: @escaping (HTTP2Farewell) -> Void
    ) {
        pool = HTTP2Pool(
            loop: loop, configuration: configuration, tls: tls, authorization: token, handler: handler, logger: .silent)
        pool?.onFarewell = heard
    }

    func submit(
        _ path: String, _ id: String, _ head: HTTP2RequestHead, _ tag: UInt64, deadline: MonotonicTime
    ) -> Bool {
        guard let pool else { return false }
        return unsafe pool.submit(
            HTTP2Request(path: kept(path), id: kept(id), tag: tag, deadline: deadline), head: head)
    }

    /// Why no connection can be had; nil while there is hope.
    var fault: HTTP2Fault? {
        guard let pool, !pool.isConnected, let fault = pool.snapshot.lastConnectFault else { return nil }
        return switch fault.code {
        case .resolve, .connect, .proxy, .connectTimeout, .verification, .alert, .handshake, .alpn: fault
        // A connection that was there and has gone: the next one may be better.
        case .connectionLost, .goAway, .pingTimeout, .protocolError, .reset, .deadline, .withdrawn, .closed,
            .unsendable:
            nil
        }
    }

    func close() { pool?.close() }

    private func kept(_ text: String) -> UnsafeRawBufferPointer {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, text.utf8.count), alignment: 1)
        unsafe memory.copyBytes(from: text.utf8)
        unsafe texts.append(memory)
        return unsafe UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(memory)[..<text.utf8.count])
    }
}
