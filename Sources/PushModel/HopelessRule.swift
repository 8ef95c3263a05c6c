// When a notification is given up for everybody because of what a few devices were answered.

/// Decides whether the content or the channel is at fault, and not a device.
package enum HopelessRule {
    /// One answer may be an accident of one device.
    package static let threshold = 3

    /// Whether the rest of a unit, and of its notification, would be sent in vain.
    ///
    /// - Parameters:
    ///   - hopeless: How many devices of the unit got an answer that every other device would get
    ///     (`NotificationFate.hopeless`).
    ///   - devices: How many devices the unit has.
    ///   - isAccepted: Whether Apple is known to have accepted the notification for any device.
    /// - Returns: True when it should be given up.
    package static func givesUp(hopeless: Int, devices: Int, isAccepted: Bool) -> Bool {
        !isAccepted && hopeless >= min(threshold, max(devices, 1))
    }
}
