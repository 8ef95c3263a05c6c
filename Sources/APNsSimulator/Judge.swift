// From a request to what becomes of it: rules, credentials, magic tokens and weather in their order, without any I/O.
//
//     whole-service fault ─► port, method, path ─► provider token ─► headers, topic, device token ─► body ─► magic ─► shares
//     (answer-all)                                 (wedged? bound?)
//                                                  or certificate

package import Reactor

/// What was decided about a request.
package struct Ruling: Sendable {
    /// What becomes of it.
    package let decision: Decision
    /// What was odd about its body.
    package var warnings: [String] = []
    /// Which request for its device token it is, from 1.
    package var attempt = 1
    /// Whether its provider token was good.
    package var isTrusted = false
}

/// The point in time at which a ruling is made.
package struct RulingTime: Sendable {
    package let monotonic: MonotonicTime
    /// Seconds since 1970, by the machine's clock.
    package let wallSeconds: Int64

    /// Makes a point in time.
    package init(monotonic: MonotonicTime, wallSeconds: Int64) {
        self.monotonic = monotonic
        self.wallSeconds = wallSeconds
    }
}

/// The service as a whole, apart from its connections.
package struct Judge: Sendable {
    package var rules: PushRules
    package var registry: KeyRegistry
    package var weather: Weather
    package internal(set) var tally = Tally()
    var channels: ChannelBook
    private let seed: UInt64
    private var chance: SeededGenerator
    private var clocks: [SimulatedEnvironment: TokenChangeClock] = [:]
    private var lastBody: (bytes: [UInt8], kind: PushKind, limit: Int, finding: PayloadFinding)?

    /// Makes a service; the same seed gives the same chances.
    package init(
        rules: PushRules, registry: KeyRegistry, weather: Weather = Weather(), seed: UInt64 = 1
    ) {
        self.rules = rules
        self.registry = registry
        self.weather = weather
        self.seed = seed
        chance = SeededGenerator(seed: seed)
        channels = ChannelBook(seed: seed)
    }

    /// Makes all provider tokens that are about expired; newer ones are good.
    package mutating func expireKnownTokens() { weather.tokens.expiredUpTo = registry.newestIssue }

    /// Starts counting again; magic tokens that work once work again.
    package mutating func forget() {
        let connections = (tally.knocks, tally.opened, tally.closed)
        tally = Tally()
        (tally.knocks, tally.opened, tally.closed) = connections
    }

    /// An `apns-id` for a request that brought none, upper-case as Apple's are.
    package mutating func makeID() -> String {
        let high = chance.next() & ~0xF000 | 0x4000
        let low = chance.next() & ~(0xC0 << 56) | 0x80 << 56
        let digits = hex(high) + hex(low)
        var id = ""
        for (place, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(place) { id.append("-") }
            id.append(digit)
        }
        return id.uppercased()
    }

    /// Decides what becomes of a request that came in by `door`.
    package mutating func decide(
        _ request: IncomingRequest, by door: Door = .everything, trust: inout ConnectionTrust,
        environment: SimulatedEnvironment, at time: RulingTime
    ) -> Ruling {
        let token = stableHash(request.deviceToken ?? request.path)
        let attempt = tally.arrived(token)
        var ruling = judge(request, door, token, attempt, &trust, environment, time)
        ruling.attempt = attempt
        if !ruling.warnings.isEmpty { tally.noteWarning() }
        return ruling
    }

    // MARK: The order of things

    private mutating func judge(
        _ request: IncomingRequest, _ door: Door, _ token: UInt64, _ attempt: Int, _ trust: inout ConnectionTrust,
        _ environment: SimulatedEnvironment, _ time: RulingTime
    ) -> Ruling {
        let misfit = weather.answerAll ?? door.check(request.route) ?? rules.checkShape(request)
        if let misfit { return refuse(misfit) }
        if let certificate = trust.certificate {
            if let refusal = certificateRefusal(certificate, environment) { return refusal }
            var ruling = judgePush(request, certificate: certificate, token, attempt, environment)
            ruling.isTrusted = true
            return ruling
        }
        if let wedged = wedgedRuling(trust) { return wedged }
        switch admit(request, &trust, environment, time) {
        case .failure(let rejection): return refuse(rejection)
        case .success(let key):
            var ruling = judgePush(request, allowedTopics: key.topics, token, attempt, environment)
            ruling.isTrusted = true
            return ruling
        }
    }

    private mutating func judgePush(
        _ request: IncomingRequest, allowedTopics: Set<String>? = nil, certificate: ClientCertificate? = nil,
        _ token: UInt64, _ attempt: Int, _ environment: SimulatedEnvironment
    ) -> Ruling {
        guard case .device = request.route else {
            let allows = { allowedTopics?.contains($0) ?? certificate?.topics.contains($0) ?? true }
            return judgeChannel(request, attempt, environment, allows)
        }
        let refusal = rules.checkHeaders(request, allowedTopics: allowedTopics, certificate: certificate)
        if let refusal { return refuse(refusal) }
        let kind = PushRules.kind(of: request) ?? .alert
        let finding = check(request.body, kind, limit: kind.payloadLimit)
        if let rejection = finding.rejection { return refuse(rejection) }
        var ruling =
            rules.isStrict && !finding.warnings.isEmpty
            ? refuse(.badRequestPayload)
            : Ruling(decision: magic(request, token, environment) ?? byChance(token, attempt))
        ruling.warnings = finding.warnings
        return ruling
    }

    private mutating func certificateRefusal(
        _ certificate: ClientCertificate, _ environment: SimulatedEnvironment
    ) -> Ruling? {
        if weather.face.clients != .good {
            // A connection that is open already gets no TLS alert any more.
            return weather.face.badCertificateBy == .goAway
                ? Ruling(decision: .goAwayInstead(.badCertificate)) : refuse(.badCertificate)
        }
        if certificate.environments.contains(environment) { return nil }
        return weather.wrongEnvironmentBy == .goAway
            ? Ruling(decision: .goAwayInstead(.badCertificateEnvironment)) : refuse(.badCertificateEnvironment)
    }

    private func wedgedRuling(_ trust: ConnectionTrust) -> Ruling? {
        guard let rejection = trust.wedge, weather.wedge != .off else { return nil }
        return weather.wedge == .silent ? Ruling(decision: .silence) : refuseAtOnce(rejection)
    }

    private mutating func admit(
        _ request: IncomingRequest, _ trust: inout ConnectionTrust, _ environment: SimulatedEnvironment,
        _ time: RulingTime
    ) -> Result<RegisteredKey, Rejection> {
        let offset = weather.clockOffset.components.seconds
        return trust.admit(
            request.authorization, environment: environment, policy: weather.tokens, registry: &registry,
            shared: &clocks[environment, default: TokenChangeClock()], now: time.monotonic,
            wall: time.wallSeconds &+ offset)
    }

    /// The finding about a body; senders of a broadcast send the same one again and again.
    mutating func check(_ body: [UInt8], _ kind: PushKind, limit: Int) -> PayloadFinding {
        if let lastBody, lastBody.kind == kind, lastBody.limit == limit, sameBytes(lastBody.bytes, body) {
            return lastBody.finding
        }
        let finding = PayloadRules.check(body, kind: kind, limit: limit)
        lastBody = (body, kind, limit, finding)
        return finding
    }

    // MARK: Magic and chance

    private mutating func magic(
        _ request: IncomingRequest, _ token: UInt64, _ environment: SimulatedEnvironment
    ) -> Decision? {
        guard let magic = request.deviceToken.flatMap(MagicToken.of) else { return nil }
        if let only = magic.environment, only != environment { return nil }
        if magic.isOnce, !tally.meetsMagicFirst(token) { return nil }
        guard case .answer(let answer) = magic.decision else { return magic.decision }
        return .answer(dress(answer))
    }

    private mutating func byChance(_ token: UInt64, _ attempt: Int) -> Decision {
        // A dead or bad device token is so for ever; the passing faults roll again at each attempt.
        if falls(token, within: weather.goneShare, seed: seed, salt: 1) {
            var answer = Answer(.unregistered)
            answer.timestamp = weather.goneTimestamp
            return .answer(dress(answer))
        }
        if falls(token, within: weather.badTokenShare, seed: seed, salt: 2) {
            return .answer(dress(Answer(.badDeviceToken)))
        }
        return byPassingChance(token, attempt)
    }

    /// What may happen to a request whoever it is for.
    mutating func byPassingChance(_ token: UInt64, _ attempt: Int) -> Decision {
        let roll = token &+ UInt64(attempt)
        if falls(roll, within: weather.throttledShare, seed: seed, salt: 3) {
            return .answer(dress(Answer(.tooManyRequests)))
        }
        if falls(roll, within: weather.errorShare, seed: seed, salt: 4) {
            return .answer(dress(Answer(.internalServerError)))
        }
        if falls(roll, within: weather.silentShare, seed: seed, salt: 5) { return .silence }
        if falls(roll, within: weather.resetShare, seed: seed, salt: 6) { return .reset(StreamError.internalError) }
        if falls(roll, within: weather.refusedShare, seed: seed, salt: 7) { return .reset(StreamError.refusedStream) }
        return .answer(dress(Answer()))
    }

    mutating func refuse(_ rejection: Rejection) -> Ruling {
        Ruling(decision: .answer(dress(Answer(rejection))))
    }

    private func refuseAtOnce(_ rejection: Rejection) -> Ruling { Ruling(decision: .answer(Answer(rejection))) }

    /// Gives an answer the form and the delay that the weather asks for, where it has none of its own.
    mutating func dress(_ answer: Answer) -> Answer {
        var dressed = answer
        if answer.errorBody == .json { dressed.errorBody = weather.errorBody }
        if answer.success == .plain { dressed.success = weather.success }
        if weather.retryAfter > 0, answer.status == 429 || answer.status >= 500 {
            dressed.retryAfter = answer.retryAfter ?? weather.retryAfter
        }
        dressed.delay += weather.latency
        if weather.jitter > .zero { dressed.delay += weather.jitter * Double.random(in: 0..<1, using: &chance) }
        return dressed
    }
}

private func hex(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}
