// What is known at the end of a scenario: the tables, their history, the simulator's journal, and what was done to the system.
// Plain values, so that the judge can be tested on doctored ones. All times are seconds since 1970 by this machine's clock.

import Foundation

/// A push: a notification to a device number (`devices.id`, or minus the position in a list of tokens).
struct Push: Hashable, Sendable, CustomStringConvertible {
    var notification: Int
    var device: Int
    var description: String { "notification \(notification), device \(device)" }
}

/// Everything the judge looks at.
struct Evidence: Sendable {
    var notifications: [Notification] = []
    var devices: [Device] = []
    var batches: [Batch] = []
    var failures: [Failure] = []
    /// Every change of a unit's lease, state or counts, in the order in which they were made.
    var history: [Change] = []
    /// Requests that have ended, as the simulator saw them.
    var requests: [Request] = []
    var deeds = Deeds()
    var health = Health()

    /// A row of scheduled_notifications.
    struct Notification: Decodable, Sendable {
        var id: Int
        var userId: String?
        var userIds: [String] = []
        var deviceTokens: [String] = []
        var broadcast = false
        var environment: String?
        var delivery = "at_least_once"
        var payload = "{}"
        var status = "sent"
        var scheduledAt = 0.0
        var sentAt: Double?
        var finishedAt: Double?
        var device = 0
        var accepted = 0
        var rejected = 0
        var unknown = 0
        var walking = false
        var upperId: Int?
        var cursorId = 0
        /// Apple refused it for what it is, so nobody else was asked.
        var givenUp = false

        var isFinished: Bool { !["pending", "sending", "cancelling"].contains(status) }
    }

    /// A row of devices.
    struct Device: Decodable, Sendable {
        var id: Int
        var userId: String
        var token: String
        var environment = "production"
        var isActive = true
        var registeredAt = 0.0
        var deactivatedAt: Double?
        var reason: String?
    }

    /// A row of notification_batches.
    struct Batch: Decodable, Sendable {
        var notification: Int
        var number: Int
        var state = "done"
        var afterId: Int?
        var throughId: Int?
        var deviceIds: [Int]?
        var device = 0
        var accepted = 0
        var rejected = 0
        var unknown = 0

        /// Whether a device is one of its own.
        func holds(_ device: Int) -> Bool {
            if let deviceIds { return deviceIds.contains(device) }
            guard let afterId, let throughId else { return true }
            return afterId < device && device <= throughId
        }
    }

    /// A row of delivery_failures.
    struct Failure: Decodable, Sendable {
        var notification: Int
        var device: Int
        var status: Int?
        var reason: String
        var isFinal: Bool
        var at = 0.0

        var push: Push { Push(notification: notification, device: device) }
        /// No answer is known.
        var isUnknown: Bool { status == nil }
    }

    /// A state that a unit (batch 0: the notification itself) came into.
    struct Change: Decodable, Sendable {
        var at: Double
        var notification: Int
        /// 0: the notification.
        var batch: Int
        var isNew = false
        /// The status of a notification, the state of a batch.
        var state: String
        var epoch: Int
        var owner: String?
        var isLeased: Bool
        var accepted = 0
        var rejected = 0
        var unknown = 0
        var doneThrough = 0
    }

    /// A request of the simulator's journal.
    struct Request: Sendable, CustomStringConvertible {
        /// Nil when the apns-id is none of ours.
        var push: Push?
        var apnsID: String
        var token: String
        var environment = "production"
        var body = "{}"
        var arrived: Double
        var ended: Double
        /// `answered`, or `reset`, `refused`, `cut off`, `abandoned`, `lost`.
        var outcome = "answered"
        var status: Int?
        var reason: String?

        /// The answer began with 200 and was cut off: its receiver may take that for an acceptance.
        var hasBegunWell = false

        var description: String {
            "\(apnsID) to \(token.prefix(12)), \(outcome) \(status ?? 0) \(reason ?? ""), from \(arrived) to \(ended)"
        }

        var isAccepted: Bool { status == 200 }
        /// Whether Apple may have taken it: everything but a refused stream and an answer that says no.
        var isPerhapsAccepted: Bool { outcome == "answered" ? isAccepted : outcome != "refused" }
    }
}

/// What was done to the system.
struct Deeds: Sendable {
    /// A worker that could not write down what it had sent.
    struct Crash: Sendable {
        enum Kind: String, Sendable { case killed, frozen, cutOff = "cut off from the database" }
        var kind: Kind
        var from: Double
        /// When it was gone or itself again.
        var to: Double
    }

    /// A call of cancel_notification.
    struct Cancel: Sendable {
        var notification: Int
        var answer: String
        var returned: Double
        /// The worker could hear of it: nothing was wrong from its return on for as long as a worker may take.
        var isHeard = false
    }

    var crashes: [Crash] = []
    var cancels: [Cancel] = []
    /// Tokens of devices that were inactive before anything was sent.
    var inactive: Set<String> = []
    /// Tokens that registered again after the time that a 410 names for them.
    var returned: Set<String> = []
    /// When the network held back what workers had sent.
    var delays: [ClosedRange<Double>] = []
    /// When the last fault was over.
    var calm = 0.0
}

/// What was measured, and what is allowed.
struct Health: Sendable {
    /// The most memory that each worker process had, kB.
    var memory: [Int] = []
    var memoryLimit = 300_000
    /// The most connections that each replica had to the database at once.
    var connections: [Int] = []
    var connectionLimit = 8
    /// How long each replica took to be back after each outage of the database, while it was not frozen itself; seconds.
    var returns: [Double] = []
    var returnLimit = 30.0
    /// Transactions a second and replica while nothing was to be done, and how many are allowed.
    var idleRate: Double?
    var idleRateLimit = 2.0
    /// What a crash may repeat beside the requests in flight: answers of so many seconds before it.
    var checkpointWindow: Double?
    /// Seconds after a cancel's return within which requests may still arrive.
    var cancelDelay = 10.0
    /// When a row may still be unfinished: seconds after calm.
    var finishLimit = 75.0 + 15 + 2 * 70 + 60
    /// When it was over.
    var end = 0.0
}
