// When a notification is given up for everybody because of what a few devices were answered.

/// Decides whether the content or the channel is at fault, and not a device.
package enum HopelessRule {
    /// One answer may be an accident of one device.
    package static let threshold = 3

    /// Whether the rest of a unit, and of its notification, would be sent in vain, as long as nobody has accepted it.
    ///
    /// Apple's two environments need not agree: what only one of them has refused is not given up for the other.
    ///
    /// - Parameters:
    ///   - environments: For each environment that the unit sends to, how many devices it has there, and how many of them got
    ///     an answer that every other would get (`NotificationFate.hopeless`).
    ///   - isWhole: Whether the unit is the whole notification; a part must have as many such answers as it takes.
    /// - Returns: True when it should be given up.
    package static func givesUp(_ environments: [(hopeless: Int, devices: Int)], isWhole: Bool) -> Bool {
        let concerned = environments.filter { $0.devices > 0 }
        guard !concerned.isEmpty else { return false }
        return concerned.allSatisfy { $0.hopeless >= (isWhole ? min(threshold, $0.devices) : threshold) }
    }
}
