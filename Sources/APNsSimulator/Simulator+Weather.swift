// What the simulator does to connections as such: limits, GOAWAY, idleness, closed doors.

import HTTP2
import Reactor

/// A GOAWAY as it shall be sent.
struct GoAway {
    var lastForm: LastStreamForm
    /// Overrides the form.
    var lastStream: Int32?
    var code: UInt32
    var debug: String
    var isTwice: Bool
    var afterwards: AfterGoAway

    /// The one that the weather describes, perhaps for another reason.
    init(_ weather: Weather, reason: String? = nil) {
        lastForm = weather.goAwayLast
        code = UInt32(clamping: weather.goAwayCode)
        isTwice = weather.goAwayTwice
        afterwards = weather.afterGoAway
        let reason = reason ?? weather.goAwayReason
        switch weather.goAwayBody {
        case .json: debug = "{\"reason\":\"\(reason)\"}"
        case .raw: debug = reason
        case .empty: debug = ""
        }
    }
}

extension Simulator {
    // MARK: Limits

    /// Tells the sender how many streams it may have, if that has changed.
    func announceLimit(_ served: ServedConnection) {
        guard served.hasSettings, let limit = served.limit.takeAnnouncement(judge.weather.levels) else { return }
        served.wire?.submitSettings(maxConcurrentStreams: UInt32(clamping: limit))
        if judge.weather.refusesInFlight { refuseBeyond(limit, served) }
    }

    private func refuseBeyond(_ limit: Int, _ served: ServedConnection) {
        for stream in served.held.keys.sorted().dropFirst(limit) {
            guard let judged = served.held.removeValue(forKey: stream) else { continue }
            noteLost(judged, "refused", code: StreamError.refusedStream)
            outbox.append(.reset(served, stream, StreamError.refusedStream))
        }
        planTurn()
    }

    // MARK: GOAWAY

    func sendGoAway(_ goAway: GoAway, _ served: ServedConnection) {
        guard let wire = served.wire, !served.isMute else { return }
        let last = goAway.lastStream ?? lastStream(goAway.lastForm, served, wire)
        served.isGoingAway = true
        dropHeld(above: last, served)
        for _ in 0..<(goAway.isTwice ? 2 : 1) {
            wire.goAway(lastStreamID: last, code: goAway.code, debug: Array(goAway.debug.utf8))
            journal.noteGoAway(served.number, served.place, lastStream: last, code: goAway.code, debug: goAway.debug)
        }
        planTurn()
        switch goAway.afterwards {
        case .drain: closeWhenDrained(served)
        case .linger: served.isDeaf = true
        case .close: closeSoon(served)
        case .mute: loop.schedule(after: Simulator.flushTime) { [weak served] in served?.mute() }
        }
    }

    private func lastStream(_ form: LastStreamForm, _ served: ServedConnection, _ wire: HTTP2ServerConnection) -> Int32
    {
        switch form {
        case .highest: return wire.lastStreamID
        case .zero: return 0
        case .open: return .max
        case .middle:
            let waiting = served.held.keys.sorted()
            return waiting.isEmpty ? max(0, wire.lastStreamID - 2) : waiting[waiting.count / 2]
        }
    }

    private func dropHeld(above last: Int32, _ served: ServedConnection) {
        for (stream, judged) in served.held.sorted(by: { $0.key < $1.key }) where stream > last {
            served.held[stream] = nil
            noteLost(judged, "refused")
        }
    }

    /// How long frames that are queued may take to leave before a connection is closed.
    ///
    /// The HTTP/2 layer tells of a stream's end when its last frame is made, not when it is sent.
    private static let flushTime = Duration.milliseconds(50)

    func closeWhenDrained(_ served: ServedConnection) {
        guard !served.isDeaf, !served.isMute, served.held.isEmpty, served.wire?.openStreams.isEmpty != false else {
            return
        }
        closeSoon(served)
    }

    private func closeSoon(_ served: ServedConnection) {
        loop.schedule(after: Simulator.flushTime) { [weak served] in served?.end(.notify, cause: "goaway") }
    }

    // MARK: Idleness

    /// Looks for idle connections as long as the weather wants it.
    private func sweep() {
        let limit = judge.weather.idleLimit
        isSweeping = limit > .zero
        guard isSweeping else { return }
        for served in connections.values where served.held.isEmpty && !served.isGoingAway {
            if loop.now.since(served.lastActive) >= limit {
                sendGoAway(GoAway(judge.weather, reason: "IdleTimeout"), served)
            }
        }
        loop.schedule(after: max(.milliseconds(10), limit / 4)) { [weak self] in self?.sweep() }
    }

    // MARK: Change

    /// Brings everything in line with a weather that has changed.
    func weatherChanged() {
        for served in connections.values { announceLimit(served) }
        if !isSweeping { sweep() }
        for gate in gates {
            if judge.weather.admission == .refuse { gate.close() } else { reopen(gate) }
        }
    }

    private func reopen(_ gate: Gate) {
        do {
            try gate.open()
        } catch {
            // Somebody else has taken the port meanwhile; tried again while the weather wants it open.
            loop.schedule(after: .milliseconds(100)) { [weak self, weak gate] in
                guard let self, let gate, judge.weather.admission != .refuse else { return }
                reopen(gate)
            }
        }
    }
}
