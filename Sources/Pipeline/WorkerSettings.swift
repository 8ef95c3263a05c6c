// What a worker process is told: the result of reading options, environment and files, checked before.

package import Postgres
package import PushStore

/// Settings of a worker process.
package struct WorkerSettings: Sendable {
    /// The database, possibly through a pooler.
    package var database: PostgresConfiguration
    /// A way to the database on which LISTEN works; nil: the worker polls.
    package var listenDatabase: PostgresConfiguration?
    /// The schema that holds the tables.
    package var schema: SchemaName
    /// The apps that are served, with their credentials.
    package var routes: [AppRoute]
    /// Reads the credentials anew, on a thread that may block; what has not changed comes back as the same objects.
    package var reload: (@Sendable () throws -> [AppRoute])?
    /// Drain what is due and return.
    package var once = false
    /// The longest time between two looks at the queue.
    package var pollInterval: Duration = .seconds(60)
    /// Devices in one batch.
    package var batchSize = 500
    /// Threads that send.
    package var lanes = 1
    /// HTTP/2 connections per host and credential, shared out among the lanes: 1 to 16.
    package var connections = 4
    /// How long what is on the wire may take after a stop.
    package var grace: Duration = .seconds(25)
    /// How far the database's clock was ahead of this machine's at the start.
    package var clockOffset: Duration = .zero
    /// Where the worker tells about itself; nil when nobody wants to know.
    package var metrics: WorkerMetrics?
    /// Shown in the list of workers.
    package var version: String

    /// Settings with the defaults for the rest.
    package init(
        database: PostgresConfiguration, listenDatabase: PostgresConfiguration?, schema: SchemaName, routes: [AppRoute],
        version: String
    ) {
        self.database = database
        self.listenDatabase = listenDatabase
        self.schema = schema
        self.routes = routes
        self.version = version
    }
}
