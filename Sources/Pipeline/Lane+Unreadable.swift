// What a claim brings and this version cannot read: kept for a while, said aloud, given back.

import PushStore
import Reactor
import Telemetry

extension Lane {
    /// Keeps what a claim has brought and nobody here understands.
    func keepUnreadable(_ units: [UnreadableUnit]) {
        guard !units.isEmpty else { return }
        held.formUnion(units.lazy.map(\.key))
        unreadable.keep(units, at: .now())
        if isKeeperIdle { mayKeep.raise() }
        if !settings.once { loop.schedule(after: UnreadableUnits.keeping) { [mayClaim] in mayClaim.raise() } }
        for unit in units {
            guard let omitted = rowFaults.admit(unit.fault, at: loop.now.nanoseconds) else { continue }
            logger.error(
                "a row cannot be read and waits for a newer pgpush; is this one older than the schema?",
                [.notification: unit.key.notification, .app: unit.app, .error: unit.fault, .omitted: omitted])
        }
    }
}
