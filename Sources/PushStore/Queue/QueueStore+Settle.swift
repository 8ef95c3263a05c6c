// settle, finalise, release: write back what became of leased units.

package import Postgres
import PushModel
import Reactor

extension QueueStore {
    /// Writes back many units in one statement; harmless to repeat when the answer was lost.
    package func settle(
        _ settlements: [UnitSettlement], pauses: Set<ScopePause>
    ) async throws(PostgresError) -> [SettledUnit] {
        var arrays = SettleArrays()
        for (number, settlement) in settlements.enumerated() { arrays.add(settlement, number: Int64(number + 1)) }
        var parameters = PostgresParameters()
        parameters.add(owner)
        arrays.write(to: &parameters)
        let ordered = Array(pauses)
        parameters.add(ordered.map(\.app))
        parameters.add(ordered.map { $0.environment?.rawValue })
        parameters.add(ordered.map(\.topic))
        parameters.add(ordered.map(\.reason))
        let result = try await run("settle", parameters)
        return try settled(result, settlements)
    }

    private func settled(
        _ result: PostgresResult, _ settlements: [UnitSettlement]
    ) throws(PostgresError) -> [SettledUnit] {
        var settled: [SettledUnit] = []
        settled.reserveCapacity(result.rows)
        let columns = (
            unit: try result.column("unit"), result: try result.column("result"), status: try result.column("status")
        )
        for row in 0..<result.rows {
            let unit = try result.int(row, columns.unit) - 1
            guard settlements.indices.contains(unit),
                let outcome = SettleResult(rawValue: try result.string(row, columns.result))
            else { throw PostgresError(.decoding, "settle: a row that belongs to no unit") }
            // A notification that was deleted meanwhile has no status: nothing is left to do for it.
            let status = try result.stringIfPresent(row, columns.status).flatMap(NotificationStatus.init)
            settled.append(
                SettledUnit(key: settlements[unit].key, result: outcome, status: status ?? .cancelled))
        }
        return settled
    }

    /// Finishes those of the notifications that have nothing open any more.
    package func finalise(_ notifications: [Int64]) async throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.add(notifications)
        _ = try await run("finalise", parameters)
    }

    /// Gives units back of which nothing was sent.
    package func release(_ keys: [UnitKey]) async throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(keys: keys)
        _ = try await run("release", parameters)
    }
}

/// The parallel arrays that the SQL function takes, built element by element.
private struct SettleArrays: ~Copyable {
    private var notification = PostgresArrayBuilder(.int8)
    private var batch = PostgresArrayBuilder(.int4)
    private var epoch = PostgresArrayBuilder(.int4)
    private var isDone = PostgresArrayBuilder(.bool)
    private var doneThrough = PostgresArrayBuilder(.int8)
    private var accepted = PostgresArrayBuilder(.int4)
    private var rejected = PostgresArrayBuilder(.int4)
    private var unknown = PostgresArrayBuilder(.int4)
    private var acceptedAge = PostgresArrayBuilder(.int4)
    private var error = PostgresArrayBuilder(.text)

    private var failureUnit = PostgresArrayBuilder(.int4)
    private var failureDevice = PostgresArrayBuilder(.int8)
    private var failureToken = PostgresArrayBuilder(.text)
    private var failureEnvironment = PostgresArrayBuilder(.text)
    private var failureStatus = PostgresArrayBuilder(.int4)
    private var failureReason = PostgresArrayBuilder(.text)
    private var failureIsFinal = PostgresArrayBuilder(.bool)
    private var failureAge = PostgresArrayBuilder(.int4)

    private var retiredUnit = PostgresArrayBuilder(.int4)
    private var retiredDevice = PostgresArrayBuilder(.int8)
    private var retiredReason = PostgresArrayBuilder(.text)
    private var retiredBefore = PostgresArrayBuilder(.timestamptz)
    private var retiredAge = PostgresArrayBuilder(.int4)

    private var requeueUnit = PostgresArrayBuilder(.int4)
    private var requeueState = PostgresArrayBuilder(.text)
    private var requeueIsCharged = PostgresArrayBuilder(.bool)
    private var requeueDelay = PostgresArrayBuilder(.int4)
    private var requeueEnvironment = PostgresArrayBuilder(.text)
    private var requeueTopic = PostgresArrayBuilder(.text)
    private var movedRequeue = PostgresArrayBuilder(.int4)
    private var movedDevice = PostgresArrayBuilder(.int8)

    private let now = MonotonicTime.now()

    // How long ago, in milliseconds: the database turns it into a time by its own clock.
    private func age(_ time: MonotonicTime) -> Int64 {
        min(Int64(Int32.max), max(0, now.since(time).millisecondsRoundedUp))
    }

    mutating func add(_ unit: UnitSettlement, number: Int64) {
        notification.append(unit.key.notification)
        batch.append(Int64(unit.key.batch))
        epoch.append(Int64(unit.key.epoch))
        isDone.append(unit.isDone)
        if let through = unit.doneThrough { doneThrough.append(through) } else { doneThrough.appendNull() }
        accepted.append(Int64(unit.accepted))
        rejected.append(Int64(unit.rejected))
        unknown.append(Int64(unit.unknown))
        if let last = unit.lastAcceptance { acceptedAge.append(age(last)) } else { acceptedAge.appendNull() }
        error.append(optional: unit.error)
        for failure in unit.failures { add(failure, number) }
        for retirement in unit.retirements { add(retirement, number) }
        for requeue in unit.requeues { add(requeue, number) }
    }

    private mutating func add(_ failure: DeviceFailure, _ number: Int64) {
        failureUnit.append(number)
        failureDevice.append(failure.device)
        failureToken.append(failure.token)
        failureEnvironment.append(failure.environment.rawValue)
        failureStatus.append(Int64(failure.status))
        failureReason.append(failure.reason)
        failureIsFinal.append(failure.isFinal)
        failureAge.append(age(failure.time))
    }

    private mutating func add(_ retirement: Retirement, _ number: Int64) {
        retiredUnit.append(number)
        retiredDevice.append(retirement.device)
        retiredReason.append(retirement.reason)
        if let asOf = retirement.asOf, let micros = Int64(exactly: Double(asOf) * 1000) {
            retiredBefore.append(timestamp: micros)
        } else {
            retiredBefore.appendNull()
        }
        retiredAge.append(age(retirement.sentAt))
    }

    private mutating func add(_ requeue: Requeue, _ number: Int64) {
        let place = Int64(requeueUnit.count) + 1
        requeueUnit.append(number)
        requeueState.append(requeue.state.rawValue)
        requeueIsCharged.append(requeue.isCharged)
        requeueDelay.append(min(Int64(Int32.max), requeue.delay.millisecondsRoundedUp))
        requeueEnvironment.append(optional: requeue.environment?.rawValue)
        requeueTopic.append(optional: requeue.topic)
        for device in requeue.devices {
            movedRequeue.append(place)
            movedDevice.append(device)
        }
    }

    /// In the order of the SQL function's parameters.
    borrowing func write(to parameters: inout PostgresParameters) {
        parameters.add(notification)
        parameters.add(batch)
        parameters.add(epoch)
        parameters.add(isDone)
        parameters.add(doneThrough)
        parameters.add(accepted)
        parameters.add(rejected)
        parameters.add(unknown)
        parameters.add(acceptedAge)
        parameters.add(error)
        parameters.add(failureUnit)
        parameters.add(failureDevice)
        parameters.add(failureToken)
        parameters.add(failureEnvironment)
        parameters.add(failureStatus)
        parameters.add(failureReason)
        parameters.add(failureIsFinal)
        parameters.add(failureAge)
        parameters.add(retiredUnit)
        parameters.add(retiredDevice)
        parameters.add(retiredReason)
        parameters.add(retiredBefore)
        parameters.add(retiredAge)
        parameters.add(requeueUnit)
        parameters.add(requeueState)
        parameters.add(requeueIsCharged)
        parameters.add(requeueDelay)
        parameters.add(requeueEnvironment)
        parameters.add(requeueTopic)
        parameters.add(movedRequeue)
        parameters.add(movedDevice)
    }
}

extension PostgresArrayBuilder {
    /// Appends a text or NULL.
    fileprivate mutating func append(optional text: String?) {
        if let text { append(text) } else { appendNull() }
    }
}
