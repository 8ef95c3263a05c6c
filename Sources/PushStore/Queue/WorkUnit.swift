// What a claim hands out: a unit of work under a lease.

package import PushModel

/// The name of a leased unit: a batch of a notification under one claim.
///
/// Batch number 0 is the notification itself, claimed as a whole (one user, a short list, a channel); a number from
/// 1 on is a row of `notification_batches`. The epoch is the fence: it rises with each claim of the same unit.
package struct UnitKey: Hashable, Sendable {
    /// `scheduled_notifications.id`.
    package let notification: Int64
    /// `notification_batches.batch_no`, or 0.
    package let batch: Int32
    /// Which claim of this unit it is.
    package let epoch: Int32

    /// Names a unit.
    package init(notification: Int64, batch: Int32, epoch: Int32) {
        self.notification = notification
        self.batch = batch
        self.epoch = epoch
    }
}

/// A leased unit with everything of its notification that goes on the wire.
package struct WorkUnit: Sendable {
    /// Name and fence of the unit.
    package let key: UnitKey
    /// Which try of its devices this is, from 1.
    package let attempt: Int32
    /// The content shared by all its devices.
    package let content: PushContent
    /// When it fell due, in microseconds since 1970; of a batch, from when its lateness counts (`claim_batches`).
    package let dueTime: Int64
    /// Doubtful devices are booked as unknown instead of being tried again.
    package let atMostOnce: Bool

    /// Describes a leased unit.
    package init(key: UnitKey, attempt: Int32, content: PushContent, dueTime: Int64, atMostOnce: Bool) {
        self.key = key
        self.attempt = attempt
        self.content = content
        self.dueTime = dueTime
        self.atMostOnce = atMostOnce
    }
}

/// The devices of one unit in one environment, in the order in which they are sent.
package struct UnitDevices: Sendable {
    /// Decides the host.
    package let environment: PushEnvironment
    /// `devices.id`; minus the position for a target by tokens; 0 for a channel.
    package let ids: [Int64]
    /// The tokens in the same order, lower-case hex, joined by one blank each.
    package let tokens: [UInt8]

    /// Describes the devices of one unit in one environment.
    package init(environment: PushEnvironment, ids: [Int64], tokens: [UInt8]) {
        self.environment = environment
        self.ids = ids
        self.tokens = tokens
    }
}

/// What the database says about a unit that this process holds.
package struct UnitState: Sendable {
    /// The status of the notification, read in the same transaction.
    package let status: NotificationStatus
    /// Whether this process still holds the lease.
    package let isHeld: Bool
}
