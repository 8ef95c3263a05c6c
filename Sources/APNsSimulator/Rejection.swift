// Every refusal that Apple documents or has been seen to send, with its status. Written from Apple's own
// tables; the client of this package has a list of its own, and that the two agree is what tests are for.

/// A refusal: status, reason and, with 410, the time from which the token is known to be dead.
package struct Rejection: Error, Equatable, Sendable {
    /// The HTTP status.
    package let status: Int
    /// The `reason` of the JSON body.
    package let reason: String

    /// Makes a refusal.
    package init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    /// Whether Apple narrows the connection to one stream because of it: any 4xx but 410.
    package var narrowsConnection: Bool { (400..<500).contains(status) && status != 410 }
}

extension Rejection {
    /// All of them, in the order of `--help`.
    package static let all: [Rejection] = [
        badCollapseID, badDeviceToken, badExpirationDate, badMessageID, badPriority, badTopic, deviceTokenNotForTopic,
        duplicateHeaders, idleTimeout, invalidPushType, missingDeviceToken, missingTopic, payloadEmpty, topicDisallowed,
        badRequestPayload, badRequestParams, missingPushType, missingChannelID, badChannelID, channelNotRegistered,
        cannotCreateChannel, featureNotEnabled, badCertificate, badCertificateEnvironment, expiredProviderToken,
        forbidden, invalidProviderToken, missingProviderToken, unrelatedKey, badEnvironmentKeyDocumented,
        badEnvironmentKeyOnWire, topicMismatch, badPath, methodNotAllowed, unregistered, expiredToken, payloadTooLarge,
        tooManyProviderTokenUpdates, tooManyRequests, internalServerError, serviceUnavailable, shutdown,
    ]

    package static let badCollapseID = Rejection(400, "BadCollapseId")
    package static let badDeviceToken = Rejection(400, "BadDeviceToken")
    package static let badExpirationDate = Rejection(400, "BadExpirationDate")
    package static let badMessageID = Rejection(400, "BadMessageId")
    package static let badPriority = Rejection(400, "BadPriority")
    package static let badTopic = Rejection(400, "BadTopic")
    package static let deviceTokenNotForTopic = Rejection(400, "DeviceTokenNotForTopic")
    package static let duplicateHeaders = Rejection(400, "DuplicateHeaders")
    package static let idleTimeout = Rejection(400, "IdleTimeout")
    package static let invalidPushType = Rejection(400, "InvalidPushType")
    package static let missingDeviceToken = Rejection(400, "MissingDeviceToken")
    package static let missingTopic = Rejection(400, "MissingTopic")
    package static let payloadEmpty = Rejection(400, "PayloadEmpty")
    package static let topicDisallowed = Rejection(400, "TopicDisallowed")
    package static let badRequestPayload = Rejection(400, "BadRequestPayload")
    package static let badRequestParams = Rejection(400, "BadRequestParams")
    package static let missingPushType = Rejection(400, "MissingPushType")
    package static let missingChannelID = Rejection(400, "MissingChannelId")
    package static let badChannelID = Rejection(400, "BadChannelId")
    package static let channelNotRegistered = Rejection(400, "ChannelNotRegistered")
    package static let cannotCreateChannel = Rejection(400, "CannotCreateChannelConfig")
    package static let featureNotEnabled = Rejection(400, "FeatureNotEnabled")

    package static let badCertificate = Rejection(403, "BadCertificate")
    package static let badCertificateEnvironment = Rejection(403, "BadCertificateEnvironment")
    package static let expiredProviderToken = Rejection(403, "ExpiredProviderToken")
    package static let forbidden = Rejection(403, "Forbidden")
    package static let invalidProviderToken = Rejection(403, "InvalidProviderToken")
    package static let missingProviderToken = Rejection(403, "MissingProviderToken")
    package static let unrelatedKey = Rejection(403, "UnrelatedKeyIdInToken")
    /// As Apple's documentation spells it.
    package static let badEnvironmentKeyDocumented = Rejection(403, "BadEnvironmentKeyIdInToken")
    /// As it has been seen on the wire.
    package static let badEnvironmentKeyOnWire = Rejection(403, "BadEnvironmentKeyInToken")
    package static let topicMismatch = Rejection(403, "TopicMismatch")

    package static let badPath = Rejection(404, "BadPath")
    package static let methodNotAllowed = Rejection(405, "MethodNotAllowed")
    package static let unregistered = Rejection(410, "Unregistered")
    package static let expiredToken = Rejection(410, "ExpiredToken")
    package static let payloadTooLarge = Rejection(413, "PayloadTooLarge")
    package static let tooManyProviderTokenUpdates = Rejection(429, "TooManyProviderTokenUpdates")
    package static let tooManyRequests = Rejection(429, "TooManyRequests")
    package static let internalServerError = Rejection(500, "InternalServerError")
    package static let serviceUnavailable = Rejection(503, "ServiceUnavailable")
    package static let shutdown = Rejection(503, "Shutdown")
}
