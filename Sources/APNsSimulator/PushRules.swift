// The rules for one push, apart from its credentials: pure functions from a request to a refusal. Apple does
// not publish the order of its checks; this one goes from the outside in (method, path, headers, token, body),
// with the provider token between the path and the headers, which is what senders have seen.

/// The rules that hold for every request of a simulator.
package struct PushRules: Sendable {
    /// Bundle ids that pushes may go to.
    package var bundleIDs: Set<String>
    /// Turns what Apple accepts and then may not deliver into refusals.
    package var isStrict: Bool
    /// The shortest device token, in hexadecimal digits.
    ///
    /// Apple's have had 64; Live Activity tokens are longer.
    package var minimumTokenLength = 64
    /// The longest device token, in hexadecimal digits.
    package var maximumTokenLength = 512

    /// Makes the rules.
    package init(bundleIDs: Set<String>, isStrict: Bool = false) {
        self.bundleIDs = bundleIDs
        self.isStrict = isStrict
    }

    // MARK: Before the credentials

    /// Checks method, path and repeated headers of a request.
    package func checkShape(_ request: IncomingRequest) -> Rejection? {
        if let methods = ChannelRules.methods(of: request.route) {
            guard methods.contains(request.method) else { return .methodNotAllowed }
            return request.duplicates.isEmpty ? nil : .duplicateHeaders
        }
        guard request.method == "POST" else { return .methodNotAllowed }
        guard case .device(let token) = request.route else { return .badPath }
        guard request.duplicates.isEmpty else { return .duplicateHeaders }
        return token.isEmpty ? .missingDeviceToken : nil
    }

    // MARK: After the credentials

    /// Checks the headers of a device push; `allowedTopics` narrows the bundle ids to those of a key, `certificate` the topics.
    package func checkHeaders(
        _ request: IncomingRequest, allowedTopics: Set<String>? = nil, certificate: ClientCertificate? = nil
    ) -> Rejection? {
        if let id = request.apnsID, !PushRules.isUUID(id) { return .badMessageID }
        if let value = request.expiration, !PushRules.isExpiration(value) { return .badExpirationDate }
        guard let kind = PushRules.kind(of: request) else { return .invalidPushType }
        guard let priority = PushRules.priority(of: request), kind.allows(priority: priority) else {
            return .badPriority
        }
        if let id = request.collapseID, id.utf8.count > 64 { return .badCollapseID }
        if isStrict, !request.strangers.isEmpty { return .badRequestPayload }
        return checkTopic(request, kind, allowedTopics, certificate) ?? checkToken(request)
    }

    /// The push type; absent counts as an alert, which is what Apple does for all but watchOS.
    package static func kind(of request: IncomingRequest) -> PushKind? {
        guard let name = request.pushType else { return .alert }
        return PushKind(rawValue: name)
    }

    /// The priority, 10 when absent; nil when it is none of Apple's three.
    package static func priority(of request: IncomingRequest) -> Int? {
        switch request.priority {
        case nil, "10": 10
        case "5": 5
        case "1": 1
        default: nil
        }
    }

    /// Whether the text is a UUID in its canonical form, in either case.
    package static func isUUID(_ text: String) -> Bool {
        guard text.utf8.count == 36 else { return false }
        var place = 0
        for byte in text.utf8 {
            let isHyphen = place == 8 || place == 13 || place == 18 || place == 23
            guard isHyphen ? byte == UInt8(ascii: "-") : hexDigit(byte) != nil else { return false }
            place += 1
        }
        return true
    }

    /// Whether the text is a point in time in whole seconds, 0 included.
    package static func isExpiration(_ text: String) -> Bool {
        guard !text.isEmpty, text.utf8.allSatisfy(isDigit), let seconds = Int64(text) else { return false }
        // Beyond the year 9999 somebody has sent milliseconds.
        return seconds <= 253_402_300_799
    }

    // MARK: Topic and device token

    private func checkTopic(
        _ request: IncomingRequest, _ kind: PushKind, _ allowed: Set<String>?, _ certificate: ClientCertificate?
    ) -> Rejection? {
        guard let topic = request.topic ?? certificate?.defaultTopic, !topic.isEmpty else { return .missingTopic }
        guard PushRules.isTopic(topic) else { return .badTopic }
        // Location queries need a token, whatever the certificate says.
        if let certificate, kind == .location || !certificate.topics.contains(topic) { return .topicDisallowed }
        // The topic of device management is the UID of the vendor's certificate, not a bundle id.
        if kind == .mdm { return topic.hasPrefix("com.apple.mgmt.") ? nil : .topicDisallowed }
        guard let bundleID = bundle(ofTopic: topic) else { return .topicDisallowed }
        if let allowed, !allowed.contains(bundleID) { return .topicDisallowed }
        // The service exists but tokens of this push type are made for another topic.
        return topic == bundleID + kind.topicSuffix ? nil : .deviceTokenNotForTopic
    }

    private func bundle(ofTopic topic: String) -> String? {
        if bundleIDs.contains(topic) { return topic }
        for kind in PushKind.allCases where !kind.topicSuffix.isEmpty && topic.hasSuffix(kind.topicSuffix) {
            let bundleID = String(topic.dropLast(kind.topicSuffix.count))
            if bundleIDs.contains(bundleID) { return bundleID }
        }
        return nil
    }

    /// Whether the text has the form of a topic: letters, digits, dots, hyphens.
    package static func isTopic(_ text: String) -> Bool {
        text.utf8.count <= 255
            && text.utf8.allSatisfy { byte in
                isDigit(byte) || (0x61...0x7A).contains(byte | 0x20) || byte == 0x2E || byte == 0x2D
            }
    }

    private func checkToken(_ request: IncomingRequest) -> Rejection? {
        guard case .device(let token) = request.route else { return .badPath }
        let count = token.utf8.count
        guard count >= minimumTokenLength, count <= maximumTokenLength, count.isMultiple(of: 2),
            token.utf8.allSatisfy({ hexDigit($0) != nil })
        else { return .badDeviceToken }
        return nil
    }
}
