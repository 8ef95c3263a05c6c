// A worker before nginx, as a server with stub answers and as a proxy before one: what it accepts and refuses arrives as it was meant,
// and its ways of ending connections lose and double nothing. Its access log is the judge.

import Foundation
import TestSupport
import Testing

@Suite("A worker before nginx") struct NginxInterop {
    /// Answers in the name of Apple without having read the body, which HTTP/2 lets a server do.
    private static let stub = "location ~ ^/3/device/ { add_header apns-id $http_apns_id always; return 200; }"

    /// A second server behind the first, which reads bodies and passes them on.
    private static func behind(_ nginx: String) -> String {
        "server { listen \(nginx); access_log off; location / { return 200; } }"
    }

    /// Sends a broadcast to `count` devices by a worker with `more` in its environment and looks whether each was accepted once.
    private func broadcast(_ rig: Rig, _ nginx: Nginx, _ count: Int, _ more: [String: String] = [:]) async throws {
        let id = try rig.insert("broadcast, body", "true, 'x'")
        try await rig.drain(more: nginx.variables.merging(more) { $1 }, within: .seconds(150))
        try judge(rig, nginx, id, count)
    }

    private func judge(_ rig: Rig, _ nginx: Nginx, _ id: Int, _ count: Int) throws {
        #expect(try rig.row(id) == NotificationRow("sent", count, accepted: count))
        let answers = nginx.answers
        #expect(answers.allSatisfy { $0.status == 200 }, "\(Set(answers.map(\.status)))")
        let expected = try rig.column("SELECT apns_id(\(id), id) FROM devices")
        #expect(Difference(expected: expected, seen: answers.map(\.apnsID)) == .none)
        #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)
    }

    @Test("is accepted, straight and through a proxy", arguments: [false, true])
    func accepted(isProxied: Bool) async throws {
        try await withProxy(isProxied) { proxy in
            try await Rig.run { rig in
                try rig.addDevices(1...600)
                try await Nginx.run(rig.simulator, Self.stub) { try await broadcast(rig, $0, 600, proxy) }
            }
        }
    }

    @Test("that asks for a certificate is shown one")
    func certificate() async throws {
        try await Rig.run(simulator: ["--auth", "certificate"]) { rig in
            try rig.addDevices(1...100)
            let verify = "ssl_client_certificate \(rig.simulator.authorityPath); ssl_verify_client on;"
            try await Nginx.run(rig.simulator, verify + Self.stub) { try await broadcast(rig, $0, 100) }
        }
    }

    @Test("keeps to its stream limit", arguments: [1, 5])
    func streams(limit: Int) async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...300)
            try await Nginx.run(rig.simulator, "http2_max_concurrent_streams \(limit);" + Self.stub) { nginx in
                try await broadcast(rig, nginx, 300)
                #expect(!nginx.log.contains("concurrent streams exceeded"))
            }
        }
    }

    @Test("takes each refusal for what it is, also nginx's own pages")
    func refusals() async throws {
        // The first digits of the token say what becomes of it.
        let tokens = ["200": "a0a0", "410": "0410", "400": "0400", "413": "0413", "503": "0503"]
        func token(_ status: String) -> String { (tokens[status] ?? "") + String(repeating: "0", count: 60) }
        try await Rig.run { rig in
            for status in tokens.keys {
                try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(status)', '\(token(status))')")
            }
            let time = Int64(Date().timeIntervalSince1970 * 1000) + 1000
            let server = """
                location ~ ^/3/device/0410 { return 410 '{"reason":"Unregistered","timestamp":\(time)}'; }
                location ~ ^/3/device/0400 { return 400 '{"reason":"BadCollapseId"}'; }
                location ~ ^/3/device/0413 { client_max_body_size 10; proxy_pass http://127.0.0.1:1; }
                location ~ ^/3/device/0503 { return 503; }
                \(Self.stub)
                """
            try await Nginx.run(rig.simulator, server) { nginx in
                var ids: [String: Int] = [:]
                for status in tokens.keys { ids[status] = try rig.insert("user_id, body", "'\(status)', 'x'") }
                try await rig.drain(more: nginx.variables)
                let ledger = try rig.psql(
                    """
                    SELECT http_status, reason, is_final, (SELECT is_active FROM devices d WHERE d.id = f.device_id)
                    FROM delivery_failures f ORDER BY http_status
                    """)
                #expect(ledger.map { $0[0] } == ["400", "410", "413", "503"])
                #expect(ledger[0][1] == "BadCollapseId" && ledger[1][1] == "Unregistered")
                #expect(ledger.map { $0[3] } == ["t", "f", "t", "t"], "the dead one alone is retired")
                for (status, id) in ids {
                    let wanted = ["200": "sent", "503": "pending"][status] ?? "failed"
                    let found = try rig.value("status", of: id)
                    #expect(found == wanted || status == "503" && found == "sending", "\(status): \(found ?? "")")
                }
                #expect(nginx.answers.map(\.status).sorted() == [200, 400, 410, 413, 503])
            }
        }
    }

    @Test("that ends each connection after 50 requests loses and doubles nothing", arguments: [false, true])
    func goodbyes(isProxied: Bool) async throws {
        try await withProxy(isProxied) { proxy in
            try await Rig.run { rig in
                try rig.addDevices(1...500)
                try await Nginx.run(rig.simulator, "keepalive_requests 50;" + Self.stub) { nginx in
                    try await broadcast(rig, nginx, 500, proxy)
                    #expect(Set(nginx.answers.map(\.connection)).count >= 10)
                }
            }
        }
    }

    @Test(
        "that reads its configuration again in the middle of a broadcast loses and doubles nothing",
        arguments: [false, true])
    func reload(isProxied: Bool) async throws {
        try await withProxy(isProxied) { proxy in
            try await Rig.run { rig in
                try rig.addDevices(1...600)
                // The old one would need half a minute, the new one does not wait: it is the reload that goes on.
                let zone = "limit_req_zone $server_port zone=slow:1m rate=20r/s;"
                try await Nginx.run(rig.simulator, Self.stub) { nginx in
                    let pass = "proxy_pass http://\(nginx.innerSocket);"
                    let inner = Self.behind(nginx.innerSocket)
                    try nginx.configure(
                        "http2_max_concurrent_streams 16; location / { limit_req zone=slow burst=1000; \(pass) }",
                        beside: zone + inner)
                    try await nginx.reload()
                    let worker = try rig.worker(
                        "--lanes", "1", "--connections", "2", more: nginx.variables.merging(proxy) { $1 })
                    let id = try rig.insert("broadcast, body", "true, 'x'")
                    try await nginx.answered(30)
                    try nginx.configure("location / { \(pass) }", beside: zone + inner)
                    try await nginx.reload()
                    try await rig.status(of: id, is: "sent", within: .seconds(150))
                    try await worker.stop()
                    try judge(rig, nginx, id, 600)
                    #expect(Set(nginx.answers.map(\.connection)).count >= 2)
                    #expect(worker.log.contains("the peer closes a connection"))
                }
            }
        }
    }
}

/// Runs `body` with the variables that lead through a proxy, or with none.
func withProxy(_ isWanted: Bool, _ body: ([String: String]) async throws -> Void) async throws {
    guard isWanted else { return try await body([:]) }
    let proxy = try TinyProxy()
    try await proxy.start()
    try await body(["APNS_PROXY_URL": proxy.url])
    #expect(proxy.log.contains("CONNECT 127.0.0.1:"), "\(proxy.log)")
    await proxy.stop()
}
