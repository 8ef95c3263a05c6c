// The load of the benchmark: tokens, ids and one head, prepared before the clock starts.

import Foundation
import HTTP2
import Reactor
import TLS
import Telemetry

/// What is sent where.
struct PushInput: Sendable {
    let port: UInt16
    let ca: String
    let tokens: [UInt8]
    let payload: [UInt8]
    let bearer: String
    let count: Int
    let connections: Int
    let streams: Int
    let hasIDs: Bool

    init(_ options: Options) throws {
        func file(_ name: String) throws -> [UInt8] {
            [UInt8](try Data(contentsOf: URL(fileURLWithPath: options[name] ?? name)))
        }
        port = UInt16(options.number("port", 8443))
        ca = options["ca"] ?? "ca.crt"
        tokens = try file("tokens")
        payload = try file("payload")
        bearer = String(decoding: try file("bearer"), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        count = min(options.number("count", 50_000), tokens.count / 65)
        connections = options.number("connections", 1)
        streams = options.number("streams", 1000)
        hasIDs = options.number("ids", 1) == 1
    }
}

/// Keeps the pool's queue filled until all pushes have ended.
final class Sender: HTTP2RequestHandler, HTTP2AuthorizationSource {
    let authorization: HTTP2SharedValue?
    private let input: PushInput
    private let head: HTTP2RequestHead
    private let paths: UnsafeMutableRawBufferPointer
    private let ids: UnsafeMutableRawBufferPointer
    private let loop: EventLoop
    private let finished: LoopSignal
    private var pool: HTTP2Pool?
    private var next = 0
    private var ended = 0
    private var statuses: [UInt16: Int] = [:]
    private var failed = 0
    private static let pathLength = "/3/device/".utf8.count + 64

    init(loop: EventLoop, _ input: PushInput) throws {
        self.loop = loop
        self.input = input
        authorization = HTTP2SharedValue(input.bearer)
        head = HTTP2RequestHead(
            fields: [
                HTTP2Field("apns-topic", "com.example.bench"), HTTP2Field("apns-push-type", "alert"),
                HTTP2Field("apns-priority", "10"), HTTP2Field("apns-expiration", "1893456000", indexing: .none),
            ], body: input.payload)
        paths = .allocate(byteCount: input.count * Sender.pathLength, alignment: 16)
        ids = .allocate(byteCount: input.count * 36, alignment: 16)
        finished = LoopSignal(loop: loop)
        for index in 0..<input.count {
            let token = input.tokens[(index * 65)..<(index * 65 + 64)]
            paths[(index * Sender.pathLength)...].copyBytes(from: "/3/device/".utf8)
            paths[(index * Sender.pathLength + 10)...].copyBytes(from: token)
            ids[(index * 36)...].copyBytes(from: "01234567-89ab-8cde-8000-000000000000".utf8)
            for place in 0..<8 {
                ids[index * 36 + 35 - place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: index >> (3 * place) & 7)
            }
        }
        var configuration = HTTP2PoolConfiguration(host: "127.0.0.1", port: input.port, tlsName: "localhost")
        configuration.maxConnections = input.connections
        configuration.maxStreamsPerConnection = input.streams
        pool = HTTP2Pool(
            loop: loop, configuration: configuration, tls: try TLSClientContext(trust: .bundleFile(input.ca)),
            authorization: self, handler: self, logger: .silent)
    }

    func run() async -> String {
        let wall = MonotonicTime.now()
        let before = usage()
        fill()
        _ = await finished.wait(.seconds(300))
        let seconds = Double(MonotonicTime.now().since(wall).wholeNanoseconds) / 1e9
        let cpu = usage() - before
        let snapshot = pool?.snapshot
        pool?.close()
        pool = nil
        let all = statuses.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
        func rounded(_ value: Double) -> String { String(format: "%.3f", value) }
        return """
            {"pushes":\(ended),"failed":\(failed),"statuses":{\(all)},"seconds":\(rounded(seconds)),\
            "per_second":\(Int(Double(ended) / seconds)),"cpu_seconds":\(rounded(cpu)),\
            "cpu_per_100k":\(rounded(cpu * 100_000 / Double(max(1, ended)))),\
            "connections":\(snapshot?.connectAttempts ?? 0)}
            """
    }

    private func fill() {
        guard let pool else { return }
        let deadline = MonotonicTime.now().advanced(by: .seconds(30))
        while next < input.count {
            let path = UnsafeRawBufferPointer(
                rebasing: paths[(next * Sender.pathLength)..<((next + 1) * Sender.pathLength)])
            let id = UnsafeRawBufferPointer(
                rebasing: input.hasIDs ? ids[(next * 36)..<((next + 1) * 36)] : ids[0..<0])
            let request = HTTP2Request(path: path, id: id, tag: UInt64(next), deadline: deadline)
            guard pool.submit(request, head: head) else { return }
            next += 1
        }
    }

    func requestEnded(tag: UInt64, _ outcome: HTTP2Outcome) {
        ended += 1
        if case .answered(let response) = outcome {
            statuses[response.status, default: 0] += 1
        } else {
            failed += 1
        }
        if ended == input.count { finished.raise() }
    }

    func poolHasSpace() { fill() }

    private func usage() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}
