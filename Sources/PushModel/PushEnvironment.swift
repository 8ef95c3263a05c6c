// Which of Apple's two services a device token belongs to; spelled as in the database.

/// The service that a device token was made for; it decides the host.
package enum PushEnvironment: String, Sendable, Hashable, CaseIterable {
    case production
    case sandbox
}
