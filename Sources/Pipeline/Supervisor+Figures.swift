// The queue in figures, read every few seconds when somebody wants to know: not for each who asks, since there may be many.

import Postgres
import PushStore
import Reactor
import Telemetry

extension Supervisor {
    /// Reads until the process ends.
    func figuresLoop(_ metrics: WorkerMetrics) async {
        var hasWarned = false
        while !isEnding {
            let start = MonotonicTime.now()
            var pause = Duration.zero
            do throws(PostgresError) {
                metrics.read(try await store.figures(laneSettings.apps))
            } catch {
                metrics.read(nil)
                // Missing, or not allowed: the schema was made by a version before this one.
                guard ["42883", "42501"].contains(error.sqlState) else {
                    failed(error)
                    logger.info("the queue's figures cannot be read", [.error: error.description])
                    guard !isEnding else { return }
                    _ = await mayMeasure.wait(FiguresPlan.pause(after: .zero))
                    continue
                }
                if !hasWarned {
                    logger.warning(
                        "the queue's figures cannot be read: run 'pgpush migrate' of this version",
                        [.error: error.description, .sqlState: error.sqlState])
                }
                hasWarned = true
                pause = .seconds(60)
            }
            guard !isEnding else { return }
            _ = await mayMeasure.wait(max(pause, FiguresPlan.pause(after: MonotonicTime.now().since(start))))
        }
    }
}

/// How often the queue is counted; pure.
enum FiguresPlan {
    /// The pause after a reading that took so long: it costs the database no more than a fiftieth of its time.
    static func pause(after cost: Duration) -> Duration { min(max(.seconds(5), cost * 50), .seconds(60)) }
}
