// The queue as a worker sees it: one Swift function for each SQL function in `sql/objects`, no rule of its own.
// Every call is a short transaction of its own with bounded waits; nothing is sent while one is open.

package import Postgres

/// An app that this process has credentials for.
package struct ServedApp: Sendable, Hashable {
    /// Its name, as in the column `app`.
    package let name: String
    /// Rows later than this are not sent any more but expire.
    package let maxLateness: Duration

    /// Names an app.
    package init(name: String, maxLateness: Duration = .seconds(24 * 3600)) {
        self.name = name
        self.maxLateness = maxLateness
    }
}

/// The queue functions of one schema over one session; loop-confined as the session is.
package final class QueueStore {
    /// The connection.
    package let session: PostgresSession
    let schema: SchemaName
    /// The lane, in every row that it holds, or the process in the list of workers.
    package let owner: PostgresUUID

    /// `owner` is random per start: a host name can come twice.
    package init(session: PostgresSession, schema: SchemaName, owner: PostgresUUID) {
        self.session = session
        self.schema = schema
        self.owner = owner
    }

    /// Closes the connection; calls under way end with an error.
    package func close() { session.close() }

    /// `SELECT * FROM schema.function($1, …)` with as many placeholders as there are parameters.
    func call(_ function: String, _ parameters: PostgresParameters) -> PostgresStatement {
        let places = (1...max(1, parameters.count)).prefix(parameters.count).map { "$\($0)" }
        return PostgresStatement(
            "SELECT * FROM \(schema.quoted).\(function)(\(places.joined(separator: ", ")))", parameters)
    }

    func run(_ function: String, _ parameters: PostgresParameters) async throws(PostgresError) -> PostgresResult {
        try await session.query(call(function, parameters))
    }
}

extension PostgresParameters {
    /// Adds the names and the greatest latenesses of apps, as two parallel arrays.
    mutating func add(apps: [ServedApp]) {
        add(apps.map(\.name))
        add(latenesses: apps)
    }

    /// Adds the greatest latenesses of apps.
    mutating func add(latenesses apps: [ServedApp]) {
        var lateness = PostgresArrayBuilder(.interval)
        for app in apps { lateness.append(interval: app.maxLateness) }
        add(lateness)
    }

    /// Adds the parts of unit keys, as three parallel arrays.
    mutating func add(keys: [UnitKey]) {
        add(keys.map(\.notification))
        add(keys.map(\.batch))
        add(keys.map(\.epoch))
    }
}
