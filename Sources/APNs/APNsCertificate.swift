// The certificate of certificate authentication. Apple writes into it what it is good for, in extensions of its own; reading them
// at the start finds at once what would otherwise be found by a refused push.
//
//     1.2.840.113635.100.6.3.1  the sandbox        1.2.840.113635.100.6.3.6  the topics: a sequence of names, each with what it
//     1.2.840.113635.100.6.3.2  production         1.2.840.113635.100.6.3.4  is for; in older certificates the second
//
// Certificates for one topic have no list: theirs is the subject's UID.

package import PushModel
package import TLS

/// A client certificate with what it is good for.
package struct APNsCertificate: Sendable {
    /// With fewer days left it is time to take care of the next one.
    package static let daysOfNotice: Int64 = 30

    package let identity: TLSIdentity
    /// The topics it may send to; empty when it does not say.
    package let topics: [String]
    /// Both when it does not say.
    package let environments: Set<PushEnvironment>
    /// Unix seconds.
    package let notBefore: Int64
    package let notAfter: Int64
    /// The common name, without characters that a terminal would act on.
    package let name: String
    /// The first 16 hexadecimal digits of SHA-256 over the certificate.
    package let fingerprint: String

    /// Reads what the certificate says of itself.
    package init(_ identity: TLSIdentity) {
        let facts = identity.facts
        self.identity = identity
        notBefore = facts.notBefore
        notAfter = facts.notAfter
        name = CleanText.cleaned(Array(facts.commonName.utf8))
        fingerprint = String(facts.fingerprint.prefix(16))
        topics = Self.topics(identity, facts)
        environments = Self.environments(identity)
    }

    /// How many whole days are left at a time (Unix seconds); negative when it has expired.
    package func daysLeft(at now: Int64) -> Int64 {
        let left = notAfter - now
        return left >= 0 ? left / 86_400 : (left - 86_399) / 86_400
    }

    private static let apple = "1.2.840.113635.100.6.3."

    private static func topics(_ identity: TLSIdentity, _ facts: CertificateFacts) -> [String] {
        for oid in [apple + "6", apple + "4"] {
            guard let value = identity.extensionValue(oid) else { continue }
            let names = names(in: value)
            if !names.isEmpty { return names }
        }
        return facts.userID.map { [CleanText.cleaned(Array($0.utf8))] } ?? []
    }

    private static func environments(_ identity: TLSIdentity) -> Set<PushEnvironment> {
        var found: Set<PushEnvironment> = []
        if identity.extensionValue(apple + "1") != nil { found.insert(.sandbox) }
        if identity.extensionValue(apple + "2") != nil { found.insert(.production) }
        return found.isEmpty ? Set(PushEnvironment.allCases) : found
    }

    /// The texts of a DER sequence of texts and of sequences that say what each is for; none when it is anything else.
    static func names(in der: [UInt8]) -> [String] {
        guard let (tag, contents) = element(der[...]), tag == 0x30 else { return [] }
        var names: [String] = []
        var rest = contents
        while !rest.isEmpty {
            guard let (tag, value) = element(rest) else { return [] }
            // UTF8String, PrintableString, IA5String
            if tag == 0x0c || tag == 0x13 || tag == 0x16 { names.append(CleanText.cleaned(Array(value))) }
            rest = rest[value.endIndex...]
        }
        return names
    }

    /// The first element: its tag and its contents; nil when it is cut off, or longer than a certificate can be.
    private static func element(_ der: ArraySlice<UInt8>) -> (tag: UInt8, contents: ArraySlice<UInt8>)? {
        guard der.count >= 2, let tag = der.first else { return nil }
        var bytes = der.dropFirst()
        var length = Int(bytes.removeFirst())
        if length >= 0x80 {
            let digits = length & 0x7f
            guard (1...2).contains(digits), bytes.count >= digits else { return nil }
            length = bytes.prefix(digits).reduce(0) { $0 << 8 | Int($1) }
            bytes = bytes.dropFirst(digits)
        }
        guard bytes.count >= length else { return nil }
        return (tag, bytes.prefix(length))
    }
}
