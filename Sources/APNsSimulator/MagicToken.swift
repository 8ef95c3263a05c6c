// Device tokens that choose their answer: `5ca1ab1e` and four more digits. This table is the only place where they
// are defined; `--help` prints it.

/// One magic token.
package struct MagicToken: Sendable {
    /// What such a token begins with.
    package static let prefix = "5ca1ab1e"

    /// The four digits after the prefix.
    package let digits: String
    /// What becomes of a push to it.
    package let decision: Decision
    /// Whether only the first push to a token is treated so, and later ones are accepted.
    package let isOnce: Bool
    /// The only environment where it is so; elsewhere the push is accepted.
    package let environment: SimulatedEnvironment?
    /// What it does, for people.
    package let summary: String

    /// The magic of a lower-case device token, if it has any.
    package static func of(_ token: String) -> MagicToken? {
        guard token.hasPrefix(prefix) else { return nil }
        return byDigits[String(token.dropFirst(prefix.count).prefix(4))]
    }

    /// All magic tokens, in the order of `--help`.
    package static let table: [MagicToken] = gone + bad + credentials + faults + silence + wire + bodies + successes

    private static let byDigits = Dictionary(table.map { ($0.digits, $0) }, uniquingKeysWith: { first, _ in first })

    private init(
        _ digits: String, _ decision: Decision, once: Bool = false, only environment: SimulatedEnvironment? = nil,
        _ summary: String
    ) {
        self.digits = digits
        self.decision = decision
        isOnce = once
        self.environment = environment
        self.summary = summary
    }

    private static func refuse(
        _ digits: String, _ rejection: Rejection, once: Bool = false, only environment: SimulatedEnvironment? = nil,
        _ note: String = "", change: (inout Answer) -> Void = { _ in }
    ) -> MagicToken {
        var answer = Answer(rejection)
        change(&answer)
        let tail = note + (once ? ", once; then accepted" : "")
        return MagicToken(
            digits, .answer(answer), once: once, only: environment, "\(rejection.status) \(rejection.reason)\(tail)")
    }

    // MARK: The table

    private static let gone: [MagicToken] = [
        refuse("0410", .unregistered, ", timestamp now"),
        refuse("1410", .unregistered, ", timestamp a day ago") { $0.timestamp = .dayBefore },
        refuse("2410", .unregistered, ", no timestamp") { $0.timestamp = .absent },
        refuse("3410", .expiredToken, ", timestamp now"),
        refuse("4410", .unregistered, ", timestamp is a text") { $0.timestamp = .text },
        refuse("5410", .unregistered, ", timestamp -1") { $0.timestamp = .negative },
        refuse("6410", .unregistered, ", timestamp 10^20") { $0.timestamp = .huge },
        refuse("7410", .unregistered, ", timestamp in seconds") { $0.timestamp = .seconds },
        refuse("8410", .unregistered, ", timestamp a day ahead") { $0.timestamp = .dayAfter },
        refuse("9410", .expiredToken, ", no timestamp") { $0.timestamp = .absent },
    ]

    private static let bad: [MagicToken] = [
        refuse("0400", .badDeviceToken),
        refuse("1400", .badDeviceToken, only: .production, " in production (a sandbox token)"),
        refuse("2400", .badDeviceToken, only: .sandbox, " on the sandbox (a production token)"),
        refuse("3400", .deviceTokenNotForTopic),
        refuse("4400", .topicDisallowed),
        refuse("5400", .badTopic),
        refuse("6400", .missingTopic),
        refuse("7400", .badCollapseID),
        refuse("8400", .badExpirationDate),
        refuse("9400", .badMessageID),
        refuse("a400", .badPriority),
        refuse("b400", .invalidPushType),
        refuse("c400", .payloadEmpty),
        refuse("d400", .duplicateHeaders),
        refuse("e400", .missingDeviceToken),
        refuse("f400", .idleTimeout, once: true),
        refuse("0401", .badRequestParams),
        refuse("1401", .badRequestPayload),
        refuse("2401", .missingPushType),
        refuse("3401", .missingChannelID),
        refuse("4401", .badChannelID),
        refuse("5401", .channelNotRegistered),
        refuse("6401", .cannotCreateChannel),
        refuse("7401", .featureNotEnabled),
        refuse("0404", .badPath),
        refuse("0405", .methodNotAllowed),
        refuse("0413", .payloadTooLarge),
    ]

    private static let credentials: [MagicToken] = [
        refuse("0403", .forbidden),
        refuse("1403", .invalidProviderToken),
        refuse("2403", .expiredProviderToken),
        refuse("3403", .missingProviderToken),
        refuse("4403", .unrelatedKey),
        refuse("5403", .badEnvironmentKeyDocumented, " (as documented)"),
        refuse("6403", .badEnvironmentKeyOnWire, " (as seen on the wire)"),
        refuse("7403", .badCertificate),
        refuse("8403", .badCertificateEnvironment),
        refuse("9403", .topicMismatch),
    ]

    private static let faults: [MagicToken] = [
        refuse("0429", .tooManyRequests, once: true),
        refuse("1429", .tooManyRequests, ", always"),
        refuse("2429", .tooManyRequests, once: true, ", retry-after 2") { $0.retryAfter = 2 },
        refuse("3429", .tooManyProviderTokenUpdates, once: true),
        refuse("0500", .internalServerError, once: true),
        refuse("1500", .internalServerError, ", always"),
        refuse("0503", .serviceUnavailable, once: true),
        refuse("1503", .serviceUnavailable, ", always"),
        refuse("2503", .shutdown, once: true),
        refuse("3503", .serviceUnavailable, once: true, ", retry-after 2") { $0.retryAfter = 2 },
    ]

    private static func accept(_ digits: String, after delay: Duration, _ summary: String) -> MagicToken {
        var answer = Answer()
        answer.delay = delay
        return MagicToken(digits, .answer(answer), summary)
    }

    private static let silence: [MagicToken] = [
        MagicToken("00aa", .silence, "never answered"),
        MagicToken("01aa", .silence, once: true, "not answered, once; then accepted"),
        accept("02aa", after: .seconds(2), "accepted after 2 s"),
        accept("03aa", after: .seconds(20), "accepted after 20 s"),
    ]

    private static let wire: [MagicToken] = [
        MagicToken("00bb", .reset(StreamError.internalError), "RST_STREAM INTERNAL_ERROR"),
        MagicToken(
            "01bb", .reset(StreamError.internalError), once: true, "RST_STREAM INTERNAL_ERROR, once; then accepted"),
        MagicToken(
            "02bb", .reset(StreamError.refusedStream), once: true, "RST_STREAM REFUSED_STREAM, once; then accepted"),
        MagicToken("03bb", .reset(StreamError.refusedStream), "RST_STREAM REFUSED_STREAM"),
        MagicToken("04bb", .reset(StreamError.cancel), "RST_STREAM CANCEL"),
        MagicToken("05bb", .resetMidAnswer, once: true, "200 without end, then RST_STREAM, once; then accepted"),
        MagicToken(
            "06bb", .resetTwice, once: true, "RST_STREAM REFUSED_STREAM, then STREAM_CLOSED, once; then accepted"),
        MagicToken("00cc", .abort, once: true, "TCP reset instead of an answer, once; then accepted"),
        MagicToken("01cc", .finish, once: true, "TCP end instead of an answer, once; then accepted"),
        MagicToken("02cc", .goAwayBefore, once: true, "GOAWAY below this stream, once; then accepted"),
        MagicToken("03cc", .goAwayAfter, once: true, "accepted, with GOAWAY, once; then accepted"),
        MagicToken("04cc", .abortMidAnswer, once: true, "200 without end, then TCP reset, once; then accepted"),
        MagicToken(
            "05cc", .abortMidHeaders, once: true, "a HEADERS frame cut short by a TCP reset, once; then accepted"),
        MagicToken(
            "06cc", .goAwayInstead(.badCertificateEnvironment), once: true,
            "GOAWAY BadCertificateEnvironment with last stream 0, once; then accepted"),
        MagicToken(
            "07cc", .goAwayInstead(.badCertificate), once: true,
            "GOAWAY BadCertificate with last stream 0, once; then accepted"),
    ]

    private static func body(_ digits: String, _ form: ErrorBodyForm, _ summary: String) -> MagicToken {
        var answer = Answer(.badDeviceToken)
        answer.errorBody = form
        return MagicToken(digits, .answer(answer), "400, " + summary)
    }

    private static let bodies: [MagicToken] = [
        body("00dd", .absent, "no body (END_STREAM on the headers)"),
        body("01dd", .empty, "an empty DATA frame"),
        body("02dd", .html, "an HTML body"),
        body("03dd", .broken, "JSON that breaks off"),
        body("04dd", .emptyObject, "{}"),
        body("05dd", .unknownReason, "a reason that nobody knows"),
        body("06dd", .nulReason, "a reason with \\u0000 in it"),
        body("07dd", .numberReason, "a reason that is a number"),
        body("08dd", .split, "BadDeviceToken in three DATA frames"),
        body("09dd", .long, "a reason of 100 KB"),
        body("0add", .trailers, "BadDeviceToken, then trailers"),
    ]

    private static func success(_ digits: String, _ form: SuccessForm, _ summary: String) -> MagicToken {
        var answer = Answer()
        answer.success = form
        return MagicToken(digits, .answer(answer), summary)
    }

    private static let successes: [MagicToken] = [
        success("00ee", .early, "103 before the 200"),
        success("01ee", .noID, "200 without apns-id"),
        success("02ee", .trailers, "200 with trailers"),
        success("03ee", .body, "200 with a body"),
    ]
}
