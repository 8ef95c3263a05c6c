// Measures the HTTP/2 client alone: so many pushes to distinct tokens through one pool, against apns-sink or any other
// server. It reports pushes per second and CPU seconds per 100,000 pushes, to be held against h2load in the same run
// (compare.sh). It also serves, so that the server side can be tried with nghttp and h2load.

import Foundation
import HTTP2
import Reactor
import TLS
import Telemetry

@main
struct Benchmark {
    static func main() throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        switch arguments.first {
        case "push": try push(Options(arguments.dropFirst()))
        case "serve": try serve(Options(arguments.dropFirst()))
        default:
            print("usage: http2-benchmark push --port N --ca FILE --tokens FILE --payload FILE --bearer FILE")
            print("         [--count 50000] [--connections 1] [--streams 1000] [--ids 1]")
            print("       http2-benchmark serve [--port N] [--ca FILE]")
            exit(2)
        }
    }

    /// Answers every request with 200 until it is killed.
    static func serve(_ options: Options) throws {
        let authority = try CertificateIssuer(commonName: "Benchmark CA")
        let issued = try authority.issue()
        try Data(try authority.certificatePEM).write(to: URL(fileURLWithPath: options["ca"] ?? "ca.pem"))
        let tls = try TLSServerContext(
            certificateChainPEM: issued.certificatePEM, privateKeyPEM: issued.privateKeyPEM)
        let loop = try EventLoop(name: "serve")
        try loop.start()
        let port = UInt16(options["port"] ?? "0") ?? 0
        try loop.runBlocking { _ in
            let server = try HTTP2Server(loop: loop, port: port, tls: tls, handler: Echo())
            print("listening on port \(server.port)")
            fflush(nil)
        }
        loop.join()
    }

    /// Sends one push to each token and prints one line of JSON.
    static func push(_ options: Options) throws {
        let input = try PushInput(options)
        let loop = try EventLoop(name: "push")
        try loop.start()
        let report = try loop.runBlocking { _ in
            let sender = try Sender(loop: loop, input)
            return await sender.run()
        }
        print(report)
        loop.stop()
        loop.join()
    }
}

private final class Echo: HTTP2ServerHandler {
    func received(_ request: HTTP2ServerRequest, on connection: HTTP2ServerConnection) {
        connection.respond(
            to: request.streamID, status: 200, fields: [("apns-id", request["apns-id"] ?? "none")],
            body: request[":method"] == "GET" ? Array("hello\n".utf8) : [], splitInto: 2,
            trailers: request["te"] == "trailers" ? [("checksum", "1")] : [])
    }
}

/// `--name value` pairs.
struct Options {
    private var values: [String: String] = [:]

    init(_ arguments: ArraySlice<String>) {
        var rest = arguments
        while let name = rest.popFirst(), name.hasPrefix("--"), let value = rest.popFirst() {
            values[String(name.dropFirst(2))] = value
        }
    }

    subscript(_ name: String) -> String? { values[name] }

    func number(_ name: String, _ fallback: Int) -> Int { values[name].flatMap { Int($0) } ?? fallback }
}
