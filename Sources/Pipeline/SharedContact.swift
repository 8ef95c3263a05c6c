// What all sessions of a process together know of the database, for whoever wants to take over leases.

import Postgres
import PushModel
import Reactor
import Telemetry

/// The process's `DatabaseContact`; any thread.
final class SharedContact: Sendable {
    private let contact = Lock(DatabaseContact())
    private let rules: LeaseRules

    init(_ rules: LeaseRules) { self.rules = rules }

    /// A session has noticed something.
    func noticed(_ what: PostgresContact) {
        let now = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        contact.withLock { contact in
            switch what {
            case .answered: contact.answered(at: now, rules: rules)
            case .lost: contact.lost()
            }
        }
    }

    /// Whether the database answers, as far as anybody knows.
    var isAnswering: Bool {
        let now = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        return contact.withLock { $0.unbroken(at: now, rules: rules) } != nil
    }

    /// Whether leases of others may be taken over now.
    var mayRescue: Bool {
        let now = BootTime(nanoseconds: SystemClock.bootNanoseconds)
        return rules.mayRescue(contact: contact.withLock { $0.unbroken(at: now, rules: rules) })
    }
}
