// A proxy on the way out, where a network has no other: it is asked by CONNECT (RFC 9110 §9.3.6) for a way through to the peer, and then
// TLS goes on with the peer as if it were not there.

/// Where a proxy is, and who we are to it.
package struct HTTPProxy: Sendable, Hashable, CustomStringConvertible {
    /// A name or an address; IPv6 without brackets.
    package let host: String
    package let port: UInt16
    /// `user:password`; nil when it asks nobody.
    let credentials: String?

    /// Never the credentials.
    package var description: String { host.contains(":") ? "http://[\(host)]:\(port)" : "http://\(host):\(port)" }

    /// What is wrong with the text of a proxy; never with anything out of it that may be secret.
    package struct Fault: Error, Equatable { package let problem: String }

    /// Reads `http://host:port` or `http://user:password@host:port`, with `%40` for an @ in the password and so on.
    package init(_ text: String) throws(Fault) {
        guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else {
            throw Fault(problem: "does not say http://")
        }
        let scheme = text[..<colon].lowercased()
        guard scheme == "http" else {
            throw Fault(
                problem: scheme == "https"
                    ? "says https://, but proxies are spoken to in plain HTTP" : "does not say http://")
        }
        var rest = text[colon...].dropFirst(3)
        if rest.last == "/" { rest.removeLast() }
        var credentials: String?
        if let at = rest.lastIndex(of: "@") {
            guard let decoded = Self.decoded(rest[..<at]), !decoded.isEmpty,
                decoded.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
            else {
                throw Fault(
                    problem: "has a user or password that cannot be read: write special characters as %40 and the like")
            }
            credentials = decoded.contains(":") ? decoded : decoded + ":"
            rest = rest[rest.index(after: at)...]
        }
        guard let (host, port) = Self.split(rest) else {
            throw Fault(problem: "has no host and port: write it as http://host:port")
        }
        (self.host, self.port, self.credentials) = (host, port, credentials)
    }

    private static func split(_ text: Substring) -> (String, UInt16)? {
        let host: Substring
        var rest: Substring
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
            rest = text[text.index(after: end)...]
            guard host.contains(":"), host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }) else { return nil }
        } else {
            let end = text.firstIndex(of: ":") ?? text.endIndex
            host = text[..<end]
            rest = text[end...]
            guard !host.isEmpty, host.utf8.count <= 253,
                host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) })
            else { return nil }
        }
        guard rest.first == ":" else { return nil }
        rest.removeFirst()
        guard !rest.isEmpty, rest.allSatisfy({ "0123456789".contains($0) }), let port = UInt16(rest), port > 0 else {
            return nil
        }
        return (host.lowercased(), port)
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
