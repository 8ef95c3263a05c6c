// The spelling of PGPUSH_HTTP.

import Testing

@testable import Admin

@Suite("An address to listen on") struct AddressTests {
    @Test(
        "is a host and a port, or a port of all addresses",
        arguments: [
            ("127.0.0.1:9464", "127.0.0.1", 9464), ("localhost:0", "localhost", 0), (":9464", "", 9464),
            ("[::1]:9464", "::1", 9464), ("[::]:65535", "::", 65535),
            ("metrics-7.internal:80", "metrics-7.internal", 80),
        ] as [(String, String, UInt16)])
    func good(text: String, host: String, port: UInt16) throws {
        let address = try #require(AdminAddress(text))
        #expect(address == AdminAddress(host: host, port: port))
        #expect(address.description == (host.isEmpty ? "*:\(port)" : text))
    }

    @Test(
        "is nothing else",
        arguments: [
            "", "9464", "localhost", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+80", "::1:9464",
            "[::1]", "[127.0.0.1]:80", "http://127.0.0.1:9464", "127.0.0.1:9464/metrics", "a b:80", "user@host:80",
            "127.0.0.1: 80", "höst:80", "[]:80",
        ])
    func bad(text: String) {
        #expect(AdminAddress(text) == nil)
    }
}
