// The connections of a gateway in figures.

import APNs
import HTTP2

/// What tells gateways apart in metrics.
struct GatewayName: Hashable, Sendable {
    /// Host and port.
    let gateway: String
    /// Id of the key, or fingerprint of the certificate; neither is a secret.
    let credential: String

    init(_ way: AppWay) {
        gateway = "\(way.endpoint.host):\(way.endpoint.port)"
        credential = way.token?.keyID ?? way.certificate?.fingerprint ?? ReasonLabel.none
    }
}

/// States and counts of one or several gateways.
struct GatewayFigures: Sendable, Equatable {
    var connecting = 0
    var open = 0
    var draining = 0
    var streams = 0
    var streamLimit = 0
    var queued = 0
    var connectAttempts: UInt64 = 0
    var connectFailures: UInt64 = 0
    var connectionsLost: UInt64 = 0
    var pingTimeouts: UInt64 = 0
    var deadlines: UInt64 = 0
    /// By reason.
    var goAways: [String: UInt64] = [:]

    init() {}

    init(_ pool: HTTP2PoolSnapshot, farewells: [String: UInt64]) {
        connecting = pool.connecting
        open = pool.open
        draining = pool.draining
        streams = pool.inFlight
        streamLimit = pool.streamLimits.reduce(0, +)
        queued = pool.queued
        connectAttempts = pool.connectAttempts
        connectFailures = pool.connectFailures
        connectionsLost = pool.connectionsLost
        pingTimeouts = pool.pingTimeouts
        deadlines = pool.deadlines
        goAways = farewells
        if pool.wordlessGoAways > 0 { goAways[ReasonLabel.none, default: 0] += pool.wordlessGoAways }
    }

    /// The same when it has been closed: what only grows stays.
    var closed: GatewayFigures {
        var rest = self
        (rest.connecting, rest.open, rest.draining, rest.streams, rest.streamLimit, rest.queued) = (0, 0, 0, 0, 0, 0)
        return rest
    }

    static func += (a: inout Self, b: Self) {
        a.connecting += b.connecting
        a.open += b.open
        a.draining += b.draining
        a.streams += b.streams
        a.streamLimit += b.streamLimit
        a.queued += b.queued
        a.connectAttempts += b.connectAttempts
        a.connectFailures += b.connectFailures
        a.connectionsLost += b.connectionsLost
        a.pingTimeouts += b.pingTimeouts
        a.deadlines += b.deadlines
        a.goAways.merge(b.goAways, uniquingKeysWith: +)
    }
}
