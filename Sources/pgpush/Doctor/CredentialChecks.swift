// What an app's key or certificate is good for, and how long a certificate still is.

import APNs
import PushModel
import PushStore

/// Looks at the credentials of one app.
struct CredentialChecks {
    let name: String
    let credentials: APNsCredentials
    /// Unix seconds.
    let now: Int64

    /// One check for each credential, and one for an environment that has none.
    var all: [Check] {
        switch (credentials.production, credentials.sandbox) {
        case (nil, nil): [.fail(name, "no credential for either environment", remedy: nil, .configuration)]
        case (let production?, nil): [check(production, "production only"), missing(.sandbox)]
        case (nil, let sandbox?): [check(sandbox, "the sandbox only"), missing(.production)]
        case (let production?, let sandbox?):
            if production.isSame(as: sandbox) {
                [check(production, nil)]
            } else {
                [check(production, "production"), check(sandbox, "the sandbox")]
            }
        }
    }

    private func missing(_ environment: PushEnvironment) -> Check {
        .ok(name, "devices of \(environment.rawValue) wait: there is no credential for it")
    }

    private func check(_ credential: APNsCredential, _ place: String?) -> Check {
        let suffix = place.map { ", for \($0)" } ?? ""
        let text = "\(credential.summary) for \(credentials.bundleID)\(suffix)"
        guard case .certificate(let certificate) = credential else { return .ok(name, text) }
        let topics = certificate.topics.isEmpty ? "" : "; topics \(certificate.topics.joined(separator: ", "))"
        let days = certificate.daysLeft(at: now)
        let remedy = "make a new one on Apple's developer site and put it in its place"
        if now < certificate.notBefore {
            return .fail(
                name, "\(text) is not valid yet\(topics)", remedy: "check the clock of this machine", .configuration)
        }
        if days < 0 {
            return .fail(name, "\(text) has expired \(-days) days ago\(topics)", remedy: remedy, .configuration)
        }
        if days < APNsCertificate.daysOfNotice {
            return .warn(name, "\(text) expires in \(days) days\(topics)", remedy: remedy)
        }
        return .ok(name, "\(text), valid for \(days) days\(topics)")
    }
}
