// What an answer of Apple's means and what to do about it, in words for whoever has sent something by hand. What a worker does with
// the same answers stands in PushModel's AnswerRules; that each of those has its words here is what a test is for.

/// The meaning of an answer, and the remedy.
package struct AnswerAdvice: Sendable, Equatable {
    /// What it says, without a full stop.
    package let meaning: String
    /// What to do about it; nil when there is nothing to do.
    package let remedy: String?

    init(_ meaning: String, _ remedy: String?) {
        self.meaning = meaning
        self.remedy = remedy
    }

    /// The words for an answer.
    ///
    /// A known reason has its own whatever the status, everything else follows its status.
    package static func of(status: Int, reason: String) -> AnswerAdvice { known[reason] ?? byStatus(status) }

    /// Whether the reason has words of its own.
    package static func isKnown(_ reason: String) -> Bool { known[reason] != nil }

    // MARK: The table

    private static let known: [String: AnswerAdvice] = Dictionary(
        (content + devices + topics + channels + credentials + passing).map {
            ($0.reason, AnswerAdvice($0.meaning, $0.remedy))
        }, uniquingKeysWith: { first, _ in first })

    private typealias Row = (reason: String, meaning: String, remedy: String)

    private static let content: [Row] = [
        (
            "BadCollapseId", "the collapse id is longer than 64 bytes",
            "shorten it; bytes of UTF-8 count, not characters"
        ),
        (
            "BadExpirationDate", "the expiration is no point in time that Apple takes",
            "a channel without storage takes only apns-expiration 0: set store_if_offline to false"
        ),
        ("BadMessageId", "the apns-id is no UUID", "this is a fault of pgpush: report it"),
        (
            "BadPriority", "the priority does not go with the push type",
            "a background push has priority 5 or 1; others may have 10 as well"
        ),
        ("InvalidPushType", "Apple does not know the push type, or it does not fit here", "name another push type"),
        ("MissingPushType", "the request names no push type", "name one; a channel takes liveactivity"),
        (
            "PayloadEmpty", "the payload is empty or no JSON object",
            "send a JSON object with the key aps (mdm: with the key mdm)"
        ),
        (
            "PayloadTooLarge", "the payload is longer than Apple takes",
            "at most 4096 bytes, 5120 for voip and for channels"
        ),
        ("BadRequestParams", "a header of the request is not what Apple expects", "check ids and options"),
        (
            "BadRequestPayload", "the body of the request is not what Apple expects",
            "check the payload's keys and values"
        ),
        ("DuplicateHeaders", "a header came twice", "look for a proxy in between that adds headers"),
        ("BadPath", "Apple does not know the path", "check bundle id and host: is it Apple's, or a proxy of your own?"),
        (
            "MethodNotAllowed", "the method does not go with the path",
            "check the host: pushes and channel management have different ones"
        ),
    ]

    private static let devices: [Row] = [
        (
            "BadDeviceToken", "the token is not one of this environment, or none at all",
            "builds from Xcode have sandbox tokens, those from TestFlight and the App Store have production tokens: "
                + "try the other environment, and check that the token is whole"
        ),
        (
            "DeviceTokenNotForTopic", "the token belongs to another app or to another kind of push",
            "check bundle id, topic and push type: VoIP, Live Activities, widgets have tokens of their own"
        ),
        (
            "Unregistered", "the token is dead: the app was removed, or has a new token",
            "delete the token; send again only when the app registers it anew"
        ),
        (
            "ExpiredToken", "the token has expired, as those of Live Activities do",
            "delete the token and take the one that the app reports next"
        ),
        ("MissingDeviceToken", "the path has no token", "name the token"),
    ]

    private static let topics: [Row] = [
        ("BadTopic", "the topic cannot be one", "it is the bundle id with the suffix of the push type"),
        ("MissingTopic", "the request has no topic", "a certificate for several topics needs one: name it"),
        (
            "TopicDisallowed", "this key or certificate may not send to the topic",
            "check APNS_BUNDLE_ID and the team of the key; for channels the bundle id stands alone, without a suffix"
        ),
        (
            "TopicMismatch", "the app does not belong to the key or certificate",
            "check APNS_BUNDLE_ID, APNS_TEAM_ID and which apps the key is for"
        ),
        (
            "FeatureNotEnabled", "broadcast is not switched on for this app",
            "switch on Broadcast Capability under Push Notifications of the App ID, on Apple's developer site"
        ),
    ]

    private static let channels: [Row] = [
        (
            "MissingChannelId", "the request names no channel",
            "name the channel that 'pgpush channels create' has printed"
        ),
        (
            "BadChannelId", "the channel id is malformed",
            "copy it as 'pgpush channels create' has printed it, with any = at its end"
        ),
        (
            "ChannelNotRegistered", "there is no such channel in this environment",
            "'pgpush channels list' shows those there are; production and the sandbox have channels of their own"
        ),
        (
            "CannotCreateChannelConfig",
            "no further channel can be made; an app has at most 10,000 in each environment",
            "delete channels that are not used any more: 'pgpush channels list', 'pgpush channels delete'"
        ),
    ]

    private static let credentials: [Row] = [
        (
            "ExpiredProviderToken", "the provider token is older than an hour by Apple's clock",
            "set the clock of this machine; 'pgpush doctor' compares it with the database's"
        ),
        (
            "InvalidProviderToken", "Apple does not accept the signature",
            "check that APNS_KEY_ID and APNS_TEAM_ID belong to the key, and that it was not revoked"
        ),
        (
            "MissingProviderToken", "the request was not signed, and no certificate was shown",
            "check the credentials by 'pgpush doctor'; does a proxy in between drop headers or end TLS?"
        ),
        ("UnrelatedKeyIdInToken", "the key does not go with the one the connection began with", "try again"),
        (
            "BadEnvironmentKeyIdInToken", "the key is for the other environment",
            "try the other environment, or take a key that is for this one"
        ),
        (
            "BadEnvironmentKeyInToken", "the key is for the other environment",
            "try the other environment, or take a key that is for this one"
        ),
        ("Forbidden", "Apple refuses the key or certificate", "look at it on Apple's developer site: was it revoked?"),
        ("BadCertificate", "Apple does not accept the certificate", "check it by 'pgpush doctor', or make a new one"),
        (
            "BadCertificateEnvironment", "the certificate is for the other environment",
            "try the other environment, or make a certificate for both"
        ),
    ]

    private static let passing: [Row] = [
        (
            "TooManyRequests", "too much was sent to this device or app in a short time",
            "wait a minute or more, then try again"
        ),
        (
            "TooManyProviderTokenUpdates", "provider tokens of the key change too often",
            "wait twenty minutes: each call signs a token of its own, a running worker keeps one for most of an hour"
        ),
        ("IdleTimeout", "the connection was idle for too long", "try again"),
        ("InternalServerError", "Apple's service failed", "try again in some minutes"),
        ("ServiceUnavailable", "Apple's service is overloaded or down", "try again in some minutes"),
        ("Shutdown", "the server at Apple's is being shut down", "try again: another one will answer"),
    ]

    private static func byStatus(_ status: Int) -> AnswerAdvice {
        switch status {
        case 200..<300: AnswerAdvice("accepted", nil)
        case 401, 404, 405, 407:
            AnswerAdvice(
                "this is no answer of Apple's push service",
                "check the host: something in between answers in Apple's place")
        case 403:
            AnswerAdvice("Apple refuses the key or certificate", "check the credentials by 'pgpush doctor'")
        case 410: AnswerAdvice("the token is said to be dead", "delete it if the app has not registered it since")
        case 413: AnswerAdvice("the payload is longer than Apple takes", "shorten it")
        case 429: AnswerAdvice("too much was sent in a short time", "wait a minute or more, then try again")
        case 400..<500:
            AnswerAdvice(
                "Apple refuses the request, for a reason that is not known here", "look the reason up at Apple's")
        case 500..<600: AnswerAdvice("Apple's service failed", "try again in some minutes")
        default:
            AnswerAdvice("this is no answer of Apple's push service", "check the host")
        }
    }
}
