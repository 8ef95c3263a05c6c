// How much a lane claims next: pure arithmetic over what the wire can take, for each app by itself. An app whose gateway is slow,
// silent or paused fills its own room and no other's.

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

/// What a lane holds of one app: devices that are claimed and not yet written back.
struct AppLoad: Equatable {
    /// Of notifications that were claimed as a whole.
    var singles = 0
    /// Of batches.
    var batches = 0

    var devices: Int { singles + batches }
}

/// Decides how many devices a lane may hold of an app and how the next claim is cut.
///
/// Leased work is what a crash may send twice and what a cancel has to wait for, so a lane holds no more than keeps
/// the wire busy while the database answers: about eight times the streams that the gateway allows (with four, a
/// broadcast waited for its own settles: 28,000 devices/s where the wire took more).
struct ClaimPlan {
    /// Devices in one batch of a broadcast.
    let batchSize: Int
    /// How many apps are served.
    let apps: Int
    /// Notifications in one claim of singles.
    static let notificationLimit = 500
    /// Batches in one claim.
    static let batchLimit = 16

    /// What a lane holds at most when a single app is at work.
    private var whole: Int { Self.batchLimit * batchSize }

    /// The most devices that a lane may hold of an app, claimed and not yet settled.
    ///
    /// Apps at work share the lane. Each has at least two batches, or its part of twice the whole where there are many apps: what
    /// others hold already counts for nothing there. So a lane holds at most three times the whole, and a batch for
    /// each app besides.
    ///
    /// - Parameters:
    ///   - streams: How many the app's gateways allow.
    ///   - active: Apps of which the lane holds something, this one included.
    /// - Returns: The number of devices.
    func capacity(streams: Int, active: Int) -> Int {
        let least = max(32, min(2 * batchSize, 2 * whole / max(1, apps)))
        return min(max(least, whole / max(1, active)), max(least, 8 * streams))
    }

    /// How many slices of a broadcast, or waiting batches, fit.
    ///
    /// The last quarter of the room stays free for single users, and a slice that does not fit waits, unless the lane holds
    /// no other of the app.
    func batches(_ load: AppLoad, capacity: Int) -> Int {
        let room = max(0, capacity * 3 / 4 - load.devices)
        return max(load.batches == 0 ? 1 : 0, min(Self.batchLimit, room / batchSize))
    }

    /// How many single notifications fit; a quarter of the room is theirs, whatever batches take.
    func notifications(_ load: AppLoad, capacity: Int) -> Int {
        max(0, min(Self.notificationLimit, max(capacity - load.devices, capacity / 4 - load.singles)))
    }
}
