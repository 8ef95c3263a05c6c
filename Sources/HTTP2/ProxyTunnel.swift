// What is said to a proxy and what its answer means; bytes in, bytes out. Anything of the 200s opens the way, whatever its words are;
// an answer that does not end is a fault.

import TLS

/// One request for a way through; pure.
struct ProxyTunnel {
    /// What has become of it.
    enum State: Equatable {
        case waiting
        case open
        case failed(HTTP2Fault)
    }

    /// Longer answers are not ours.
    static let limit = 8192

    private let proxy: HTTPProxy
    private let target: String
    private var answer: [UInt8] = []

    /// `host` and `port` are the peer's; the proxy looks the name up.
    init(_ proxy: HTTPProxy, host: String, port: UInt16) {
        self.proxy = proxy
        target = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// What to send.
    var request: [UInt8] {
        var text = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n"
        if let credentials = proxy.credentials {
            text += "Proxy-Authorization: Basic \(Base64.encode(Array(credentials.utf8)))\r\n"
        }
        return Array((text + "\r\n").utf8)
    }

    /// Takes one byte of the answer; what comes after its end belongs to TLS.
    mutating func take(_ byte: UInt8) -> State {
        answer.append(byte)
        let newline = UInt8(ascii: "\n")
        guard byte == newline,
            answer.suffix(4).elementsEqual([13, 10, 13, 10]) || answer.suffix(2).elementsEqual([10, 10])
        else {
            return answer.count < Self.limit
                ? .waiting : .failed(HTTP2Fault(.proxy, "\(proxy): its answer does not end"))
        }
        return state
    }

    /// The proxy has hung up.
    var ended: HTTP2Fault {
        HTTP2Fault(.proxy, "\(proxy): it closed the connection instead of opening a way to \(target)")
    }

    private var state: State {
        let line = answer.prefix { $0 != 13 && $0 != 10 }
        let words = line.split(separator: 0x20, maxSplits: 2)
        guard words.count >= 2, words[0].starts(with: Array("HTTP/1.".utf8)), words[1].count == 3,
            let status = Int(String(decoding: words[1], as: UTF8.self))
        else { return .failed(HTTP2Fault(.proxy, "\(proxy): what answers there is no HTTP proxy")) }
        if (200..<300).contains(status) { return .open }
        let why =
            status == 407 || status == 401
            ? (proxy.credentials == nil
                ? "it asks for a user and a password" : "it does not accept the user or the password")
            : "it answered \(status) to the wish for a way to \(target)"
        return .failed(HTTP2Fault(.proxy, native: status, "\(proxy): \(why)"))
    }
}
