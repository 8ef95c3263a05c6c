// What Apple checks in a body (little: it must be JSON and not too long) and what it does not check but silently
// never delivers. The second kind is reported as warnings in the journal, so that a sender's tests can insist on
// their absence; in strict mode it is refused.

/// The outcome of looking at a body.
package struct PayloadFinding: Equatable, Sendable {
    /// Why Apple refuses it.
    package var rejection: Rejection?
    /// What is odd about it, in words for people.
    package var warnings: [String] = []

    /// Makes a finding; without a refusal, a good one.
    package init(rejection: Rejection? = nil) { self.rejection = rejection }
}

/// The rules for the body of a device push.
package enum PayloadRules {
    /// Checks the body of a push of this kind; `limit` is its longest body in bytes where that is not the kind's own.
    package static func check(_ body: [UInt8], kind: PushKind, limit: Int? = nil) -> PayloadFinding {
        if body.isEmpty { return PayloadFinding(rejection: .payloadEmpty) }
        if body.count > limit ?? kind.payloadLimit { return PayloadFinding(rejection: .payloadTooLarge) }
        // Apple names no reason for a body that is not JSON; senders report this one.
        guard let payload = JSONText(body), let members = payload.members else {
            return PayloadFinding(rejection: .payloadEmpty)
        }
        var finding = PayloadFinding()
        finding.warnings = repeatedKeys(members, in: "the payload")
        if let aps = payload["aps"] { finding.warnings += lint(aps, kind) }
        finding.warnings += missing(payload, kind)
        return finding
    }

    // MARK: What must be there

    private static func missing(_ payload: JSONText, _ kind: PushKind) -> [String] {
        if kind == .mdm {
            var warnings = payload["mdm"]?.text == nil ? ["an mdm push needs a text in mdm"] : []
            if payload["aps"] != nil { warnings.append("an mdm push has no aps") }
            return warnings
        }
        guard let aps = payload["aps"] else {
            // A wallet pass is updated by an empty object.
            return kind == .alert && payload.members?.isEmpty == false ? ["aps is missing"] : []
        }
        guard aps.isObject else { return ["aps is not an object"] }
        switch kind {
        case .alert:
            return aps["alert"] ?? aps["badge"] ?? aps["sound"] == nil ? ["nothing to show, play or count"] : []
        case .background: return background(aps)
        case .liveactivity: return liveActivity(aps)
        case .widgets, .controls: return aps["content-changed"] == .bool(true) ? [] : ["content-changed is not true"]
        case .accessory: return accessory(aps)
        default: return []
        }
    }

    private static func background(_ aps: JSONText) -> [String] {
        var warnings = aps["content-available"]?.whole == 1 ? [] : ["content-available is not 1"]
        for member in aps.members ?? [] where member.key != "content-available" {
            warnings.append("a background push carries aps.\(member.key)")
        }
        return warnings
    }

    private static func liveActivity(_ aps: JSONText) -> [String] {
        var warnings: [String] = []
        if aps["timestamp"]?.whole == nil { warnings.append("timestamp is not a whole number") }
        if aps["event"]?.text != "end", aps["content-state"]?.isObject != true {
            warnings.append("content-state is not an object")
        }
        switch aps["event"]?.text {
        case "update", "end": break
        case "start":
            if aps["attributes-type"]?.text == nil { warnings.append("attributes-type is missing") }
            if aps["attributes"]?.isObject != true { warnings.append("attributes is not an object") }
            if aps["alert"] == nil { warnings.append("a start needs an alert") }
        default: warnings.append("event is not start, update or end")
        }
        return warnings
    }

    private static func accessory(_ aps: JSONText) -> [String] {
        ["encryptedData", "sessionIdentifier", "keyID", "messageIndex"]
            .filter { aps[$0] == nil }.map { "aps.\($0) is missing" }
    }

    // MARK: What must have the right form

    private static func lint(_ aps: JSONText, _ kind: PushKind) -> [String] {
        guard let members = aps.members else { return [] }
        var warnings = repeatedKeys(members, in: "aps")
        for member in members {
            if let complaint = complaint(about: member, kind) { warnings.append("aps.\(member.key) \(complaint)") }
        }
        if aps["mutable-content"]?.whole == 1, aps["alert"] == nil {
            warnings.append("aps.mutable-content without an alert")
        }
        return warnings
    }

    private static func complaint(about member: JSONText.Member, _ kind: PushKind) -> String? {
        let value = member.value
        switch member.key {
        case "alert": return value.text != nil || value.isObject ? nil : "is neither text nor object"
        case "badge": return (value.whole ?? -1) >= 0 ? nil : "is not a whole number"
        case "sound": return value.text != nil || value.isObject ? nil : "is neither text nor object"
        case "content-available", "mutable-content": return value.whole == 1 || value.whole == 0 ? nil : "is not 1"
        case "thread-id", "category", "target-content-id", "filter-criteria":
            return value.text != nil ? nil : "is not a text"
        case "interruption-level":
            return ["passive", "active", "time-sensitive", "critical"].contains(value.text ?? "") ? nil : "is unknown"
        case "relevance-score": return relevance(value, kind)
        case "timestamp", "stale-date", "dismissal-date": return value.number != nil ? nil : "is not a number"
        default: return known.contains(member.key) ? nil : "is unknown"
        }
    }

    private static func relevance(_ value: JSONText, _ kind: PushKind) -> String? {
        guard let score = value.number else { return "is not a number" }
        return kind == .liveactivity || (0...1).contains(score) ? nil : "is not between 0 and 1"
    }

    /// Further keys that appear in Apple's documentation.
    private static let known: Set<String> = [
        "event", "content-state", "attributes-type", "attributes", "input-push-token", "input-push-channel",
        "content-changed", "url-args", "encryptedData", "sessionIdentifier", "keyID", "messageIndex",
    ]

    private static func repeatedKeys(_ members: [JSONText.Member], in place: String) -> [String] {
        var seen: Set<String> = []
        return members.filter { !seen.insert($0.key).inserted }.map { "\($0.key) stands twice in \(place)" }
    }
}
