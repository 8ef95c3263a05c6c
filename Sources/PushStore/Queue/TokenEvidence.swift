// What answers say about tokens. One refused token may be dead; a wave of them means a wrong environment, key or topic. So such answers are
// only proposals, and the database weighs them against all answers of the same app, environment and topic, of all
// replicas, before anything is believed.

package import PushModel
package import Reactor

/// A token that looks dead, as Apple's answer to a mistake in the configuration would look.
package struct Proposal: Sendable {
    /// `devices.id`, or minus the position in the list of tokens.
    package let device: Int64
    /// Where it was sent.
    package let environment: PushEnvironment
    /// The reason as Apple sent it.
    package let reason: String
    /// Not later than the request was sent: whoever registered since has a living token.
    package let sentAt: MonotonicTime

    /// Records one such answer.
    package init(device: Int64, environment: PushEnvironment, reason: String, sentAt: MonotonicTime) {
        self.device = device
        self.environment = environment
        self.reason = reason
        self.sentAt = sentAt
    }
}

/// What the answers to a unit say about the tokens of its scopes: one count for each environment.
///
/// Held inline, since every settlement has one.
package struct TokenEvidence: Sendable {
    /// Answers of one environment.
    package struct Answers: Sendable, Equatable {
        /// Devices that Apple accepted.
        package var accepted: Int32 = 0
        /// Devices that were answered for good: accepted, or refused.
        package var answered: Int32 = 0

        /// Nothing yet.
        package init() {}
    }

    /// The app's name.
    package let app: String
    /// The topic that the pushes named.
    package let topic: String
    private var production = Answers()
    private var sandbox = Answers()

    /// Begins with nothing.
    package init(app: String, topic: String) {
        self.app = app
        self.topic = topic
    }

    /// The answers of one environment.
    package subscript(environment: PushEnvironment) -> Answers {
        get { environment == .production ? production : sandbox }
        set { if environment == .production { production = newValue } else { sandbox = newValue } }
    }
}
