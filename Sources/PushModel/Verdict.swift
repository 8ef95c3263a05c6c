// What follows from the end of one request, for everything that is concerned: the request itself, the device, the notification,
// the connection, and the people who run this. Plain values; `AnswerRules` decides them.

/// An answer as it came from Apple.
package struct PushAnswer: Sendable, Equatable {
    /// HTTP status.
    package var status: Int
    /// As Apple sent it, cleaned; empty when there was none that could be read.
    package var reason: String
    /// Milliseconds since 1970, only with 410: since when the token is known to be dead.
    package var timestamp: Int64?
    package var retryAfter: Duration?

    package init(status: Int, reason: String = "", timestamp: Int64? = nil, retryAfter: Duration? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
        self.retryAfter = retryAfter
    }
}

/// What follows from an answer.
package struct Verdict: Sendable, Equatable {
    package var request: RequestFate
    package var device: DeviceFate
    package var notification: NotificationFate
    package var connection: ConnectionFate
    package var concern: Concern

    package init(
        _ request: RequestFate, device: DeviceFate = .keep, notification: NotificationFate = .carryOn,
        connection: ConnectionFate = .keep, concern: Concern = .none
    ) {
        self.request = request
        self.device = device
        self.notification = notification
        self.connection = connection
        self.concern = concern
    }

    /// Whether the gateway itself has failed: it could not answer, or said so.
    ///
    /// One that says goodbye (`drain`) has not.
    package var isGatewayFault: Bool {
        switch request {
        case .unknown: true
        case .retryLater(.server): connection == .replace
        case .accepted, .rejected, .retryLater, .resend, .hold: false
        }
    }

    /// Apple took it.
    package static let accepted = Verdict(.accepted)
    /// It certainly never reached Apple's logic: refused stream, above the last stream id, never written.
    package static let notProcessed = Verdict(.resend)
    /// It was written and no answer came.
    package static let unanswered = Verdict(.unknown)
}

/// What becomes of a request.
package enum RequestFate: Sendable, Hashable {
    case accepted
    /// For good; goes into the ledger.
    case rejected
    /// Again after a wait, charged as an attempt; how long, `RetryPolicy` says.
    case retryLater(RetryKind)
    /// Again at once, on another connection where the connection's fate says so; charges no attempt.
    case resend
    /// Perhaps accepted: repeated with the same ids, or booked as unknown when the notification asks for at most once.
    case unknown
    /// Kept, uncharged, in a parked batch until the scope resumes.
    case hold(PauseScope)
}

/// Why a request is tried again; each has waits of its own.
package enum RetryKind: Sendable, Hashable, CaseIterable {
    /// This device gets too much at once.
    case device
    /// Apple's side failed.
    case server
    /// Sending as a whole is too fast.
    case throttled
    /// No answer came (`RequestFate.unknown` of a notification that is sent at least once).
    case unanswered
}

/// What is not sent any more until somebody has put it right.
package enum PauseScope: Sendable, Hashable, CaseIterable {
    /// The app's credential as used in this environment. The other environment finds out by itself: a fault at one of Apple's
    /// services proves nothing about the other.
    case credential
    /// The credential, or this whole service, is not for this environment.
    case environment
    /// One topic of the app in this environment.
    case topic

    /// Whether the pause names the topic; without, it holds for all.
    package var namesTopic: Bool { self == .topic }
}

/// What becomes of a device.
package enum DeviceFate: Sendable, Hashable {
    case keep
    /// Dead if it was registered before this time (milliseconds since 1970); nil means before the time of sending.
    case deactivate(asOf: Int64?)
    /// Looks dead, but a mistake in the configuration looks the same: applied only when the window of its scope closes calm.
    case propose
}

/// What becomes of the rest of the notification.
package enum NotificationFate: Sendable, Hashable {
    case carryOn
    /// Every other device would get the same answer: the content or the channel is at fault.
    case hopeless
}

/// What becomes of the connection that brought the answer.
package enum ConnectionFate: Sendable, Hashable {
    case keep
    /// Takes no new request, finishes those it has; nothing is wrong with it.
    case drain
    /// Unfit: takes no new request, another one is opened.
    case replace
    /// Unfit until there is a newer provider token: one is made (`renewAfterExpired`), then as `replace`.
    case retoken
    /// Its provider token was changed too often: as `replace`, with the present token, and none is made for 20 minutes.
    case freezeToken
}

/// Who should hear of it.
package enum Concern: Sendable, Hashable {
    case none
    /// Something a person has to put right: key, certificate, topic, host, capability.
    case configuration
    /// A mistake in this program or in what it let pass.
    case defect
}
