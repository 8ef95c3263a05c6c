// The headers and the body that all requests of one notification have in common. A head is built once and used for hundreds of
// devices and for unit after unit of a broadcast; only `:path` and `apns-id` differ.
//
// `apns-expiration` is always sent: 0 (one try, nothing kept) when the notification says so, else its `expires_at`, else 30 days
// from now, which is what Apple keeps things for anyway.

package import HTTP2
package import PushModel

/// Heads of one app's notifications, for one loop; keeps the latest few.
package final class APNsRequestHeads {
    static let defaultLifetime: Int64 = 30 * 86_400
    /// How long a head whose expiration counts from now is used.
    static let freshness: Int64 = 3600

    private struct Entry {
        let content: PushContent
        let head: HTTP2RequestHead
        let builtAt: Int64
    }

    private let bundleID: String
    private let capacity: Int
    private var entries: [Entry] = []
    private var oldest = 0

    package init(bundleID: String, capacity: Int = 8) {
        self.bundleID = bundleID
        self.capacity = max(capacity, 1)
    }

    /// The head of a notification; the same object as long as nothing in it changes.
    ///
    /// - Parameters:
    ///   - content: What is sent.
    ///   - now: Unix seconds by the database's clock.
    /// - Returns: The head.
    /// - Throws: `content`, naming the header, when it cannot be sent; no device is at fault.
    package func head(for content: PushContent, now: Int64) throws(APNsError) -> HTTP2RequestHead {
        // The content is compared, not the id alone: a row may be edited between two claims.
        let found = entries.firstIndex { $0.content.notificationID == content.notificationID && $0.content == content }
        if let found, isFresh(entries[found], now) { return entries[found].head }
        let fields = try APNsRequestHeads.fields(content, bundleID: bundleID, now: now)
        let entry = Entry(
            content: content, head: HTTP2RequestHead(fields: fields, body: content.payload), builtAt: now)
        keep(entry, at: found)
        return entry.head
    }

    private func isFresh(_ entry: Entry, _ now: Int64) -> Bool {
        entry.content.expiresAt != nil || !entry.content.storeIfOffline
            || (0..<APNsRequestHeads.freshness).contains(now &- entry.builtAt)
    }

    private func keep(_ entry: Entry, at found: Int?) {
        if let found {
            entries[found] = entry
        } else if entries.count < capacity {
            entries.append(entry)
        } else {
            entries[oldest] = entry
            oldest = (oldest + 1) % capacity
        }
    }

    /// The header fields of a notification; those that change with each are not indexed (RFC 7541).
    package static func fields(
        _ content: PushContent, bundleID: String, now: Int64
    ) throws(APNsError) -> [HTTP2Field] {
        try check(content)
        var fields = [HTTP2Field("apns-push-type", content.pushType.rawValue)]
        if let channelID = content.channelID {
            fields.append(HTTP2Field("apns-channel-id", try HeaderValue.check(channelID, "apns-channel-id")))
        } else {
            guard let topic = content.effectiveTopic(bundleID: bundleID) else {
                throw APNsError(.content, "apns-topic", "is not known: a push of type mdm needs a topic of its own")
            }
            fields.append(HTTP2Field("apns-topic", try HeaderValue.check(topic, "apns-topic")))
        }
        fields.append(HTTP2Field("apns-priority", String(content.priority)))
        fields.append(HTTP2Field("apns-expiration", String(expiration(content, now: now)), indexing: .none))
        if let collapseID = content.collapseID {
            guard collapseID.utf8.count <= HeaderValue.longestCollapseID else {
                throw APNsError(.content, "apns-collapse-id", "is longer than 64 bytes")
            }
            // The producer's own words, which Apple counts in bytes: they need not be English.
            let value = try HeaderValue.check(collapseID, "apns-collapse-id", unicode: true)
            fields.append(HTTP2Field("apns-collapse-id", value, indexing: .none))
        }
        return fields
    }

    private static func expiration(_ content: PushContent, now: Int64) -> Int64 {
        guard content.storeIfOffline else { return 0 }
        // 0 would mean something else, and beyond the year 9999 nobody would take it for seconds.
        return min(max(content.expiresAt ?? now &+ defaultLifetime, 1), 253_402_300_799)
    }

    private static func check(_ content: PushContent) throws(APNsError) {
        guard content.pushType.priorities.contains(content.priority) else {
            let type = content.pushType.rawValue
            throw APNsError(.content, "apns-priority", "\(content.priority) is not allowed for push type \(type)")
        }
        let limit = content.channelID == nil ? content.pushType.payloadLimit : PushType.channelPayloadLimit
        guard content.payload.count <= limit else {
            throw APNsError(.content, "payload", "has \(content.payload.count) bytes, more than \(limit)")
        }
        guard !content.payload.isEmpty else { throw APNsError(.content, "payload", "is empty") }
    }
}
