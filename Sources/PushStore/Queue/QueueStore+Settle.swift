// settle, finalise, release: write back what became of leased units.

package import Postgres
import PushModel
import Reactor

extension QueueStore {
    /// Writes back many units in one statement; harmless to repeat when the answer was lost.
    ///
    /// Where tokens are proposed, the database may find a storm and pause their scope: so the pauses are read with it.
    package func settle(
        _ settlements: [UnitSettlement], pauses: Set<ScopePause>
    ) async throws(PostgresError) -> (units: [SettledUnit], pauses: Set<ScopePause>?) {
        try await session.connect(timeout: .seconds(20))
        let looks = settlements.contains { !$0.proposals.isEmpty }
        // Times are told as ages, which count from the sending of the call: what waited for its turn afterwards would be dated too
        // late, and a device that registered meanwhile would be retired.
        let results = try await session.transaction(making: {
            let settle = self.call("settle", self.parameters(settlements, pauses))
            return looks ? [settle, self.call("current_pauses", PostgresParameters())] : [settle]
        })
        guard results.count == (looks ? 2 : 1) else { throw PostgresError(.decoding, "settle: a result is missing") }
        return (try settled(results[0], settlements), looks ? try self.pauses(results[1]) : nil)
    }

    private func parameters(_ settlements: [UnitSettlement], _ pauses: Set<ScopePause>) -> PostgresParameters {
        var arrays = SettleArrays()
        for (number, settlement) in settlements.enumerated() { arrays.add(settlement, number: Int64(number + 1)) }
        var parameters = PostgresParameters()
        parameters.add(owner)
        arrays.writeUnits(to: &parameters)
        let ordered = Array(pauses)
        parameters.add(ordered.map(\.app))
        parameters.add(ordered.map { $0.environment?.rawValue })
        parameters.add(ordered.map(\.topic))
        parameters.add(ordered.map(\.reason))
        arrays.writeTokens(to: &parameters)
        return parameters
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

    /// Gives up what is left of a notification whose content or channel Apple refuses for everybody, with its reason.
    ///
    /// Units that somebody holds end by themselves.
    ///
    /// - Returns: Whether that was done: not where something was accepted, nor where another worker has done it.
    package func giveUpRest(_ notification: Int64, reason: String) async throws(PostgresError) -> Bool {
        var parameters = PostgresParameters()
        parameters.add([notification])
        parameters.add([reason])
        return try await run("give_up_rest", parameters).int(0, 0) > 0
    }

    /// Gives back whatever is leased to this owner beside `known`; returns how many units.
    ///
    /// For what a claim has leased of which nobody knows whether it was committed. All units must be named that the owner has in hand
    /// or is settling, and no claim of it may be under way.
    package func releaseLost(_ apps: [ServedApp], but known: [UnitKey]) async throws(PostgresError) -> Int {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(apps.map(\.name))
        parameters.add(known.map(\.notification))
        parameters.add(known.map(\.batch))
        return try await run("release_lost", parameters).int(0, 0)
    }

    /// Gives units back of which nothing was sent.
    package func release(_ keys: [UnitKey]) async throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(keys: keys)
        _ = try await run("release", parameters)
    }
}
