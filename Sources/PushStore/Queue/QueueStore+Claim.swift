// claim: lease due work to this process.

package import Postgres
package import PushModel

/// A place in the order in which notifications fall due.
package struct DueMark: Comparable, Sendable {
    /// Microseconds since 1970.
    package let time: Int64
    /// `scheduled_notifications.id`, among those that fall due at the same time.
    package let notification: Int64

    /// Names a place.
    package init(time: Int64, notification: Int64) {
        self.time = time
        self.notification = notification
    }

    package static func < (a: Self, b: Self) -> Bool { (a.time, a.notification) < (b.time, b.notification) }
}

/// What a lane asks for.
package struct ClaimRequest: Sendable {
    /// The apps to look at, in this order.
    package let apps: [ServedApp]
    /// How many units of each of them at most; a claim of broadcasts brings units of one.
    package let limits: [Int]
    /// Devices in one batch.
    package let batchSize: Int
    /// Length of the lease, and the grace that the leases of others are given.
    package let leases: LeaseRules
    /// Whether units whose holder is gone may be taken.
    package let mayRescue: Bool
    /// Of singles, for each app: nothing that fell due before this is left, so the walk may begin here.
    package let since: [String: DueMark]

    /// Describes a claim.
    package init(
        apps: [ServedApp], limits: [Int], batchSize: Int, leases: LeaseRules, mayRescue: Bool,
        since: [String: DueMark] = [:]
    ) {
        self.apps = apps
        self.limits = limits
        self.batchSize = batchSize
        self.leases = leases
        self.mayRescue = mayRescue
        self.since = since
    }

    /// All limits together, for a parameter of former versions that the sum cannot exceed.
    var total: Int32 { Int32(clamping: limits.reduce(0, +)) }
    var limitArray: [Int32] { limits.map { Int32(clamping: $0) } }
}

/// A leased unit that this version cannot understand: one of a newer schema.
package struct UnreadableUnit: Sendable {
    /// Name and fence of the unit.
    package let key: UnitKey
    /// The app's name.
    package let app: String
    /// What is wrong with it.
    package let fault: String

    /// Describes such a unit.
    package init(key: UnitKey, app: String, fault: String) {
        self.key = key
        self.app = app
        self.fault = fault
    }
}

/// What a claim brought.
package struct Claim: Sendable {
    /// The leased units.
    package let units: [WorkUnit]
    /// Leased too, and not understood.
    package let unreadable: [UnreadableUnit]
    /// All that must not be sent to at present, read in the same transaction.
    package let pauses: Set<ScopePause>
    /// Lists larger than a batch have become batches, which can be claimed now.
    package let hasSplit: Bool
}

extension QueueStore {
    /// Leases due single users, short lists and channels.
    package func claimNotifications(_ request: ClaimRequest) async throws(PostgresError) -> Claim {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(apps: request.apps)
        parameters.add(request.total)
        parameters.add(Int32(clamping: request.batchSize))
        parameters.add(interval: request.leases.lease)
        var since = PostgresArrayBuilder(.timestamptz)
        var sinceID = PostgresArrayBuilder(.int8)
        for app in request.apps {
            if let mark = request.since[app.name] {
                since.append(timestamp: mark.time)
                sinceID.append(mark.notification)
            } else {
                since.appendNull()
                sinceID.appendNull()
            }
        }
        parameters.add(since)
        parameters.add(sinceID)
        parameters.add(request.limitArray)
        var apps = PostgresParameters()
        apps.add(request.apps.map(\.name))
        return try await claim("claim_notifications", parameters, [call("has_split", apps)])
    }

    /// Leases the next slices of one broadcast.
    package func claimBroadcasts(_ request: ClaimRequest) async throws(PostgresError) -> Claim {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(apps: request.apps)
        parameters.add(request.total)
        parameters.add(Int32(clamping: request.batchSize))
        parameters.add(interval: request.leases.lease)
        parameters.add(request.limitArray)
        return try await claim("claim_broadcasts", parameters)
    }

    /// Leases batches whose time has come, and units whose holder is gone.
    package func claimBatches(_ request: ClaimRequest) async throws(PostgresError) -> Claim {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(request.apps.map(\.name))
        parameters.add(request.total)
        parameters.add(interval: request.leases.lease)
        parameters.add(request.mayRescue)
        parameters.add(interval: request.leases.grace)
        parameters.add(request.limitArray)
        parameters.add(latenesses: request.apps)
        return try await claim("claim_batches", parameters)
    }

    /// Leases one device of a paused scope whose time has come to be tried; at most one process gets it.
    package func claimProbe(_ request: ClaimRequest) async throws(PostgresError) -> Claim {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(request.apps.map(\.name))
        parameters.add(interval: request.leases.lease)
        return try await claim("claim_probe", parameters)
    }

    /// Counts an accepted probe for a pause that a worker began; true when that was enough and the pause is over.
    package func endPause(_ pause: ScopePause) async throws(PostgresError) -> Bool {
        var parameters = PostgresParameters()
        parameters.add(pause.app)
        parameters.add(pause.environment?.rawValue)
        parameters.add(pause.topic)
        return try await run("end_pause", parameters).bool(0, 0)
    }

    /// Makes batches of a unit that turned out to have more devices than one batch holds.
    package func split(_ key: UnitKey, batchSize: Int) async throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.add(key.notification)
        parameters.add(owner)
        parameters.add(key.epoch)
        parameters.add(Int32(clamping: batchSize))
        _ = try await run("split_notification", parameters)
    }

    private func claim(
        _ function: String, _ parameters: PostgresParameters, _ more: [PostgresStatement] = []
    ) async throws(PostgresError) -> Claim {
        let statements = [call(function, parameters), call("current_pauses", PostgresParameters())] + more
        let results = try await session.transaction(statements)
        guard results.count == statements.count else {
            throw PostgresError(.decoding, "\(function): a result is missing")
        }
        let (units, unreadable) = try units(results[0])
        return Claim(
            units: units, unreadable: unreadable, pauses: try pauses(results[1]),
            hasSplit: results.count > 2 ? try results[2].bool(0, 0) : false)
    }

    /// The rows are leased by now: one that cannot be understood must not keep the others from being sent.
    private func units(_ result: PostgresResult) throws(PostgresError) -> ([WorkUnit], unreadable: [UnreadableUnit]) {
        guard result.rows > 0 else { return ([], []) }
        let columns = try UnitColumns(result)
        var units: [WorkUnit] = []
        var unreadable: [UnreadableUnit] = []
        units.reserveCapacity(result.rows)
        for row in 0..<result.rows {
            do throws(PostgresError) {
                units.append(try columns.unit(result, row))
            } catch {
                unreadable.append(
                    UnreadableUnit(
                        key: try columns.key(result, row), app: try result.string(row, columns.app),
                        fault: error.message))
            }
        }
        return (units, unreadable)
    }

    /// Reads the rows of `current_pauses`.
    func pauses(_ result: PostgresResult) throws(PostgresError) -> Set<ScopePause> {
        var pauses: Set<ScopePause> = []
        guard result.rows > 0 else { return pauses }
        let columns = (
            app: try result.column("app"), environment: try result.column("environment"),
            topic: try result.column("topic"), reason: try result.column("reason")
        )
        for row in 0..<result.rows {
            pauses.insert(
                ScopePause(
                    app: try result.string(row, columns.app),
                    environment: try result.stringIfPresent(row, columns.environment).flatMap(PushEnvironment.init),
                    topic: try result.stringIfPresent(row, columns.topic),
                    reason: try result.stringIfPresent(row, columns.reason) ?? ""))
        }
        return pauses
    }
}

/// Where the columns of a unit row stand; looked up once a result.
private struct UnitColumns {
    let notification, batch, epoch, attempt, app, pushType, priority, topic, collapseID: Int
    let expiresAt, storeIfOffline, atMostOnce, channelID, payload, scheduledAt: Int

    init(_ result: PostgresResult) throws(PostgresError) {
        notification = try result.column("notification_id")
        batch = try result.column("batch_no")
        epoch = try result.column("epoch")
        attempt = try result.column("attempt")
        app = try result.column("app")
        pushType = try result.column("push_type")
        priority = try result.column("priority")
        topic = try result.column("topic")
        collapseID = try result.column("collapse_id")
        expiresAt = try result.column("expires_at")
        storeIfOffline = try result.column("store_if_offline")
        atMostOnce = try result.column("at_most_once")
        channelID = try result.column("channel_id")
        payload = try result.column("payload")
        scheduledAt = try result.column("scheduled_at")
    }

    func unit(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> WorkUnit {
        let notification = try result.int64(row, notification)
        let type = try result.string(row, pushType)
        guard let pushType = PushType(rawValue: type) else {
            throw PostgresError(.decoding, "unknown push type \(type)")
        }
        let content = PushContent(
            notificationID: notification, app: try result.string(row, app), pushType: pushType,
            priority: try result.int(row, priority), topic: try result.stringIfPresent(row, topic),
            collapseID: try result.stringIfPresent(row, collapseID),
            expiresAt: try result.timestampIfPresent(row, expiresAt).map { $0 / 1_000_000 },
            storeIfOffline: try result.bool(row, storeIfOffline),
            channelID: try result.stringIfPresent(row, channelID), payload: try bytes(result, row))
        return WorkUnit(
            key: try key(result, row),
            attempt: try result.int32(row, attempt), content: content, dueTime: try result.timestamp(row, scheduledAt),
            atMostOnce: try result.bool(row, atMostOnce))
    }

    func key(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> UnitKey {
        UnitKey(
            notification: try result.int64(row, notification), batch: try result.int32(row, batch),
            epoch: try result.int32(row, epoch))
    }

    private func bytes(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> [UInt8] {
        guard let bytes = unsafe try result.utf8(row, payload) else { return [] }
        return unsafe [UInt8](bytes)
    }
}
