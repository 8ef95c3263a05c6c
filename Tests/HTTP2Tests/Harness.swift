// A pool and a server on one loop, over real TLS sockets, with an awaitable end for every wait.

import Glibc
import HTTP2
import Reactor
import TLS
import Telemetry

/// Certificates made once for all tests of this target.
struct TestCertificates: Sendable {
    let authority: CertificateIssuer
    let authorityPEM: [UInt8]
    let server: CertificateIssuer.Issued

    static let shared: Result<TestCertificates, any Error> = Result {
        let authority = try CertificateIssuer(commonName: "HTTP/2 test CA")
        return TestCertificates(
            authority: authority, authorityPEM: try authority.certificatePEM, server: try authority.issue())
    }

    func serverContext(
        _ issued: CertificateIssuer.Issued? = nil, clientCA: [UInt8]? = nil, alpn: [String] = ["h2"]
    ) throws -> TLSServerContext {
        let issued = issued ?? server
        return try TLSServerContext(
            certificateChainPEM: issued.certificatePEM, privateKeyPEM: issued.privateKeyPEM, clientCA: clientCA,
            alpn: alpn)
    }
}

/// Runs `body` on a loop of its own.
func onLoop<T: Sendable>(_ body: @escaping @Sendable (isolated LoopActor) async throws -> T) throws -> T {
    let loop = try EventLoop(name: "http2-test")
    try loop.start()
    defer {
        loop.stop()
        loop.join()
    }
    return try loop.runBlocking(body)
}

/// Waits until `condition` holds; false when it does not within `timeout`.
func eventually(
    _ loop: EventLoop, _ timeout: Duration = .seconds(60), _ condition: () -> Bool
) async -> Bool {
    let end = MonotonicTime.now().advanced(by: timeout)
    while !condition() {
        if MonotonicTime.now() >= end { return false }
        await pause(loop, .milliseconds(2))
    }
    return true
}

func pause(_ loop: EventLoop, _ duration: Duration) async {
    await withCheckedContinuation { continuation in
        loop.schedule(after: duration) { continuation.resume() }
    }
}

/// What a test server does with requests; without a script it answers 200.
final class ScriptedServer: HTTP2ServerHandler {
    typealias Script = (HTTP2ServerRequest, HTTP2ServerConnection) -> Void

    struct Seen {
        let path: String
        let id: String
        let connection: Int
        let request: HTTP2ServerRequest
    }

    var script: Script = { request, connection in ok(request, connection) }
    var onOpen: (HTTP2ServerConnection) -> Void = { _ in }
    private(set) var seen: [Seen] = []
    private(set) var opened: [HTTP2ServerConnection] = []
    private(set) var closed = 0
    private(set) var resets: [(stream: Int32, code: UInt32)] = []

    func opened(_ connection: HTTP2ServerConnection) {
        opened.append(connection)
        onOpen(connection)
    }

    func received(_ request: HTTP2ServerRequest, on connection: HTTP2ServerConnection) {
        seen.append(
            Seen(
                path: request[":path"] ?? "", id: request["apns-id"] ?? "", connection: connection.number,
                request: request))
        script(request, connection)
    }

    func streamClosed(_ streamID: Int32, code: UInt32, on connection: HTTP2ServerConnection) {
        if code != 0 { resets.append((streamID, code)) }
    }

    func closed(_ connection: HTTP2ServerConnection) { closed += 1 }
}

/// Answers 200 with the request's id.
func ok(_ request: HTTP2ServerRequest, _ connection: HTTP2ServerConnection) {
    connection.respond(to: request.streamID, status: 200, fields: [("apns-id", request["apns-id"] ?? "")])
}

/// Makes requests, keeps their memory, and waits for their outcomes.
final class Recorder: HTTP2RequestHandler {
    private(set) var outcomes: [UInt64: [HTTP2Outcome]] = [:]
    private(set) var order: [UInt64] = []
    private(set) var spaceCalls = 0
    var onEnd: (UInt64, HTTP2Outcome) -> Void = { _, _ in }
    private var memory: [UnsafeMutableRawBufferPointer] = []
    private let loop: EventLoop
    private let signal: LoopSignal

    init(loop: EventLoop) {
        self.loop = loop
        signal = LoopSignal(loop: loop)
    }

    deinit { memory.forEach { $0.deallocate() } }

    func requestEnded(tag: UInt64, _ outcome: HTTP2Outcome) {
        outcomes[tag, default: []].append(outcome)
        order.append(tag)
        onEnd(tag, outcome)
        signal.raise()
    }

    func poolHasSpace() { spaceCalls += 1 }

    func request(
        _ tag: UInt64, timeout: Duration = .seconds(30), startBy: MonotonicTime = .distantFuture
    ) -> HTTP2Request {
        HTTP2Request(
            path: keep("/3/device/\(tag)"), id: keep("id-\(tag)"), tag: tag,
            deadline: MonotonicTime.now().advanced(by: timeout), startBy: startBy)
    }

    private func keep(_ text: String) -> UnsafeRawBufferPointer {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        memory.append(bytes)
        return UnsafeRawBufferPointer(bytes)
    }

    /// Waits until so many requests have ended.
    func wait(for count: Int, _ timeout: Duration = .seconds(120)) async -> Bool {
        let end = MonotonicTime.now().advanced(by: timeout)
        while order.count < count {
            let left = end.since(.now())
            guard left > .zero, await signal.wait(left) else { return order.count >= count }
        }
        return true
    }

    func statuses() -> [UInt16: Int] {
        var counts: [UInt16: Int] = [:]
        for outcome in outcomes.values.joined() {
            if case .answered(let response) = outcome { counts[response.status, default: 0] += 1 }
        }
        return counts
    }

    func count(_ isCounted: (HTTP2Outcome) -> Bool) -> Int { outcomes.values.joined().count(where: isCounted) }

    /// The single outcome of a request.
    func outcome(_ tag: UInt64) -> HTTP2Outcome? { outcomes[tag]?.count == 1 ? outcomes[tag]?.first : nil }

    var endedTwice: [UInt64] { outcomes.filter { $0.value.count != 1 }.keys.sorted() }
}

extension HTTP2Outcome {
    var status: UInt16? { if case .answered(let response) = self { response.status } else { nil } }
    var response: HTTP2Response? { if case .answered(let response) = self { response } else { nil } }
    var unknownCode: HTTP2Fault.Code? { if case .unknown(let fault) = self { fault.code } else { nil } }
    var notProcessedCode: HTTP2Fault.Code? { if case .notProcessed(let fault) = self { fault.code } else { nil } }
}

/// A fixed bearer value.
final class FixedAuthorization: HTTP2AuthorizationSource {
    var authorization: HTTP2SharedValue?
    init(_ text: String? = "bearer test.token") { authorization = text.map { HTTP2SharedValue($0) } }
}

/// Server, pool and recorder of one test.
final class Rig {
    let loop: EventLoop
    let handler = ScriptedServer()
    let recorder: Recorder
    let pool: HTTP2Pool
    let authorization: FixedAuthorization
    var server: HTTP2Server?
    static let body = Array(#"{"aps":{"alert":"hello"}}"#.utf8)
    let head = HTTP2RequestHead(
        fields: [
            HTTP2Field("apns-topic", "com.example.app"), HTTP2Field("apns-push-type", "alert"),
            HTTP2Field("apns-expiration", "0", indexing: .none),
        ], body: Rig.body)

    /// `port` nil: a server of ours is started.
    init(
        _ loop: EventLoop, server settings: HTTP2ServerSettings? = HTTP2ServerSettings(maxConcurrentStreams: 1000),
        serverTLS: TLSServerContext? = nil, trust: [UInt8]? = nil, identity: TLSIdentity? = nil, port: UInt16? = nil,
        configure: (inout HTTP2PoolConfiguration, inout HTTP2ServerConfiguration) -> Void = { _, _ in }
    ) throws {
        let certificates = try TestCertificates.shared.get()
        self.loop = loop
        var serverConfiguration = HTTP2ServerConfiguration()
        serverConfiguration.initialSettings = settings
        var configuration = HTTP2PoolConfiguration(host: "localhost", port: port ?? 0)
        configuration.connectTimeout = .seconds(30)
        configuration.backoffFirst = .milliseconds(10)
        configuration.growAfter = .milliseconds(10)
        configuration.connectBurst = 1000
        configure(&configuration, &serverConfiguration)
        if port == nil {
            let server = try HTTP2Server(
                loop: loop, tls: serverTLS ?? certificates.serverContext(), configuration: serverConfiguration,
                handler: handler)
            self.server = server
            configuration.port = server.port
        }
        recorder = Recorder(loop: loop)
        authorization = FixedAuthorization()
        pool = HTTP2Pool(
            loop: loop, configuration: configuration,
            tls: try TLSClientContext(trust: .pem(trust ?? certificates.authorityPEM), certificate: identity),
            authorization: authorization, handler: recorder, logger: .silent)
    }

    @discardableResult
    func submit(
        _ tag: UInt64, timeout: Duration = .seconds(30), head: HTTP2RequestHead? = nil,
        startBy: MonotonicTime = .distantFuture
    ) -> Bool {
        pool.submit(recorder.request(tag, timeout: timeout, startBy: startBy), head: head ?? self.head)
    }

    func submit(_ tags: ClosedRange<UInt64>, timeout: Duration = .seconds(30)) {
        for tag in tags { submit(tag, timeout: timeout) }
    }

    func close() {
        pool.close()
        server?.close()
    }
}

/// Sockets with this port at either end that a process still holds, listeners aside.
///
/// Other tests open descriptors meanwhile, so counting all of the process would tell nothing.
func socketCount(port: UInt16) -> Int {
    guard let file = fopen("/proc/self/net/tcp", "r") else { return -1 }
    defer { fclose(file) }
    let digits = String(port, radix: 16, uppercase: true)
    let suffix = ":" + String(repeating: "0", count: 4 - digits.count) + digits
    var line = [CChar](repeating: 0, count: 512)
    var count = 0
    while fgets(&line, Int32(line.count), file) != nil {
        let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let columns = text.split(separator: " ")
        guard columns.count > 9, columns[3] != "0A", columns[9] != "0" else { continue }
        if columns[1].hasSuffix(suffix) || columns[2].hasSuffix(suffix) { count += 1 }
    }
    return count
}

/// Processor time that this thread has used.
func processorTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}
