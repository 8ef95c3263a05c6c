// The queue in figures, for the metrics of a process; nothing is decided by them.

package import Postgres
import PushModel

/// How much of one app waits in the queue, whoever is to send it.
package struct AppFigures: Sendable, Equatable {
    package let app: String
    /// Notifications that are due and pending; 100,000 stands for all beyond.
    package let due: Int64
    /// Seconds since the oldest of them fell due; 0 without one.
    package let oldestDue: Double
    /// Notifications that are being sent.
    package let sending: Int64
    /// Batches that can be claimed at their time, that are leased, and that wait for their scope.
    package let ready: Int64
    package let leased: Int64
    package let parked: Int64
    /// Seconds for which the oldest ready batch could have been claimed; 0 without one.
    package let oldestReady: Double
    /// Processes that serve the app.
    package let workers: Int64
}

/// A scope that is paused.
package struct PauseFigure: Sendable, Equatable {
    package let scope: ScopePause
    /// Whether it was a worker that paused it, not a person.
    package let isAutomatic: Bool

    package init(scope: ScopePause, isAutomatic: Bool) {
        self.scope = scope
        self.isAutomatic = isAutomatic
    }
}

/// What the database says about these apps.
package struct QueueFigures: Sendable, Equatable {
    package let apps: [AppFigures]
    package let pauses: [PauseFigure]

    package init(apps: [AppFigures], pauses: [PauseFigure]) {
        self.apps = apps
        self.pauses = pauses
    }
}

extension QueueStore {
    /// Reads figures and pauses of these apps.
    package func figures(_ apps: [ServedApp]) async throws(PostgresError) -> QueueFigures {
        var parameters = PostgresParameters()
        parameters.add(apps.map(\.name))
        let results = try await session.transaction(
            [call("queue_figures", parameters), call("current_pauses", PostgresParameters())],
            statementTimeout: .seconds(5))
        guard results.count == 2 else { throw PostgresError(.decoding, "figures: a result is missing") }
        let names = Set(apps.map(\.name))
        return QueueFigures(
            apps: try appFigures(results[0]),
            pauses: try pauseFigures(results[1]).filter { names.contains($0.scope.app) })
    }

    private func appFigures(_ result: PostgresResult) throws(PostgresError) -> [AppFigures] {
        var figures: [AppFigures] = []
        for row in 0..<result.rows {
            figures.append(
                AppFigures(
                    app: try result.string(row, try result.column("app")),
                    due: try result.int64(row, try result.column("due_count")),
                    oldestDue: try result.double(row, try result.column("oldest_due_age")),
                    sending: try result.int64(row, try result.column("sending_count")),
                    ready: try result.int64(row, try result.column("ready_batches")),
                    leased: try result.int64(row, try result.column("leased_batches")),
                    parked: try result.int64(row, try result.column("parked_batches")),
                    oldestReady: try result.double(row, try result.column("oldest_ready_age")),
                    workers: try result.int64(row, try result.column("live_workers"))))
        }
        return figures
    }

    private func pauseFigures(_ result: PostgresResult) throws(PostgresError) -> [PauseFigure] {
        var figures: [PauseFigure] = []
        for row in 0..<result.rows {
            let environment = try result.stringIfPresent(row, try result.column("environment"))
            let scope = ScopePause(
                app: try result.string(row, try result.column("app")),
                environment: environment.flatMap(PushEnvironment.init),
                topic: try result.stringIfPresent(row, try result.column("topic")),
                reason: try result.stringIfPresent(row, try result.column("reason")) ?? "")
            figures.append(
                PauseFigure(scope: scope, isAutomatic: try result.bool(row, try result.column("automatic"))))
        }
        return figures
    }
}
