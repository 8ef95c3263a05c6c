// What is said to a proxy, what its answers mean, and how a proxy is written down. A real one stands in the end-to-end tests.

import Testing

@testable import HTTP2

@Suite("A proxy") struct ProxyTests {
    @Test("is written as a URL, with user and password or without")
    func forms() throws {
        let plain = try HTTPProxy("http://Proxy.example:3128")
        #expect(plain.host == "proxy.example" && plain.port == 3128 && plain.credentials == nil)
        let full = try HTTPProxy("http://anna:p%40ss%3Aw%25rd@[::1]:8080/")
        #expect(full.host == "::1" && full.port == 8080 && full.credentials == "anna:p@ss:w%rd")
        #expect(full.description == "http://[::1]:8080" && !"\(full)".contains("anna"))
        #expect(try HTTPProxy("http://anna@h:1").credentials == "anna:")
        #expect(try HTTPProxy("HTTP://a:b@c@h:1").credentials == "a:b@c")
    }

    @Test(
        "that cannot be one is refused without a word of its password",
        arguments: [
            "", "proxy:3128", "https://h:1", "socks5://h:1", "http://", "http://h", "http://h:", "http://h:0",
            "http://h:65536",
            "http://h:8x", "http://h/x:1", "http://a:s3cret@", "http://:s3cret@h", "http://a:s3cret%zz@h:1",
            "http://a:s3cret%0a@h:1",
            "http://[::1:1", "http://[x]:1", "http://h h:1", "http://@h:1",
        ])
    func mistakes(_ text: String) {
        do {
            _ = try HTTPProxy(text)
            Issue.record("\(text) was taken")
        } catch {
            #expect(!error.problem.isEmpty && !error.problem.contains("s3cret"))
        }
    }

    private func answer(_ text: String, _ proxy: String = "http://h:1") throws -> (ProxyTunnel.State, rest: String) {
        var tunnel = ProxyTunnel(try HTTPProxy(proxy), host: "api.push.apple.com", port: 443)
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            let state = tunnel.take(byte)
            if state != .waiting { return (state, String(decoding: rest, as: UTF8.self)) }
        }
        return (.waiting, "")
    }

    @Test("is asked for the peer by name, with the port, and told who asks")
    func request() throws {
        let plain = ProxyTunnel(try HTTPProxy("http://h:1"), host: "api.push.apple.com", port: 2197)
        #expect(
            String(decoding: plain.request, as: UTF8.self)
                == "CONNECT api.push.apple.com:2197 HTTP/1.1\r\nHost: api.push.apple.com:2197\r\n\r\n")
        let known = ProxyTunnel(try HTTPProxy("http://anna:secret@h:1"), host: "::1", port: 443)
        let text = String(decoding: known.request, as: UTF8.self)
        #expect(text.hasPrefix("CONNECT [::1]:443 HTTP/1.1\r\n"))
        #expect(text.contains("\r\nProxy-Authorization: Basic YW5uYTpzZWNyZXQ=\r\n"))
    }

    @Test(
        "opens the way by any answer of the 200s, whatever its words; what follows is left alone",
        arguments: [
            "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200 OK\r\nProxy-Agent: x/1\r\nX: y\r\n\r\n",
            "HTTP/1.1 200\r\n\r\n",
            "HTTP/1.1 204 \r\n\r\n", "HTTP/1.0 200 ok\n\n",
        ])
    func opens(_ text: String) throws {
        let (state, rest) = try answer(text + "\u{16}\u{3}TLS")
        #expect(state == .open && rest == "\u{16}\u{3}TLS")
    }

    @Test("that does not open it says why in a word, and never who asked")
    func refusals() throws {
        for (text, status, words) in [
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", 407,
                "does not accept the user"
            ),
            ("HTTP/1.0 401 Unauthorized\r\n\r\n", 401, "does not accept the user"),
            ("HTTP/1.1 403 Filtered\r\n\r\n", 403, "answered 403"),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", 502, "answered 502"),
            ("HTTP/1.1 301 Moved\r\n\r\n", 301, "answered 301"), ("HTTP/2 200\r\n\r\n", 0, "no HTTP proxy"),
            ("SSH-2.0-OpenSSH\r\n\r\n", 0, "no HTTP proxy"), ("\r\n\r\n", 0, "no HTTP proxy"),
            ("HTTP/1.1 2000 x\r\n\r\n", 0, "no HTTP proxy"),
            (String(repeating: "x", count: 9000), 0, "does not end"),
        ] {
            guard case (.failed(let fault), _) = try answer(text, "http://anna:s3cret@h:1") else {
                Issue.record("\(text.prefix(40)) was taken")
                continue
            }
            #expect(fault.code == .proxy && fault.native == status && fault.message.contains(words), "\(fault)")
            #expect(!fault.message.contains("anna") && !fault.message.contains("s3cret"))
        }
        guard case (.failed(let fault), _) = try answer("HTTP/1.1 407 x\r\n\r\n") else { return }
        #expect(fault.message.contains("asks for a user and a password"))
        #expect(try answer("HTTP/1.1 200 OK\r\n").0 == .waiting)
    }
}
