// What `apns-push-type` may say, and what each kind demands of the other headers.

/// One of Apple's push types.
package enum PushKind: String, Sendable, CaseIterable {
    case alert, background, voip, complication, fileprovider, mdm, location, liveactivity, pushtotalk, widgets,
        controls, accessory

    /// What follows the bundle id in the topic.
    ///
    /// The current text of Apple's page spells the complication suffix
    /// in two ways; the one that libraries send is taken.
    package var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .voip: ".voip"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .location: ".location-query"
        case .liveactivity: ".push-type.liveactivity"
        case .pushtotalk: ".voip-ptt"
        case .widgets: ".push-type.widgets"
        case .controls: ".push-type.controls"
        case .accessory: ".push-type.accessory"
        }
    }

    /// The largest body in bytes.
    package var payloadLimit: Int { self == .voip ? 5120 : 4096 }

    /// Whether the push may carry this priority (absent counts as 10).
    package func allows(priority: Int) -> Bool { self != .background || priority != 10 }
}
