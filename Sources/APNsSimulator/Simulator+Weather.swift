// What the simulator does to connections as such: limits, GOAWAY, idleness, closed doors.

import HTTP2
import Reactor

/// A GOAWAY as it shall be sent.
struct GoAway {
    var lastForm: LastStreamForm
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
            outbox.append(.resetTwice(served, stream))
        }
        planTurn()
    }

    // MARK: GOAWAY

    /// Decides now which streams were processed, so that none above the last one is looked at any more, and sends GOAWAY at
    /// the end of the turn, after the answers that came before it.
    func planGoAway(_ goAway: GoAway, _ served: ServedConnection, lastStream explicit: Int32? = nil) {
        guard let wire = served.wire, !served.isMute else { return }
        // What one GOAWAY has called unprocessed, no later one takes back.
        let last = min(explicit ?? lastStream(goAway.lastForm, served, wire), served.deafAbove)
        served.isGoingAway = true
        served.deafAbove = last
        dropHeld(above: last, served)
        outbox.append(.goAway(served, goAway, lastStream: last))
        planTurn()
    }

    func sendGoAway(_ goAway: GoAway, _ served: ServedConnection, _ last: Int32) {
        guard let wire = served.wire else { return }
        if last == .max { return announce(goAway, served, wire) }
        for _ in 0..<(goAway.isTwice ? 2 : 1) {
            wire.goAway(lastStreamID: last, code: goAway.code, debug: Array(goAway.debug.utf8))
            journal.noteGoAway(served.number, served.place, lastStream: last, code: goAway.code, debug: goAway.debug)
        }
        planTurn()
        switch goAway.afterwards {
        case .drain: closeWhenDrained(served)
        case .linger: served.isLingering = true
        case .close: closeSoon(served)
        case .mute: loop.schedule(after: Simulator.flushTime) { [weak served] in served?.mute() }
        }
    }

    /// The first of two GOAWAYs, which decides nothing; the second comes when the sender has had time to read it.
    private func announce(_ goAway: GoAway, _ served: ServedConnection, _ wire: HTTP2ServerConnection) {
        wire.announceGoAway()
        journal.noteGoAway(served.number, served.place, lastStream: .max, code: 0, debug: "")
        loop.schedule(after: .milliseconds(100)) { [weak self, weak served] in
            guard let self, let served, let wire = served.wire else { return }
            planGoAway(goAway, served, lastStream: wire.lastStreamID)
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
    static let flushTime = Duration.milliseconds(50)

    func closeWhenDrained(_ served: ServedConnection) {
        guard served.deafAbove != .max, !served.isLingering, !served.isMute, served.held.isEmpty,
            served.wire?.openStreams.isEmpty != false
        else {
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
                planGoAway(GoAway(judge.weather, reason: "IdleTimeout"), served)
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
            admit(gate)
        }
    }

    private func admit(_ gate: Gate) {
        do {
            try gate.admit(judge.weather.admission, context(for: judge.weather.face))
        } catch {
            // Somebody else has taken the port meanwhile; tried again, with the weather of that time.
            loop.schedule(after: .milliseconds(100)) { [weak self, weak gate] in
                if let self, let gate, gates.contains(where: { $0 === gate }) { admit(gate) }
            }
        }
    }
}
