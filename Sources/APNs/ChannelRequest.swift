// The requests of channel management (iOS 18's broadcast channels), as values:
//
//     create  POST   /1/apps/<bundle id>/channels      {"message-storage-policy":0|1,"push-type":"LiveActivity"}
//     read    GET    /1/apps/<bundle id>/channels      apns-channel-id
//     delete  DELETE /1/apps/<bundle id>/channels      apns-channel-id
//     list    GET    /1/apps/<bundle id>/all-channels
//
// Each carries an `apns-request-id`, a UUID of ours that Apple repeats in its answer and asks for when something is to be looked into.

package import HTTP2

/// What Apple keeps of what was sent to a channel; settled when the channel is made.
package enum ChannelStorage: Int, Sendable, Hashable, CaseIterable {
    /// Nothing; more may be sent. Takes only pushes with expiration 0.
    case none = 0
    /// The latest push, for devices that are offline.
    case latest = 1

    /// The word for it on the command line.
    package var word: String {
        switch self {
        case .none: "none"
        case .latest: "latest"
        }
    }
}

/// Something to ask of channel management.
package enum ChannelRequest: Sendable, Equatable {
    case create(ChannelStorage)
    case read(id: String)
    case delete(id: String)
    case list

    /// Name of the field that carries a request's own id.
    package static let idField = "apns-request-id"
    /// Response fields that a pool has to keep.
    package static let responseFields = ["apns-channel-id", "apns-request-id", "retry-after"]
    /// Ten thousand channels in a list are some hundred kilobytes.
    package static let longestAnswer = 4 << 20

    package var method: String {
        switch self {
        case .create: "POST"
        case .read, .list: "GET"
        case .delete: "DELETE"
        }
    }

    /// The path for an app; nil when the bundle id cannot stand in one.
    package func path(bundleID: String) -> String? {
        switch self {
        case .list: APNsPath.allChannels(bundleID: bundleID)
        case .create, .read, .delete: APNsPath.channels(bundleID: bundleID)
        }
    }

    /// The body; empty but for `create`.
    package var body: [UInt8] {
        guard case .create(let storage) = self else { return [] }
        return Array("{\"message-storage-policy\":\(storage.rawValue),\"push-type\":\"LiveActivity\"}".utf8)
    }

    /// Method, fields and body.
    ///
    /// - Throws: `content` when the channel's id cannot stand in a header.
    package func head() throws(APNsError) -> HTTP2RequestHead {
        HTTP2RequestHead(method: method, fields: try fields(), body: body)
    }

    func fields() throws(APNsError) -> [HTTP2Field] {
        switch self {
        case .create: [HTTP2Field("content-type", "application/json")]
        case .read(let id), .delete(let id): [HTTP2Field("apns-channel-id", try ChannelRequest.checked(id))]
        case .list: []
        }
    }

    /// The id of a channel: base64, of a length that Apple does not name.
    static func checked(_ id: String) throws(APNsError) -> String {
        let isSound =
            (1...512).contains(id.utf8.count)
            && id.utf8.allSatisfy { SettingText.isLetterOrDigit($0) || "+/=-_".utf8.contains($0) }
        guard isSound else {
            throw APNsError(
                .content, "channel id",
                "\(SettingText.shown(id)) is none: it is the base64 text that creating the channel returned")
        }
        return id
    }
}
