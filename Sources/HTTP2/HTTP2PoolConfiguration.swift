// What a pool is told, and what it tells about itself.

package import Reactor

/// Where a pool connects to, and its bounds.
///
/// The defaults are those of production; tests shorten the times.
package struct HTTP2PoolConfiguration: Sendable {
    /// Name that is resolved and connected to.
    package var host: String
    package var port: UInt16
    /// Name that the server's certificate must carry; nil: `host`.
    package var tlsName: String?
    /// The way out, where there is no direct one.
    package var proxy: HTTPProxy?
    /// At most this many connections; 1 to 16.
    package var maxConnections = 1
    /// At most this many requests wait for a stream.
    package var queueLimit = 4096
    /// At most this many streams on a connection, however many the peer allows.
    package var maxStreamsPerConnection = 1000
    /// Name of the field that carries `HTTP2Request.id`.
    package var idField = "apns-id"
    /// Response fields that are kept, in lower case.
    package var responseFields: [String] = []
    /// Bytes of a response body that are kept.
    package var bodyLimit = 4096
    /// Name resolution, TCP and TLS together.
    package var connectTimeout = Duration.seconds(10)
    /// Bounds of the back-off between failed attempts; the delay is random between 0 and a bound that doubles.
    package var backoffFirst = Duration.milliseconds(100)
    package var backoffLast = Duration.seconds(60)
    /// Connections that may be opened in a burst, and how many a second after that.
    package var connectBurst = 40
    package var connectsPerSecond = 4.0
    /// Shared with other pools that go the same way; nil: one of its own.
    package var budget: ConnectBudget?
    /// A PING goes out when nothing has come for this long while streams wait.
    package var pingAfter = Duration.seconds(5)
    /// The connection is given up when nothing has come for this long after a PING.
    package var pingTimeout = Duration.seconds(5)
    /// A PING goes out when an idle connection has been silent for this long.
    package var idlePing = Duration.seconds(3600)
    /// All streams must be busy for this long before another connection is opened.
    package var growAfter = Duration.milliseconds(100)
    /// Whether a connection carries one stream until the first 2xx (Apple: token authentication does).
    package var provesFirst = true
    /// A connection that took its authorization up less than this ago is replaced instead of being given another (Apple refuses
    /// what changes too often on one connection); zero: it may change at any time.
    package var authorizationHold = Duration.zero

    package init(host: String, port: UInt16 = 443, tlsName: String? = nil) {
        self.host = host
        self.port = port
        self.tlsName = tlsName
    }

    /// The value of `:authority`.
    var authority: String {
        let name = tlsName ?? host
        let bracketed = name.contains(":") ? "[\(name)]" : name
        return port == 443 ? bracketed : "\(bracketed):\(port)"
    }
}

/// Counts and states of a pool at one moment.
package struct HTTP2PoolSnapshot: Sendable {
    /// Connections by state.
    package var connecting = 0
    package var open = 0
    package var draining = 0
    /// The stream limits that hold at present, one for each open connection.
    package var streamLimits: [Int] = []
    package var queued = 0
    package var inFlight = 0
    /// Counts since the pool was made.
    package var connectAttempts: UInt64 = 0
    package var connectFailures: UInt64 = 0
    package var connectionsLost: UInt64 = 0
    package var goAways: UInt64 = 0
    /// Connections that the peer closed with a GOAWAY that says nothing; of the others `onFarewell` hears.
    package var wordlessGoAways: UInt64 = 0
    package var pingTimeouts: UInt64 = 0
    /// Streams that were sent again because the peer had certainly not processed them.
    package var resent: UInt64 = 0
    package var answered: UInt64 = 0
    package var deadlines: UInt64 = 0
    /// Why the last attempt failed; nil after one that did not.
    package var lastConnectFault: HTTP2Fault?
    /// The peer's last GOAWAY, with its debug text.
    package var lastGoAway: HTTP2Fault?
    /// When the next attempt may be made, while one is put off.
    package var nextAttempt: MonotonicTime?

    package init() {}
}
