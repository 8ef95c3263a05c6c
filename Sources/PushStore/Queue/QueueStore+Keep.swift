// renew, look: keep what is held, and learn what must stop.

package import Postgres
package import PushModel

extension QueueStore {
    /// Prolongs the leases of units; the answers stand in the order of the keys.
    package func renew(_ keys: [UnitKey], leases: LeaseRules) async throws(PostgresError) -> [UnitState] {
        var parameters = PostgresParameters()
        parameters.add(owner)
        parameters.add(keys: keys)
        parameters.add(interval: leases.lease)
        let result = try await run("renew", parameters)
        // A unit that the database does not know any more is lost.
        var states = [UnitState](repeating: UnitState(status: .cancelled, isHeld: false), count: keys.count)
        guard result.rows > 0 else { return states }
        let columns = (
            unit: try result.column("unit"), held: try result.column("held"), status: try result.column("status")
        )
        for row in 0..<result.rows {
            let unit = try result.int(row, columns.unit) - 1
            guard states.indices.contains(unit) else { continue }
            let status = try result.stringIfPresent(row, columns.status).flatMap(NotificationStatus.init)
            states[unit] = UnitState(status: status ?? .cancelled, isHeld: try result.bool(row, columns.held))
        }
        return states
    }

    /// Reads the statuses of notifications, in their order; nil for one that is gone.
    package func look(_ notifications: [Int64]) async throws(PostgresError) -> [NotificationStatus?] {
        var parameters = PostgresParameters()
        parameters.add(notifications)
        let result = try await run("look", parameters)
        var statuses: [Int64: NotificationStatus] = [:]
        for row in 0..<result.rows {
            statuses[try result.int64(row, 0)] = try result.stringIfPresent(row, 1).flatMap(NotificationStatus.init)
        }
        return notifications.map { statuses[$0] }
    }
}
