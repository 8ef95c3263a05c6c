// The table of answers, written down a second time from Apple's documentation and the field reports, so that the rules alone
// and the whole worker are compared with the same.

package import PushModel

/// One row: what the first answer and an answer to a resent request mean.
package struct ExpectedAnswer: Sendable, CustomStringConvertible {
    package let status: Int
    package let reason: String
    package let first: Verdict
    package let repeated: Verdict
    package var description: String { "\(status) \(reason)" }

    init(_ status: Int, _ reason: String, _ first: Verdict, again repeated: Verdict? = nil) {
        self.status = status
        self.reason = reason
        self.first = first
        self.repeated = repeated ?? first
    }
}

private let hopeless = Verdict(.rejected, notification: .hopeless, concern: .defect)
private let defect = Verdict(.rejected, concern: .defect)
private let propose = Verdict(.rejected, device: .propose)
private let dead = Verdict(.rejected, device: .deactivate(asOf: 1_700_000_000_123))
private let topic = Verdict(.hold(.topic), concern: .configuration)
private let channel = Verdict(.rejected, notification: .hopeless, concern: .configuration)
private let credential = Verdict(.hold(.credential), connection: .replace, concern: .configuration)
private let environment = Verdict(.hold(.environment), connection: .replace, concern: .configuration)
private let elsewhere = Verdict(.resend, connection: .replace)
private let stale = Verdict(.retryLater(.server), connection: .replace)

extension ExpectedAnswer {
    /// The table, and what the status says by itself.
    package static let all: [ExpectedAnswer] = [
        .init(200, "", .accepted),
        .init(400, "BadCollapseId", hopeless),
        .init(400, "BadDeviceToken", propose),
        .init(400, "BadExpirationDate", hopeless),
        .init(400, "BadMessageId", defect),
        .init(400, "BadPriority", hopeless),
        .init(400, "BadTopic", topic),
        .init(400, "DeviceTokenNotForTopic", propose),
        .init(400, "DuplicateHeaders", defect),
        .init(400, "IdleTimeout", Verdict(.resend, connection: .drain), again: stale),
        .init(400, "InvalidPushType", hopeless),
        .init(400, "MissingDeviceToken", defect),
        .init(400, "MissingTopic", topic),
        .init(400, "PayloadEmpty", hopeless),
        .init(400, "TopicDisallowed", topic),
        .init(400, "MissingPushType", hopeless),
        .init(400, "BadRequestParams", hopeless),
        .init(400, "BadRequestPayload", hopeless),
        .init(400, "FeatureNotEnabled", topic),
        .init(400, "MissingChannelId", channel),
        .init(400, "BadChannelId", channel),
        .init(400, "ChannelNotRegistered", channel),
        .init(400, "CannotCreateChannelConfig", Verdict(.rejected, concern: .configuration)),
        .init(403, "BadCertificate", credential),
        .init(403, "BadCertificateEnvironment", environment),
        .init(403, "ExpiredProviderToken", Verdict(.resend, connection: .retoken), again: credential),
        .init(403, "Forbidden", credential),
        .init(403, "InvalidProviderToken", elsewhere, again: credential),
        .init(403, "MissingProviderToken", credential),
        .init(403, "UnrelatedKeyIdInToken", elsewhere, again: credential),
        .init(403, "BadEnvironmentKeyIdInToken", environment),
        .init(403, "BadEnvironmentKeyInToken", environment),
        .init(403, "TopicMismatch", topic),
        .init(404, "BadPath", defect),
        .init(405, "MethodNotAllowed", defect),
        .init(410, "ExpiredToken", dead),
        .init(410, "Unregistered", dead),
        .init(413, "PayloadTooLarge", hopeless),
        .init(
            429, "TooManyProviderTokenUpdates",
            Verdict(.resend, connection: .freezeToken, concern: .configuration),
            again: Verdict(.hold(.credential), connection: .freezeToken, concern: .configuration)),
        .init(429, "TooManyRequests", Verdict(.retryLater(.device))),
        .init(500, "InternalServerError", stale),
        .init(503, "ServiceUnavailable", stale),
        .init(
            503, "Shutdown", Verdict(.resend, connection: .drain),
            again: Verdict(.retryLater(.server), connection: .drain)),
        // By status alone.
        .init(400, "", defect),
        .init(400, "SomethingNew", defect),
        .init(401, "", environment),
        .init(403, "", credential),
        .init(403, "SomethingNew", credential),
        .init(404, "", environment),
        .init(405, "", environment),
        .init(407, "", environment),
        .init(408, "", stale),
        .init(410, "", Verdict(.rejected, device: .propose)),
        .init(410, "SomethingNew", dead),
        .init(413, "", hopeless),
        .init(418, "", defect),
        .init(421, "", stale),
        .init(429, "SomethingNew", Verdict(.retryLater(.throttled))),
        .init(500, "SomethingNew", stale),
        .init(502, "", stale),
        .init(599, "", stale),
        .init(302, "", Verdict(.retryLater(.server), connection: .replace, concern: .configuration)),
        .init(204, "", Verdict(.retryLater(.server), connection: .replace, concern: .configuration)),
        .init(0, "", Verdict(.retryLater(.server), connection: .replace, concern: .configuration)),
    ]
}
