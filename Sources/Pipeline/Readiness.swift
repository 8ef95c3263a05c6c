// Whether a worker can do its work, for /readyz: pure. It says so for a rollout that must not go on with a wrong key, and for people;
// a worker that is not ready goes on trying all the same.

import PushModel
import PushStore

/// What the process knows of one credential.
struct CredentialState: Sendable, Equatable {
    let app: String
    let environment: PushEnvironment
    /// From when until when a certificate is valid, in Unix seconds; nil for a key.
    var validity: ClosedRange<Int64>?
    /// False for a key that cannot sign.
    var isSigned = true
}

/// The rule.
struct Readiness: Sendable {
    var hasStarted = false
    var isStopping = false
    var databaseAnswers = false
    var credentials: [CredentialState] = []
    var pauses: [PauseFigure] = []

    /// What keeps the worker from being ready, a line each; empty when it is.
    ///
    /// `now` is in Unix seconds by the database's clock.
    func problems(now: Int64) -> [String] {
        if isStopping { return ["stopping"] }
        guard hasStarted else { return ["starting: the database has not been reached yet"] }
        var problems = databaseAnswers ? [] : ["database: does not answer"]
        for credential in credentials {
            guard let problem = problem(of: credential, now) else { continue }
            problems.append("credential of \(credential.app), \(credential.environment.rawValue): \(problem)")
        }
        return problems
    }

    private func problem(of credential: CredentialState, _ now: Int64) -> String? {
        if let validity = credential.validity {
            if now >= validity.upperBound { return "the certificate has expired" }
            if now < validity.lowerBound { return "the certificate is not valid yet" }
        }
        if !credential.isSigned { return "no provider token can be signed" }
        let refusal = pauses.first { $0.isRefusal(of: credential) }
        return refusal.map { "refused (\(ReasonLabel.pause($0)))" }
    }
}

extension PauseFigure {
    /// Whether it says that Apple does not take the credential, or not for that environment.
    ///
    /// A person's pause says nothing about it, and what is wrong with a topic or with tokens names the topic.
    fileprivate func isRefusal(of credential: CredentialState) -> Bool {
        isAutomatic && scope.topic == nil && scope.app == credential.app
            && [nil, credential.environment].contains(scope.environment) && !ReasonLabel.isMissing(self)
    }
}
