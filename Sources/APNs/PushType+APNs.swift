// What Apple's rules say about each kind of push: the topic's suffix, the largest payload, the priorities.

package import PushModel

extension PushType {
    /// What the topic has after the bundle id; nil when the topic is not made from the bundle id.
    package var topicSuffix: String? {
        switch self {
        case .alert, .background: ""
        case .voip: ".voip"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        // The topic is in the subject of the MDM certificate.
        case .mdm: nil
        case .location: ".location-query"
        case .liveactivity: ".push-type.liveactivity"
        case .pushtotalk: ".voip-ptt"
        case .widgets: ".push-type.widgets"
        case .controls: ".push-type.controls"
        case .accessory: ".push-type.accessory"
        }
    }

    /// Bytes of the largest payload to a device.
    package var payloadLimit: Int { self == .voip ? 5120 : 4096 }

    /// Bytes of the largest payload to a channel.
    package static let channelPayloadLimit = 5120

    /// 10: at once; 5: when it suits the device's power; 1: never wakes it.
    package var priorities: Set<Int> { self == .background ? [1, 5] : [1, 5, 10] }
}

extension PushContent {
    /// The topic; nil for mdm without one.
    ///
    /// A request to a channel carries no topic; this is the one that its pauses are kept under.
    package func effectiveTopic(bundleID: String) -> String? {
        if let topic { return topic }
        return pushType.topicSuffix.map { bundleID + $0 }
    }
}
