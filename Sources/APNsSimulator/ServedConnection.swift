// What the simulator keeps for each connection of a sender.

import HTTP2
import Reactor

/// One connection of a sender, from its handshake to its end; lives on the simulator's loop.
final class ServedConnection {
    /// Counts the connections of a simulator from 1.
    let number: Int
    /// Which service it reached; on a shared port the first request tells.
    var environment: SimulatedEnvironment?
    /// Whether it came in where channels are managed and nothing else.
    let isForManagement: Bool
    /// The HTTP/2 side; nil once it is closed, which also undoes that each of the two keeps the other alive.
    ///
    /// (A weak reference would send every retain of the connection through a side table: 9 % of the simulator's time.)
    var wire: HTTP2ServerConnection?

    var trust = ConnectionTrust()
    var limit = StreamLimit()
    /// Requests that came in.
    var requests = 0
    /// Requests that wait for their answer, for a while or for ever.
    var held: [Int32: JudgedRequest] = [:]
    /// Whether SETTINGS have been sent, so that the limit may be announced.
    var hasSettings = false
    /// Whether GOAWAY has been sent.
    var isGoingAway = false
    /// Streams above this one are not looked at, because a GOAWAY has said so.
    var deafAbove = Int32.max
    /// Whether the connection stays open when it has nothing more to do.
    var isLingering = false
    /// Whether nothing is answered any more.
    var isMute = false
    /// When something last happened.
    var lastActive: MonotonicTime
    /// Why we end it; nil when the sender does.
    var cause: String?

    init(number: Int, gate: Gate, wire: HTTP2ServerConnection, now: MonotonicTime) {
        self.number = number
        environment = gate.environment
        isForManagement = gate.isForManagement
        self.wire = wire
        lastActive = now
    }

    /// The environment as the journal names it.
    var place: SimulatedEnvironment { environment ?? .production }

    /// Ends the connection in this way.
    func end(_ end: HTTP2ServerEnd, cause: String) {
        self.cause = self.cause ?? cause
        wire?.close(end)
    }

    /// Takes no more from the sender and gives it nothing, as a dead network would.
    func mute() {
        isMute = true
        wire?.pauseReading()
    }
}
