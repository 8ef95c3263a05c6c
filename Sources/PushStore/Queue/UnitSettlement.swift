// What became of a leased unit: the values that a settle writes back, free of SQL and of the wire.

package import PushModel
package import Reactor

/// One device whose answer was not 200: a row of the ledger.
package struct DeviceFailure: Sendable {
    /// `devices.id`, minus the position, or 0.
    package let device: Int64
    /// The token as it was sent, lower-case hex.
    package let token: String
    /// Where it was sent.
    package let environment: PushEnvironment
    /// HTTP status; 0 when there was no answer.
    package let status: Int
    /// The reason as Apple sent it, or what happened instead of an answer.
    package let reason: String
    /// False when this device will be tried again.
    package let isFinal: Bool
    /// When the answer came.
    package let time: MonotonicTime

    /// Records one answer.
    package init(
        device: Int64, token: String, environment: PushEnvironment, status: Int, reason: String, isFinal: Bool,
        time: MonotonicTime
    ) {
        self.device = device
        self.token = token
        self.environment = environment
        self.status = status
        self.reason = reason
        self.isFinal = isFinal
        self.time = time
    }
}

/// A token that Apple has declared dead.
package struct Retirement: Sendable {
    /// `devices.id`, or minus the position in the list of tokens, by which the device is found if it is registered.
    package let device: Int64
    /// The reason as Apple sent it.
    package let reason: String
    /// Milliseconds since 1970 when Apple saw it dead; nil: `sentAt` decides.
    ///
    /// A later registration keeps the device.
    package let asOf: Int64?
    /// Not later than the request was sent: whoever registered since has a living token.
    package let sentAt: MonotonicTime

    /// Records one dead token.
    package init(device: Int64, reason: String, asOf: Int64?, sentAt: MonotonicTime) {
        self.device = device
        self.reason = reason
        self.asOf = asOf
        self.sentAt = sentAt
    }
}

/// Devices of a unit that go on in a batch of their own.
package struct Requeue: Sendable {
    /// Waits for its time, or for the scope that is paused.
    package enum State: String, Sendable {
        /// Can be claimed once the delay has passed.
        case ready
        /// Cannot be claimed until the scope resumes.
        case parked
    }

    /// Whether the new batch waits for its time or for its scope.
    package let state: State
    /// Whether an attempt is charged.
    package let isCharged: Bool
    /// Not before this has passed.
    package var delay: Duration
    /// The scope that a parked batch waits for.
    package let environment: PushEnvironment?
    /// The scope that a parked batch waits for.
    package let topic: String?
    /// `devices.id` or minus the position, in ascending order of sending.
    package var devices: [Int64]

    /// Describes a new batch.
    package init(
        state: State, isCharged: Bool, delay: Duration, environment: PushEnvironment? = nil, topic: String? = nil,
        devices: [Int64] = []
    ) {
        self.state = state
        self.isCharged = isCharged
        self.delay = delay
        self.environment = environment
        self.topic = topic
        self.devices = devices
    }

    /// Whether devices of both can go on in one batch, which waits as long as the more patient of them.
    package func goesWith(_ other: Requeue) -> Bool {
        state == other.state && isCharged == other.isCharged && environment == other.environment
            && topic == other.topic && RetryPolicy.lot(of: delay) == RetryPolicy.lot(of: other.delay)
    }
}

/// A scope that must not be sent to for the time being; two pauses of one scope are the same, whatever their reason.
package struct ScopePause: Hashable, Sendable {
    /// The app's name.
    package let app: String
    /// Nil: both environments.
    package let environment: PushEnvironment?
    /// Nil: all topics.
    package let topic: String?
    /// Why, as Apple said it.
    package let reason: String

    /// Describes a pause.
    package init(app: String, environment: PushEnvironment?, topic: String?, reason: String) {
        self.app = app
        self.environment = environment
        self.topic = topic
        self.reason = reason
    }

    package static func == (a: Self, b: Self) -> Bool {
        a.app == b.app && a.environment == b.environment && a.topic == b.topic
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(app)
        hasher.combine(environment)
        hasher.combine(topic)
    }
}

/// What became of one unit.
package struct UnitSettlement: Sendable {
    /// Which unit, under which claim.
    package let key: UnitKey
    /// False for a checkpoint in the middle of a batch.
    package var isDone = true
    /// Of a checkpoint: everything up to this device is counted.
    package var doneThrough: Int64?
    /// Devices that Apple accepted.
    package var accepted: Int32 = 0
    /// Devices that were refused for good.
    package var rejected: Int32 = 0
    /// Devices of which nobody can say.
    package var unknown: Int32 = 0
    /// When the last acceptance came.
    package var lastAcceptance: MonotonicTime?
    /// The leading reason of what was not accepted.
    package var error: String?
    /// Rows for the ledger.
    package var failures: [DeviceFailure] = []
    /// Tokens that are dead.
    package var retirements: [Retirement] = []
    /// Tokens that look dead.
    package var proposals: [Proposal] = []
    /// What the answers say about tokens; nil: nothing, since there are none, or they were chosen to try something out.
    package var evidence: TokenEvidence?
    /// Devices that go on in batches of their own.
    package var requeues: [Requeue] = []

    /// Begins with nothing counted.
    package init(key: UnitKey) { self.key = key }
}

/// What the database made of the settlement of one unit.
package struct SettledUnit: Sendable {
    /// Which unit.
    package let key: UnitKey
    /// Whether it was written.
    package let result: SettleResult
    /// The notification's status after it.
    package let status: NotificationStatus
}

/// Whether a settlement was written.
package enum SettleResult: String, Sendable {
    /// Written by this call.
    case applied
    /// Written before: the answer to the first call was lost.
    case already
    /// The unit belongs to somebody else by now; only facts about devices were written.
    case fenced
}
