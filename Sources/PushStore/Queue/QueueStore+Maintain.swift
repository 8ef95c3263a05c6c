// due, maintain: what one task per process does for the whole queue.

package import Postgres
package import PushModel

/// What a process says of itself, for people to look at; nothing depends on it.
package struct WorkerReport: Sendable {
    /// Host name.
    package let host: String
    /// Process id.
    package let processID: Int32
    /// Version of the program.
    package let version: String
    /// Number of lanes.
    package let lanes: Int32
    /// Names of the served apps.
    package let apps: [String]

    /// Describes a process.
    package init(host: String, processID: Int32, version: String, lanes: Int32, apps: [String]) {
        self.host = host
        self.processID = processID
        self.version = version
        self.lanes = lanes
        self.apps = apps
    }
}

extension QueueStore {
    /// How long until something of these apps is due: zero for now, nil for nothing in sight.
    package func nextDue(_ apps: [ServedApp]) async throws(PostgresError) -> Duration? {
        var parameters = PostgresParameters()
        parameters.add(apps.map(\.name))
        let result = try await run("next_due", parameters)
        guard result.rows == 1 else { return nil }
        return try result.int64IfPresent(0, 0).map { .milliseconds($0) }
    }

    /// How long until a lease that nobody renews may be rescued: zero for now, nil when nothing is leased.
    package func nextLost(_ apps: [ServedApp], leases: LeaseRules) async throws(PostgresError) -> Duration? {
        var parameters = PostgresParameters()
        parameters.add(apps.map(\.name))
        parameters.add(interval: leases.grace)
        let result = try await run("next_lost", parameters)
        guard result.rows == 1 else { return nil }
        return try result.int64IfPresent(0, 0).map { .milliseconds($0) }
    }

    /// Gives a sign of life; returns the database's time in microseconds since 1970.
    package func heartbeat(
        _ report: WorkerReport, inFlight: Int, accepted: UInt64, rejected: UInt64
    ) async throws(PostgresError) -> Int64 {
        var life = PostgresParameters()
        life.add(owner)
        life.add(report.host)
        life.add(report.processID)
        life.add(report.version)
        life.add(report.lanes)
        life.add(report.apps)
        life.add(Int32(clamping: inFlight))
        life.add(Int64(clamping: accepted))
        life.add(Int64(clamping: rejected))
        return try await run("heartbeat", life).timestamp(0, 0)
    }

    /// Does the cleaning up that nobody else does.
    ///
    /// Finishes what was left open, gives up what was cancelled, lets expire what is too late.
    package func sweep(apps: [ServedApp], leases: LeaseRules) async throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.add(apps: apps)
        parameters.add(interval: leases.grace)
        _ = try await run("sweep", parameters)
    }

    /// Takes this process out of the list of the living.
    package func goodbye() async throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.add(owner)
        _ = try await session.query(call("goodbye", parameters), timeout: .seconds(3))
    }
}
