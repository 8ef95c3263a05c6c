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

    private func judge() async {
        do throws(PostgresError) {
            for judgement in try await store.judgeWindows(laneSettings.apps) { report(judgement) }
        } catch {
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
        case .calm: logger.notice("devices with dead tokens are retired", fields)
        case .tripped: logger.error("a storm of refused tokens: no device is retired, the scope is paused", fields)
        case .open where judgement.dropped > 0:
            logger.notice("proposals are dropped: nothing was accepted for a day", fields)
        case .open: logger.debug("a window over refused tokens is open", fields)
        }
    }
}
