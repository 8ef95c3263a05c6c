// Lanes open connections each for themselves; Apple sees one process. What a way to it may cost in attempts is shared.

import HTTP2
import Telemetry

/// The budgets of connecting, one for each way, for all lanes of a process.
package final class ConnectBudgets: Sendable {
    private let budgets = Lock([Gateways.Key: ConnectBudget]())

    package init() {}

    /// The budget of a way, with the bounds of this configuration when it is new.
    func budget(for way: AppWay, _ configuration: HTTP2PoolConfiguration) -> ConnectBudget {
        budgets.withLock { budgets in
            let budget = budgets[Gateways.Key(way)] ?? ConnectBudget(configuration)
            budgets[Gateways.Key(way)] = budget
            return budget
        }
    }
}
