// A request's way through the simulator, from its arrival to its answer or to its end without one.

import HTTP2
import Reactor

/// Something that leaves at the end of a turn, when the journal knows of it.
enum Outgoing {
    case answer(ServedConnection, JudgedRequest, Answer)
    case reset(ServedConnection, Int32, UInt32)
    case resetTwice(ServedConnection, Int32)
    case resetMidAnswer(ServedConnection, JudgedRequest)
    case abortMidAnswer(ServedConnection, JudgedRequest)
    case abortMidHeaders(ServedConnection, JudgedRequest)
    case end(ServedConnection, HTTP2ServerEnd, String)
    case goAway(ServedConnection, GoAway, lastStream: Int32)
    case mute(ServedConnection)
}

extension Simulator: TurnHandler {
    // MARK: In

    func received(_ request: HTTP2ServerRequest, on wire: HTTP2ServerConnection) {
        guard let served = wire.context as? ServedConnection else { return }
        served.lastActive = loop.now
        arrivals.append((served, request))
        planTurn()
    }

    func streamClosed(_ stream: Int32, code: UInt32, on wire: HTTP2ServerConnection) {
        guard let served = wire.context as? ServedConnection else { return }
        served.lastActive = loop.now
        if let judged = served.held.removeValue(forKey: stream) {
            noteLost(judged, stream > served.deafAbove ? "refused" : "abandoned", code: code)
            planTurn()
        }
        if served.isGoingAway { closeWhenDrained(served) }
    }

    package func turnEnded() {
        isTurnPlanned = false
        let batch = arrivals
        arrivals.removeAll(keepingCapacity: true)
        for (served, request) in batch { examine(request, served) }
        // The journal is on its way before the first answer is.
        journal.flush()
        let leaving = outbox
        outbox.removeAll(keepingCapacity: true)
        for outgoing in leaving { perform(outgoing) }
        checkWaiters()
    }

    private func examine(_ request: HTTP2ServerRequest, _ served: ServedConnection) {
        let incoming = IncomingRequest(fields: request.fields, body: request.body)
        if served.environment == nil { served.environment = SimulatedEnvironment(authority: incoming.authority) }
        let arrival = Arrival(
            connection: served.number, stream: request.streamID, environment: served.place, received: loop.now)
        served.requests += 1
        if served.isMute || request.streamID > served.deafAbove { return leaveLying(incoming, arrival, served) }
        let time = RulingTime(monotonic: loop.now, wallSeconds: wallNanoseconds() / 1_000_000_000)
        let ruling = judge.decide(
            incoming, by: door(of: served), trust: &served.trust, environment: served.place, at: time)
        let id = incoming.apnsID.flatMap { PushRules.isUUID($0) ? $0 : nil } ?? judge.makeID()
        var judged = JudgedRequest(arrival: arrival, request: incoming, ruling: ruling, answerID: id)
        if incoming.route.concernsChannels {
            judged.requestID = incoming.requestID.flatMap { PushRules.isUUID($0) ? $0 : nil } ?? judge.makeID()
        }
        if ruling.isTrusted { served.limit.tokenAccepted() }
        follow(judged, served)
        connectionWeather(served)
    }

    /// Keeps a request that came too late until its stream or its connection ends.
    private func leaveLying(_ request: IncomingRequest, _ arrival: Arrival, _ served: ServedConnection) {
        judge.tally.arrivedUnread()
        let ruling = Ruling(decision: .silence, attempt: 0)
        hold(JudgedRequest(arrival: arrival, request: request, ruling: ruling, answerID: ""), served)
    }

    /// Sends the request where its ruling says.
    private func follow(_ judged: JudgedRequest, _ served: ServedConnection) {
        let stream = judged.arrival.stream
        switch judged.ruling.decision {
        case .answer(let answer) where answer.delay > .zero: holdFor(answer, judged, served)
        case .answer(let answer): depart(judged, answer, served)
        case .silence: hold(judged, served)
        case .reset(let code):
            noteLost(judged, "reset", code: code)
            outbox.append(.reset(served, stream, code))
        case .resetTwice:
            noteLost(judged, "reset", code: StreamError.refusedStream)
            outbox.append(.resetTwice(served, stream))
        case .resetMidAnswer:
            noteLost(judged, "reset", code: StreamError.internalError)
            outbox.append(.resetMidAnswer(served, judged))
        case .abortMidAnswer:
            noteLost(judged, "cut off")
            outbox.append(.abortMidAnswer(served, judged))
        case .abortMidHeaders:
            noteLost(judged, "cut off")
            outbox.append(.abortMidHeaders(served, judged))
        case .abort: noteEnded(judged, served, .abort)
        case .finish: noteEnded(judged, served, .fin)
        case .goAwayBefore:
            noteLost(judged, "refused")
            planGoAway(GoAway(judge.weather), served, lastStream: max(0, stream - 2))
        case .goAwayAfter:
            depart(judged, Answer(), served)
            planGoAway(GoAway(judge.weather), served)
        case .goAwayInstead(let rejection):
            noteLost(judged, "refused")
            planGoAway(GoAway(judge.weather, reason: rejection.reason), served, lastStream: 0)
        }
    }

    private func noteEnded(_ judged: JudgedRequest, _ served: ServedConnection, _ end: HTTP2ServerEnd) {
        noteLost(judged, "cut off")
        outbox.append(.end(served, end, "magic token"))
    }

    /// What the weather does to a connection that has had so many requests.
    private func connectionWeather(_ served: ServedConnection) {
        let weather = judge.weather
        // One that has had more when the weather changes meets it with its next request.
        func isDue(_ limit: Int) -> Bool { limit > 0 && served.requests >= limit }
        if isDue(weather.goAwayAfter), !served.isGoingAway { planGoAway(GoAway(weather), served) }
        if isDue(weather.closeAfter) { outbox.append(.end(served, .notify, "close-after")) }
        if isDue(weather.abortAfter) { outbox.append(.end(served, .abort, "abort-after")) }
        if isDue(weather.finishAfter) { outbox.append(.end(served, .fin, "finish-after")) }
        if isDue(weather.alertAfter) { outbox.append(.end(served, .alert, "alert-after")) }
        if isDue(weather.muteAfter) { outbox.append(.mute(served)) }
    }

    // MARK: Waiting

    private func hold(_ judged: JudgedRequest, _ served: ServedConnection) {
        served.held[judged.arrival.stream] = judged
        journal.noteHeld(judged)
    }

    private func holdFor(_ answer: Answer, _ judged: JudgedRequest, _ served: ServedConnection) {
        hold(judged, served)
        loop.schedule(after: answer.delay) { [self] in release(judged.arrival.stream, served, answer) }
    }

    /// Answers a request that was held, unless it has ended meanwhile.
    func release(_ stream: Int32, _ served: ServedConnection, _ answer: Answer) {
        guard !served.isMute, let judged = served.held.removeValue(forKey: stream) else { return }
        depart(judged, answer, served)
        planTurn()
    }

    // MARK: Out

    private func depart(_ judged: JudgedRequest, _ answer: Answer, _ served: ServedConnection) {
        judge.tally.noteAnswer(
            answer, environment: judged.arrival.environment, token: judged.request.deviceToken)
        journal.noteEnd(judged, outcome: "answered", answer: answer)
        outbox.append(.answer(served, judged, answer))
    }

    func noteLost(_ judged: JudgedRequest, _ outcome: String, code: UInt32? = nil) {
        judge.tally.noteUnanswered()
        journal.noteEnd(judged, outcome: outcome, code: code)
    }

    private func perform(_ outgoing: Outgoing) {
        switch outgoing {
        case .answer(let served, let judged, let answer):
            guard !served.isMute, let wire = served.wire else { return }
            send(answer, to: judged, on: wire)
            served.limit.answered(answer.rejection)
            announceLimit(served)
        case .reset(let served, let stream, let code): served.wire?.reset(stream, code: code)
        case .resetTwice(let served, let stream):
            served.wire?.sendRaw(resetFrame(stream, StreamError.refusedStream))
            served.wire?.reset(stream, code: StreamError.streamClosed)
        case .resetMidAnswer(let served, let judged):
            sendHeadersOnly(served, judged)
            served.wire?.reset(judged.arrival.stream, code: StreamError.internalError)
        case .abortMidAnswer(let served, let judged):
            sendHeadersOnly(served, judged)
            loop.schedule(after: Simulator.flushTime) { served.end(.abort, cause: "magic token") }
        case .abortMidHeaders(let served, let judged):
            // Nothing may follow the piece, so what is owed to the sender (SETTINGS, acknowledgements) goes first.
            loop.schedule(after: Simulator.flushTime) { [self] in
                served.wire?.sendRaw(headersCutShort(judged.arrival.stream))
                loop.schedule(after: Simulator.flushTime) { served.end(.abort, cause: "magic token") }
            }
        case .end(let served, let end, let cause): served.end(end, cause: cause)
        case .goAway(let served, let goAway, let last): sendGoAway(goAway, served, last)
        case .mute(let served): served.mute()
        }
    }

    private func send(_ answer: Answer, to judged: JudgedRequest, on wire: HTTP2ServerConnection) {
        let stream = judged.arrival.stream
        if answer.rejection == nil, answer.success == .early { wire.sendInformational(stream, status: 103) }
        let hasTrailers = answer.rejection == nil ? answer.success == .trailers : answer.errorBody == .trailers
        wire.respond(
            to: stream, status: answer.status, fields: fields(of: answer, judged), body: body(of: answer),
            splitInto: answer.errorBody == .split ? 3 : 1,
            emptyData: answer.rejection != nil && answer.errorBody == .empty,
            trailers: hasTrailers ? [(name: "x-simulator", value: "trailer")] : [])
    }

    private func body(of answer: Answer) -> [UInt8] {
        if let channel = answer.channel, answer.rejection == nil { return channel.body }
        if answer.rejection == nil { return answer.success == .body ? Array("{}".utf8) : [] }
        return errorBody(of: answer, at: wallNanoseconds() / 1_000_000)
    }

    private func fields(of answer: Answer, _ judged: JudgedRequest) -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        if let requestID = judged.requestID { fields.append((name: "apns-request-id", value: requestID)) }
        if judged.request.route.isManagement {
            if case .created(let id)? = answer.channel { fields.append((name: "apns-channel-id", value: id)) }
            if let seconds = answer.retryAfter { fields.append((name: "retry-after", value: String(seconds))) }
            return fields
        }
        let isAccepted = answer.rejection == nil
        if !isAccepted || answer.success != .noID { fields.append((name: "apns-id", value: judged.answerID)) }
        if isAccepted, judged.arrival.environment == .sandbox {
            fields.append((name: "apns-unique-id", value: judge.makeID().lowercased()))
        }
        if let seconds = answer.retryAfter { fields.append((name: "retry-after", value: String(seconds))) }
        return fields
    }

    /// The head of a HEADERS frame of 20 bytes that ends the stream, and of these the first, `:status: 200`, alone.
    private func headersCutShort(_ stream: Int32) -> [UInt8] {
        [0, 0, 20, 1, 5] + bigEndian(UInt32(bitPattern: stream)) + [0x88]
    }

    /// A whole RST_STREAM frame.
    private func resetFrame(_ stream: Int32, _ code: UInt32) -> [UInt8] {
        [0, 0, 4, 3, 0] + bigEndian(UInt32(bitPattern: stream)) + bigEndian(code)
    }

    private func bigEndian(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    /// The headers of a 200 leave without the end of the stream.
    private func sendHeadersOnly(_ served: ServedConnection, _ judged: JudgedRequest) {
        served.wire?.sendInformational(judged.arrival.stream, status: 200, fields: fields(of: Answer(), judged))
    }
}
