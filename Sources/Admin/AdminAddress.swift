// Where to listen, as people write it.

/// Host and port of PGPUSH_HTTP.
package struct AdminAddress: Sendable, Equatable, CustomStringConvertible {
    /// A numeric address or a name; empty: all addresses of the machine.
    package let host: String
    package let port: UInt16

    /// Reads `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464` or `:9464`; nil when it is none of these.
    ///
    /// Port 0 is any that is free.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            text[text.index(after: colon)...].utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 })
        else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.contains(":") else { return nil }
        } else {
            // Without the brackets nobody knows where the address ends.
            guard !host.contains(":") else { return nil }
        }
        guard
            host.unicodeScalars.allSatisfy({ $0.isASCII && $0.value > 0x20 && !"/@?#[]%".unicodeScalars.contains($0) })
        else { return nil }
        self.host = String(host)
        self.port = port
    }

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// `127.0.0.1:9464`, `[::1]:9464`, `*:9464`.
    package var description: String {
        if host.isEmpty { return "*:\(port)" }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// The addresses to try, in this order: all of a machine are those of both families, or of IPv4 where there is no other.
    var candidates: [String] { host.isEmpty ? ["::", "0.0.0.0"] : [host] }
}
