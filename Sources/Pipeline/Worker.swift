// A worker process from start to end.
//
//     signals, poll, sweep, LISTEN ──► supervisor (its own loop)
//                                          │ wake, stop
//                      ┌───────────────────┼───────────────────┐
//                    lane 0              lane 1      …       lane n      (a thread each, nothing shared)

import CLinux
import Postgres
import PushModel
import PushStore
import Reactor
package import Telemetry

/// Runs a worker until it is told to stop.
package enum Worker {
    /// How a worker ended.
    package enum End: Sendable, Equatable {
        /// All that was claimed is written back or given back.
        case done
        /// No gateway could be reached, and the worker was to drain what is due and return.
        case unreachable
    }

    /// Runs lanes and supervisor on threads of their own and blocks the calling thread until all have ended.
    ///
    /// The signals SIGTERM and SIGINT must have been blocked before any thread was started (`SignalWatch.block`).
    package static func run(_ settings: WorkerSettings, logger: Logger) throws -> End {
        DatabaseClock.set(settings.clockOffset)
        let laneSettings = LaneSettings(settings)
        let sessions = SessionFactory(
            settings: settings, contact: SharedContact(laneSettings.leases), logger: logger)
        let budgets = ConnectBudgets()
        var lanes: [Lane] = []
        var loops: [EventLoop] = []
        defer {
            settings.metrics?.beats.forget()
            for loop in loops { loop.stop() }
            for loop in loops { loop.join() }
        }
        for number in 0..<settings.lanes {
            let loop = try EventLoop(name: "lane-\(number)")
            try loop.start()
            loops.append(loop)
            settings.metrics?.beats.watch(loop)
            let routes = settings.routes
            let share = max(1, (settings.connections + settings.lanes - 1 - number) / settings.lanes)
            lanes.append(
                try loop.runBlocking { _ in
                    Lane(
                        loop: loop, settings: laneSettings, routes: routes, connections: share, budgets: budgets,
                        sessions: sessions, metrics: settings.metrics,
                        logger: logger.child("lane-\(number)"))
                })
        }
        let loop = try EventLoop(name: "supervisor")
        try loop.start()
        loops.append(loop)
        settings.metrics?.beats.watch(loop)
        settings.metrics?.started(settings.routes, sessions.contact)
        let team = lanes
        return try loop.runBlocking { _ in
            let supervisor = Supervisor(
                loop: loop, settings: settings, laneSettings: laneSettings, lanes: team, sessions: sessions,
                logger: logger.child("supervisor"))
            return await supervisor.run()
        }
    }
}

extension LaneSettings {
    init(_ settings: WorkerSettings) {
        self.init(apps: settings.routes.map(\.served), batchSize: settings.batchSize, once: settings.once)
    }
}

/// Opens database sessions for the loops of one process.
struct SessionFactory: Sendable {
    let settings: WorkerSettings
    /// What all sessions together notice of the database.
    let contact: SharedContact
    let logger: Logger

    /// A session for somebody who takes leases, or signs, under the name `owner`.
    func queue(on loop: EventLoop, owner: PostgresUUID) -> QueueStore {
        let session = PostgresSession(loop: loop, configuration: settings.database, logger: logger)
        session.onContact = { [contact] in contact.noticed($0) }
        return QueueStore(session: session, schema: settings.schema, owner: owner)
    }
}
