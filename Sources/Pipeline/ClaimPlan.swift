// How much a lane claims next: pure arithmetic over what the wire can take.

/// The kinds of work, in the order in which each round claims them.
enum ClaimKind: CaseIterable {
    /// One device of a paused scope, to find out whether it can be sent to again.
    case probe
    /// Batches whose time has come again: lists, retries, and units whose holder is gone.
    case batches
    /// Single users, short lists, channels.
    case notifications
    /// The next slices of broadcasts.
    case broadcasts
}

/// Decides how many devices a lane may hold and how the next claim is cut.
///
/// Leased work is what a crash may send twice and what a cancel has to wait for, so a lane holds no more than keeps
/// the wire busy while the database answers: about eight times the streams that the gateway allows (with four, a
/// broadcast waited for its own settles: 28,000 devices/s where the wire took more).
struct ClaimPlan {
    /// Devices in one batch of a broadcast.
    let batchSize: Int
    /// Notifications in one claim of singles.
    static let notificationLimit = 500
    /// Batches in one claim.
    static let batchLimit = 16

    /// The most devices that a lane may hold, claimed and not yet settled, for `streams` allowed streams.
    func capacity(streams: Int) -> Int {
        min(Self.batchLimit * batchSize, max(2 * batchSize, 8 * streams))
    }

    /// How many slices of a broadcast, or waiting batches, fit.
    ///
    /// The last quarter of the room stays free for single users, and a slice that does not fit waits, unless the lane has
    /// nothing else to do.
    func batches(outstanding: Int, capacity: Int) -> Int {
        let room = capacity * 3 / 4 - outstanding
        if outstanding == 0 { return max(1, min(Self.batchLimit, room / batchSize)) }
        return max(0, min(Self.batchLimit, room / batchSize))
    }

    /// How many single notifications fit.
    func notifications(outstanding: Int, capacity: Int) -> Int {
        max(0, min(Self.notificationLimit, capacity - outstanding))
    }
}
