// The certificate of a sender that has no token: what it says in Apple's extensions, and what follows for its requests.
//
//     1.2.840.113635.100.6.3.1 sandbox · .2 production · .6 topics: SEQUENCE { UTF8String topic, SEQUENCE { UTF8String kind } … }
//     1.2.840.113635.100.6.3.4 topics too, in certificates that have no .6; of neither, the subject's UID is the topic

import TLS

/// What a client certificate allows.
package struct ClientCertificate: Equatable, Sendable {
    package var topics: [String]
    package var environments: Set<SimulatedEnvironment>
    /// The first 16 hexadecimal digits of its SHA-256: tells certificates apart in the journal.
    package private(set) var fingerprint = ""

    package init(topics: [String], environments: Set<SimulatedEnvironment>) {
        self.topics = topics
        self.environments = environments
    }

    private static let sandbox = "1.2.840.113635.100.6.3.1"
    private static let production = "1.2.840.113635.100.6.3.2"
    private static let topicList = "1.2.840.113635.100.6.3.6"
    private static let olderTopicList = "1.2.840.113635.100.6.3.4"

    /// Reads a certificate that TLS has verified; nil when it is none.
    package init?(der: [UInt8]) {
        let oids = [Self.sandbox, Self.production, Self.topicList, Self.olderTopicList]
        guard let (facts, extensions) = CertificateFacts.read(der, extensions: oids) else { return nil }
        var environments: Set<SimulatedEnvironment> = []
        if extensions[Self.sandbox] != nil { environments.insert(.sandbox) }
        if extensions[Self.production] != nil { environments.insert(.production) }
        let listed = (extensions[Self.topicList] ?? extensions[Self.olderTopicList]).map(Self.topics(_:)) ?? []
        self.init(
            topics: listed.isEmpty ? [facts.userID].compactMap(\.self) : listed,
            environments: environments.isEmpty ? [.production, .sandbox] : environments)
        fingerprint = String(facts.fingerprint.prefix(16))
    }

    /// The topic of a request that names none: that of the app, where there is but one.
    var defaultTopic: String? { topics.count == 1 ? topics.first : nil }

    /// The topics of an app that a certificate can list: its own, and those of all push types that do not need a token.
    ///
    /// Those of MDM are named after a certificate of another kind. Whether Apple lists the newer ones, nobody could verify; what a
    /// certificate does not list cannot be sent with it, so one for the strict case is made by `--issue name=…,topics=…`.
    static func topics(ofApp bundleID: String) -> [String] {
        [bundleID]
            + PushKind.allCases.filter { !$0.topicSuffix.isEmpty && $0 != .location }.map { bundleID + $0.topicSuffix }
    }

    /// What Apple's authority would write into a certificate.
    static func extensions(
        topics: [String], environments: Set<SimulatedEnvironment>
    ) -> [(oid: String, der: [UInt8])] {
        let null: [UInt8] = [0x05, 0x00]
        var found: [(oid: String, der: [UInt8])] = []
        if environments.contains(.sandbox) { found.append((sandbox, null)) }
        if environments.contains(.production) { found.append((production, null)) }
        let list = topics.flatMap { topic in
            let kind = ["voip", "complication"].first { topic.hasSuffix("." + $0) } ?? "app"
            return text(topic) + element(0x30, text(kind))
        }
        found.append((topicList, element(0x30, list)))
        return found
    }

    private static func text(_ text: String) -> [UInt8] { element(0x0c, Array(text.utf8)) }

    private static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
        let count = contents.count
        let length: [UInt8] =
            switch count {
            case ..<0x80: [UInt8(count)]
            case ..<0x100: [0x81, UInt8(count)]
            default: [0x82, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
            }
        return [tag] + length + contents
    }

    /// The texts on the first level; what each is for stands one level down.
    private static func topics(_ der: [UInt8]) -> [String] {
        var found: [String] = []
        guard let outer = read(der, 0), outer.tag == 0x30 else { return [] }
        var place = outer.contents.lowerBound
        while place < outer.contents.upperBound {
            guard let next = read(der, place) else { return [] }
            if next.tag == 0x0c { found.append(String(decoding: der[next.contents], as: UTF8.self)) }
            place = next.contents.upperBound
        }
        return found
    }

    private static func read(_ der: [UInt8], _ place: Int) -> (tag: UInt8, contents: Range<Int>)? {
        guard place + 2 <= der.count else { return nil }
        var start = place + 2
        var length = Int(der[place + 1])
        if length > 0x7f {
            let digits = length - 0x80
            guard digits == 1 || digits == 2, start + digits <= der.count else { return nil }
            length = der[start..<(start + digits)].reduce(0) { $0 * 256 + Int($1) }
            start += digits
        }
        guard start + length <= der.count else { return nil }
        return (der[place], start..<(start + length))
    }
}
