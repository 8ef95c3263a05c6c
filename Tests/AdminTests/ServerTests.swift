// The server over real sockets: what callers do to it, and what it does to them.

import Foundation
import Reactor
import Synchronization
import Telemetry
import TestSupport
import Testing

@testable import Admin

@Suite("The server") struct ServerTests {
    private static let long = String(repeating: "# a line of a metric that nobody reads\n", count: 200_000)

    private func serve<T>(
        _ limits: AdminLimits = AdminLimits(), _ body: (AdminServer) throws -> T
    ) throws -> T {
        let pages = AdminPages([
            "/metrics": { .metrics("a 1\n") }, "/long": { .metrics(Self.long) }, "/readyz": { .probe(["not yet"]) },
        ])
        let server = try AdminServer(AdminAddress(host: "127.0.0.1", port: 0), pages: pages, limits: limits)
        defer { server.stop() }
        return try body(server)
    }

    private func curl(_ server: AdminServer, _ path: String, _ options: String...) throws -> String {
        try Subprocess.require(
            "/usr/bin/curl", ["-s", "-S", "-m", "60"] + options + ["http://\(server.address)\(path)"])
    }

    @Test("answers GET and HEAD, with a query or without")
    func get() throws {
        try serve { server in
            #expect(try curl(server, "/metrics") == "a 1\n")
            #expect(try curl(server, "/metrics?name[]=up", "-g") == "a 1\n")
            let head = try curl(server, "/metrics", "-I")
            #expect(head.contains("200 OK") && head.contains("Content-Length: 4"), "\(head)")
            #expect(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "\(head)")
            #expect(head.contains("Connection: close") && head.contains("no-store"), "\(head)")
            #expect(try curl(server, "/readyz", "-w", "%{http_code}") == "not yet\n503")
        }
    }

    @Test("refuses what is not there and what would change something, bodies or not")
    func refused() throws {
        try serve { server in
            #expect(try curl(server, "/", "-o", "/dev/null", "-w", "%{http_code}") == "404")
            let post = try curl(server, "/metrics", "-i", "--data", String(repeating: "x", count: 3000))
            #expect(post.contains("405") && post.contains("Allow: GET, HEAD"), "\(post)")
            #expect(try curl(server, "/metrics", "-X", "DELETE", "-o", "/dev/null", "-w", "%{http_code}") == "405")
            // A head that does not fit is refused by the library, and the next caller is served.
            let big = try curl(
                server, "/metrics", "-o", "/dev/null", "-w", "%{http_code}", "-H",
                "X-Big: " + String(repeating: "y", count: 60_000))
            #expect(big.hasPrefix("4"), "\(big)")
            #expect(try curl(server, "/metrics") == "a 1\n")
        }
    }

    @Test("delivers a long text whole, to several at once")
    func long() throws {
        try serve { server in
            let failures = Atomic(0)
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                if (try? curl(server, "/long")) != Self.long { failures.add(1, ordering: .relaxed) }
            }
            #expect(failures.load(ordering: .relaxed) == 0)
        }
    }

    @Test("goes on while callers hang: some that say nothing, and one that reads nothing")
    func hanging() throws {
        try serve { server in
            let silent = try (0..<8).map { _ in try RawCaller(server.address.port) }
            defer { for caller in silent { caller.close() } }
            let lazy = try RawCaller(server.address.port)
            defer { lazy.close() }
            lazy.send("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in 0..<3 { #expect(try curl(server, "/metrics") == "a 1\n") }
        }
    }

    @Test("lets go of callers who are silent for too long, so that others get their places")
    func silence() throws {
        var limits = AdminLimits()
        limits.connections = 2
        limits.silence = 1
        try serve(limits) { server in
            let silent = try (0..<2).map { _ in try RawCaller(server.address.port) }
            defer { for caller in silent { caller.close() } }
            for caller in silent { #expect(caller.waitForEnd()) }
            #expect(try curl(server, "/metrics") == "a 1\n")
        }
    }

    @Test("lets go of callers who are never done, however busy they are")
    func endless() throws {
        var limits = AdminLimits()
        limits.connections = 1
        limits.lifetime = .seconds(1)
        try serve(limits) { server in
            let busy = try RawCaller(server.address.port)
            defer { busy.close() }
            busy.send("GET /metrics HTTP/1.1\r\n")
            // A byte now and then keeps it from being silent.
            #expect(busy.dripUntilEnd())
            #expect(try curl(server, "/metrics") == "a 1\n")
        }
    }

    @Test("says what is in the way of listening, and leaves nothing behind")
    func taken() throws {
        try serve { server in
            let error = #expect(throws: AdminError.self) {
                _ = try AdminServer(server.address, pages: AdminPages([:]))
            }
            #expect(error?.description == "Address already in use")
        }
        #expect(throws: AdminError.self) {
            // Reserved for documentation: no machine has it.
            _ = try AdminServer(AdminAddress(host: "192.0.2.1", port: 0), pages: AdminPages([:]))
        }
        #expect(throws: AdminError.self) {
            _ = try AdminServer(AdminAddress(host: "no-such-host.invalid", port: 0), pages: AdminPages([:]))
        }
    }

    @Test("listens on all addresses of a machine")
    func all() throws {
        let server = try AdminServer(
            AdminAddress(host: "", port: 0), pages: AdminPages(["/metrics": { .metrics("a 1\n") }]))
        defer { server.stop() }
        #expect(
            try Subprocess.require("/usr/bin/curl", ["-s", "http://127.0.0.1:\(server.address.port)/metrics"])
                == "a 1\n")
    }

    @Test("stops at once whatever callers do, and frees its port")
    func stops() throws {
        let pages = AdminPages(["/long": { .metrics(Self.long) }])
        let server = try AdminServer(AdminAddress(host: "127.0.0.1", port: 0), pages: pages)
        let lazy = try RawCaller(server.address.port)
        defer { lazy.close() }
        lazy.send("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(lazy.waitForByte())
        server.stop()
        server.stop()
        let next = try AdminServer(server.address, pages: pages)
        next.stop()
    }

    @Test("looks every second, also when nobody asks")
    func looks() throws {
        let looks = LockedCount()
        let server = try AdminServer(
            AdminAddress(host: "127.0.0.1", port: 0), pages: AdminPages([:]), everySecond: { looks.add() })
        defer { server.stop() }
        #expect(looks.wait(for: 3))
    }

    @Test("knows the process it runs in")
    func process() throws {
        let registry = MetricsRegistry()
        ProcessFigures.add(to: registry)
        let text = registry.prometheusText()
        for name in [
            "process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total",
            "process_open_fds", "process_max_fds",
        ] {
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + " ") }, "\(name)")
            #expect(try #require(Double(line.split(separator: " ")[1].replacing("+Inf", with: "inf"))) > 0, "\(line)")
        }
    }
}

/// A count that can be waited for.
private final class LockedCount: @unchecked Sendable {
    private let condition = NSCondition()
    private var count = 0

    func add() {
        condition.withLock {
            count += 1
            condition.broadcast()
        }
    }

    func wait(for goal: Int) -> Bool {
        let end = Date(timeIntervalSinceNow: 60)
        return condition.withLock {
            while count < goal { if !condition.wait(until: end) { return count >= goal } }
            return true
        }
    }
}
