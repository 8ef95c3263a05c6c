// judge: what becomes of the tokens that looked dead, once there is evidence.

package import Postgres
import PushModel

/// What the database made of the window of one app, environment and topic.
package struct WindowJudgement: Sendable {
    /// What a window can say.
    package enum Verdict: String, Sendable {
        /// Few answers were such: the devices are deactivated, the window is closed.
        case calm
        /// A storm: nobody is deactivated, the scope is paused, who was not reached is sent to again when it resumes.
        case tripped
        /// Nobody can say yet.
        case open
    }

    /// The app's name.
    package let app: String
    /// Which of Apple's services.
    package let environment: String
    /// The topic of the pushes.
    package let topic: String
    /// What the window says.
    package let verdict: Verdict
    /// Devices that were deactivated.
    package let applied: Int64
    /// Proposals that were thrown away.
    package let dropped: Int64
    /// Devices that will be sent to again.
    package let requeued: Int64
    /// What share of the answers was such.
    package let reason: String?

    /// Whether something came of it, so that more may.
    package var isProgress: Bool { applied + dropped + requeued > 0 }
}

extension QueueStore {
    /// Has one of the windows of these apps judged, and says how all of them stand.
    package func judgeWindows(_ apps: [ServedApp]) async throws(PostgresError) -> [WindowJudgement] {
        var parameters = PostgresParameters()
        parameters.add(apps.map(\.name))
        let result = try await run("judge_windows", parameters)
        var judgements: [WindowJudgement] = []
        for row in 0..<result.rows {
            guard let verdict = WindowJudgement.Verdict(rawValue: try result.string(row, try result.column("verdict")))
            else { throw PostgresError(.decoding, "judge_windows: a verdict that nobody knows") }
            judgements.append(
                WindowJudgement(
                    app: try result.string(row, try result.column("app")),
                    environment: try result.string(row, try result.column("environment")),
                    topic: try result.string(row, try result.column("topic")),
                    verdict: verdict,
                    applied: try result.int64(row, try result.column("applied")),
                    dropped: try result.int64(row, try result.column("dropped")),
                    requeued: try result.int64(row, try result.column("requeued")),
                    reason: try result.stringIfPresent(row, try result.column("reason"))))
        }
        return judgements
    }
}
