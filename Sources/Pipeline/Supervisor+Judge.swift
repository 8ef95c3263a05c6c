// Judge: what becomes of the tokens that looked dead. The rules and the books are the database's; a process only asks, and says
// aloud what came of it.

import Postgres
import PushStore
import Reactor
import Telemetry

extension Supervisor {
    /// Has the windows judged until the process ends, and once more then if it leaves something behind.
    func judgeLoop() async {
        var plan = JudgePlan()
        while !isEnding {
            plan.saw(proposals: await counts().proposals, at: .now())
            if plan.isDue(at: .now()) {
                await judge()
                plan.judged(at: .now())
            }
            guard !isEnding else { break }
            _ = await mayJudge.wait(JudgePlan.step)
        }
        plan.saw(proposals: await counts().proposals, at: .now())
        if plan.isOwing { await judge() }
    }

    /// A call works on one window, a lot of proposals at a time, so it is repeated while something comes of it.
    private func judge() async {
        do throws(PostgresError) {
            var judgements: [WindowJudgement]
            repeat {
                judgements = try await store.judgeWindows(laneSettings.apps)
                for judgement in judgements { report(judgement) }
            } while judgements.contains(where: \.isProgress) && !isEnding
        } catch {
            failed(error)
            logger.warning("judging failed", [.error: error.description, .sqlState: error.sqlState])
        }
    }

    private func report(_ judgement: WindowJudgement) {
        let fields: LogFields = [
            .app: judgement.app, .environment: judgement.environment, .topic: judgement.topic,
            .retired: judgement.applied, .droppedProposals: judgement.dropped, .requeued: judgement.requeued,
            .reason: judgement.reason,
        ]
        switch judgement.verdict {
        case .calm where judgement.isProgress: logger.notice("devices with dead tokens are retired", fields)
        case .tripped where judgement.isProgress:
            logger.error("a storm of refused tokens: no device is retired, the scope is paused", fields)
        case .open where judgement.isProgress:
            logger.notice("proposals are dropped: nothing was accepted for a day", fields)
        case .calm, .open, .tripped: logger.debug("a window over refused tokens stands", fields)
        }
    }
}
