// The kinds of push there are; spelled as in the database and in the `apns-push-type` header.

/// What a push is for; the header rules of each stand in the APNs module.
package enum PushType: String, Sendable, Hashable, CaseIterable {
    case alert
    case background
    case voip
    case complication
    case fileprovider
    case mdm
    case location
    case liveactivity
    case pushtotalk
    case widgets
    case controls
    case accessory
}
