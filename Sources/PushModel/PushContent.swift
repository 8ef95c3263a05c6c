// What is the same for every device of one notification.

/// A notification as it is sent: everything but the devices.
///
/// The payload is sent byte for byte as the database rendered it.
package struct PushContent: Sendable, Equatable {
    package var notificationID: Int64
    /// Name of the app in the worker's configuration; it decides the credential.
    package var app: String
    package var pushType: PushType
    /// 10, 5 or 1.
    package var priority: Int
    /// Replaces bundle id and suffix.
    package var topic: String?
    package var collapseID: String?
    /// Unix seconds after which it must not be sent or delivered.
    package var expiresAt: Int64?
    /// False: Apple tries once and keeps nothing.
    package var storeIfOffline: Bool
    /// Set when the target is a broadcast channel instead of devices.
    package var channelID: String?
    package var payload: [UInt8]

    package init(
        notificationID: Int64, app: String, pushType: PushType, priority: Int, topic: String? = nil,
        collapseID: String? = nil, expiresAt: Int64? = nil, storeIfOffline: Bool = true, channelID: String? = nil,
        payload: [UInt8]
    ) {
        self.notificationID = notificationID
        self.app = app
        self.pushType = pushType
        self.priority = priority
        self.topic = topic
        self.collapseID = collapseID
        self.expiresAt = expiresAt
        self.storeIfOffline = storeIfOffline
        self.channelID = channelID
        self.payload = payload
    }
}
