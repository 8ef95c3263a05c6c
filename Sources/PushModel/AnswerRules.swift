// The meaning of every answer Apple gives, as one table. A 200 never comes here on the hot path (`Verdict.accepted` is a constant).
//
// How a rule is found:
// 1. A known reason under its own status has its rule.
// 2. A known reason under another status has its rule only if that loses nothing (retry, resend, hold): Apple has moved reasons
//    between statuses before. Nothing is rejected or retired on such ground.
// 3. Everything else follows its status: unknown, empty or unreadable reasons. Their text is kept by the caller.
//
// Some rules speak differently the first time and when the request has already been resent: a second connection or a new token
// is worth one try, then a person has to look. The figures behind `retryLater` are in `RetryPolicy`.

/// Decides what follows from an answer.
package enum AnswerRules {
    /// What follows from an answer.
    ///
    /// - Parameters:
    ///   - answer: What Apple said.
    ///   - resends: How often this request has been sent again at once (`RequestFate.resend`) because of an answer.
    /// - Returns: The verdict; a dead token's carries the answer's timestamp.
    package static func verdict(_ answer: PushAnswer, resends: Int = 0) -> Verdict {
        if answer.status == 200 { return .accepted }
        let rule = rule(answer)
        var verdict = resends > 0 ? rule.repeated ?? rule.first : rule.first
        if case .deactivate = verdict.device { verdict.device = .deactivate(asOf: answer.timestamp) }
        return verdict
    }

    /// Whether the reason stands in the table.
    package static func isKnown(_ reason: String) -> Bool { table[reason] != nil }

    /// Every reason that stands in the table.
    package static var knownReasons: Set<String> { Set(table.keys) }

    /// What Apple's farewell to a connection (GOAWAY) means for what is sent next, as far as it is about the credential or the
    /// environment; nil for all others, since no notification, topic or device can be meant.
    ///
    /// Requests of the connection itself are told apart by their stream ids, not by this.
    ///
    /// - Parameters:
    ///   - reason: What the farewell says.
    ///   - repeats: How many connections before this one ended so, without an answer in between.
    /// - Returns: `hold` with a scope, or `resend` with what becomes of connections and token.
    package static func verdict(goAwayReason reason: String, repeats: Int = 0) -> Verdict? {
        guard let rule = table[reason] else { return nil }
        let verdict = repeats > 0 ? rule.repeated ?? rule.first : rule.first
        switch verdict.request {
        case .hold(let scope) where scope != .topic: return verdict
        case .resend where [.retoken, .freezeToken].contains(verdict.connection): return verdict
        default: return nil
        }
    }

    private static func rule(_ answer: PushAnswer) -> AnswerRule {
        guard let rule = table[answer.reason], rule.status == answer.status || rule.losesNothing else {
            return byStatus(answer.status, hasReason: !answer.reason.isEmpty)
        }
        return rule
    }

    private static let table: [String: AnswerRule] = Dictionary(
        known.map { ($0.reason, $0) }, uniquingKeysWith: { first, _ in first })
}

/// One row of the table.
struct AnswerRule: Sendable {
    let status: Int
    let reason: String
    let first: Verdict
    /// When the request has been resent before; nil means the same as the first time.
    let repeated: Verdict?

    init(_ status: Int, _ reason: String, _ first: Verdict, repeated: Verdict? = nil) {
        self.status = status
        self.reason = reason
        self.first = first
        self.repeated = repeated
    }

    var losesNothing: Bool {
        switch first.request {
        case .retryLater, .resend, .hold: true
        case .accepted, .rejected, .unknown: false
        }
    }
}

extension AnswerRules {
    /// The content or a header made from it is wrong, for every device alike.
    private static let badContent = Verdict(.rejected, notification: .hopeless, concern: .defect)
    /// This request is malformed.
    private static let badRequest = Verdict(.rejected, concern: .defect)
    private static let perhapsDead = Verdict(.rejected, device: .propose)
    private static let dead = Verdict(.rejected, device: .deactivate(asOf: nil))
    private static let deadChannel = Verdict(.rejected, notification: .hopeless, concern: .configuration)
    private static let wrongTopic = Verdict(.hold(.topic), concern: .configuration)
    private static let wrongEnvironment = Verdict(
        .hold(.environment), connection: .replace, concern: .configuration)
    private static let badCredential = Verdict(.hold(.credential), connection: .replace, concern: .configuration)
    private static let elsewhere = Verdict(.resend, connection: .replace)
    private static let staleServer = Verdict(.retryLater(.server), connection: .replace)

    /// Every reason that Apple documents or was seen to send.
    static let known: [AnswerRule] = [
        AnswerRule(400, "BadCollapseId", badContent),
        AnswerRule(400, "BadExpirationDate", badContent),
        AnswerRule(400, "BadPriority", badContent),
        AnswerRule(400, "InvalidPushType", badContent),
        AnswerRule(400, "MissingPushType", badContent),
        AnswerRule(400, "PayloadEmpty", badContent),
        AnswerRule(400, "BadRequestParams", badContent),
        AnswerRule(400, "BadRequestPayload", badContent),
        AnswerRule(413, "PayloadTooLarge", badContent),

        AnswerRule(400, "BadMessageId", badRequest),
        AnswerRule(400, "DuplicateHeaders", badRequest),
        AnswerRule(400, "MissingDeviceToken", badRequest),
        AnswerRule(404, "BadPath", badRequest),
        AnswerRule(405, "MethodNotAllowed", badRequest),

        AnswerRule(400, "BadDeviceToken", perhapsDead),
        AnswerRule(400, "DeviceTokenNotForTopic", perhapsDead),
        AnswerRule(410, "Unregistered", dead),
        AnswerRule(410, "ExpiredToken", dead),

        AnswerRule(400, "BadTopic", wrongTopic),
        AnswerRule(400, "MissingTopic", wrongTopic),
        AnswerRule(400, "TopicDisallowed", wrongTopic),
        AnswerRule(403, "TopicMismatch", wrongTopic),
        AnswerRule(400, "FeatureNotEnabled", wrongTopic),

        AnswerRule(400, "MissingChannelId", deadChannel),
        AnswerRule(400, "BadChannelId", deadChannel),
        AnswerRule(400, "ChannelNotRegistered", deadChannel),
        // The quota of channels is used up. Comes only when a channel is made, so no push is held for it.
        AnswerRule(400, "CannotCreateChannelConfig", Verdict(.rejected, concern: .configuration)),

        // The connection stays unusable with any token; a new one carries a new token. Once again means a clock is wrong.
        AnswerRule(
            403, "ExpiredProviderToken", Verdict(.resend, connection: .retoken), repeated: badCredential),
        // Another team's token on a connection looks like a bad one.
        AnswerRule(403, "InvalidProviderToken", elsewhere, repeated: badCredential),
        AnswerRule(403, "UnrelatedKeyIdInToken", elsewhere, repeated: badCredential),
        AnswerRule(403, "MissingProviderToken", badCredential),
        AnswerRule(403, "Forbidden", badCredential),
        AnswerRule(403, "BadCertificate", badCredential),
        AnswerRule(403, "BadCertificateEnvironment", wrongEnvironment),
        // As documented, and as seen on the wire.
        AnswerRule(403, "BadEnvironmentKeyIdInToken", wrongEnvironment),
        AnswerRule(403, "BadEnvironmentKeyInToken", wrongEnvironment),

        AnswerRule(429, "TooManyRequests", Verdict(.retryLater(.device))),
        // A new token would make it worse; the old one is good elsewhere.
        AnswerRule(
            429, "TooManyProviderTokenUpdates",
            Verdict(.resend, connection: .freezeToken, concern: .configuration),
            repeated: Verdict(.hold(.credential), connection: .freezeToken, concern: .configuration)),

        AnswerRule(400, "IdleTimeout", Verdict(.resend, connection: .drain), repeated: staleServer),
        AnswerRule(500, "InternalServerError", staleServer),
        AnswerRule(503, "ServiceUnavailable", staleServer),
        AnswerRule(
            503, "Shutdown", Verdict(.resend, connection: .drain),
            repeated: Verdict(.retryLater(.server), connection: .drain)),
    ]

    /// What a status says by itself.
    static func byStatus(_ status: Int, hasReason: Bool) -> AnswerRule {
        AnswerRule(status, "", statusVerdict(status, hasReason))
    }

    private static func statusVerdict(_ status: Int, _ hasReason: Bool) -> Verdict {
        switch status {
        case 403: badCredential
        // Apple answers these with a reason of its own, so this is a proxy or a wrong host: nobody's notification is at fault.
        case 401, 404, 405, 407: wrongEnvironment
        case 408, 421: staleServer
        // Apple gives a reason; without one, a proxy or a host that was shut down may speak.
        case 410: hasReason ? dead : perhapsDead
        case 413: badContent
        case 429: Verdict(.retryLater(.throttled))
        case 400..<500: badRequest
        case 500..<600: staleServer
        // Not an answer to a push; whatever stands there may become Apple's service again.
        default: Verdict(.retryLater(.server), connection: .replace, concern: .configuration)
        }
    }
}
