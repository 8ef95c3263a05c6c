// A model of the queue, small enough to look at every state it can come into.
//
// One broadcast of two batches with one device each, two workers, a sweep, an operator who may cancel, and a few faults. Each
// transaction is a row of steps, one for each statement that takes a lock or a snapshot; what a step has decided becomes visible at
// the commit, and a row that is locked makes the next one wait, as PostgreSQL does under READ COMMITTED. Between any two steps
// anything else may happen. Time goes in ticks, by which all ages are counted; a tick comes only when nothing is overdue:
// transactions are short, a request ends by its deadline, a live worker writes back and reconnects in time. A frozen or dead
// worker owes nothing.
//
// What the product decides by a rule of PushModel is decided here by the same rule: `LeaseClock` and `LeaseRules` about the lease,
// `AnswerRules` and `RetryPolicy` about the end of a request, `NotificationStatus` about what may be sent or is over. What it
// decides in SQL is told here again, statement by statement: see `QueueModelStatements`, `QueueModelSettle`.
//
// Not in the model: pauses, expiry, lists and single notifications, more than one device in a batch, the rescue by a worker that
// was just started (`claim_batches` without `p_rescue`).

import PushModel
import TestSupport

/// A mistake that is put into the model to see whether it is found.
enum Mutation: String, CaseIterable {
    case finaliseInsideSettle
    case settleWithoutFence
    case settleFencedByOwnerAlone
    case rescueWithoutGrace
    case rescueRightAfterAnOutage
    case sweepRightAfterAnOutage
    case leaseWithoutMargin
    case deadlineFromTheAnswer
    case releaseOfWhatWasSent
    case cancelIgnoresWhatIsOut
    case claimWithoutLockOnTheParent
    case nothingAfterALostClaim
    case noSweep
}

/// What may go wrong, and how often in all.
struct Faults: OptionSet {
    let rawValue: UInt8
    /// kill −9: a worker loses its memory; it is back at once as another owner.
    static let crash = Faults(rawValue: 1)
    /// SIGSTOP, or a machine that sleeps: a worker does nothing until it is woken.
    static let freeze = Faults(rawValue: 2)
    /// A connection to the database breaks; what was under way on it may still be done or not.
    static let disconnect = Faults(rawValue: 4)
    /// The database goes down, with all that was under way, and comes back some time later.
    static let outage = Faults(rawValue: 8)
}

/// How a request may end.
enum RequestEnd: UInt8, CaseIterable {
    case accepted, deadToken, serverFault, notProcessed, unanswered
}

/// The part of the model's world that one exploration looks at.
struct Scene {
    let name: String
    var ends: [RequestEnd] = [.accepted]
    var mayCancel = false
    /// Whether time passes; without, everything is quicker than any lease.
    var hasTime = true
    /// Whether workers give back what they have not sent, as one does that is told to stop or cannot reach Apple.
    var givesBack = false
    var isAtMostOnce = false
    var faults: Faults = []
    /// How many faults there are at most.
    var faultLimit: UInt8 = 0
    /// Whether somebody sweeps.
    ///
    /// Without faults and cancels nothing may be left to it.
    var isSwept = true
    var mutation: Mutation?

    init(_ name: String, _ change: (inout Scene) -> Void = { _ in }) {
        self.name = name
        change(&self)
    }

    /// The same with a mistake in it.
    func with(_ mutation: Mutation) -> Scene {
        var scene = self
        scene.mutation = mutation
        if mutation == .noSweep { scene.isSwept = false }
        return scene
    }
}

/// The figures of the model: the product's rules at a scale of ticks, asked once for each age.
final class Figures {
    /// How long a request may be on the wire.
    ///
    /// The product's proportions: a request that was started at the last moment is answered or given up, and its result
    /// written, before a rescuer comes.
    static let request: UInt8 = 2
    let rules: LeaseRules
    /// By the ticks since the lease was asked for: whether a request may be started, whether it is time to renew.
    let maySend: [Bool]
    let mayRenew: [Bool]
    /// By the ticks since the database has been answering again: whether a worker may rescue.
    let mayRescue: [Bool]
    /// By the ticks since the lease was granted: whether a rescuer may take it.
    let isLost: [Bool]
    /// From these ages on nothing changes any more, so they are not counted further.
    let oldestAsked: UInt8
    let oldestLink: UInt8
    let oldestLease: UInt8
    /// What follows from each end of a request.
    let fates: [RequestFate]

    init(_ mutation: Mutation?) {
        var rules = LeaseRules(
            lease: .seconds(2), margin: .seconds(1), renewal: .seconds(1)...(.seconds(1)), grace: .seconds(1),
            comeback: .seconds(1), rescuerContact: .seconds(2))
        switch mutation {
        case .rescueRightAfterAnOutage: rules.rescuerContact = .zero
        case .leaseWithoutMargin: rules.margin = .zero
        default: break
        }
        self.rules = rules
        func at(_ tick: Int) -> BootTime { BootTime(nanoseconds: UInt64(tick + 1) * 1_000_000_000) }
        var random = SeededGenerator(seed: 1)
        let lease = LeaseClock(asked: at(0), rules: rules, using: &random)
        let ages = 0..<Self.ages
        maySend = ages.map { lease.maySend(at: at($0)) }
        mayRenew = ages.map { lease.renewAt <= at($0) }
        mayRescue = ages.map { age in
            // A process asks now and then; what it is told in each tick after an outage.
            var contact = DatabaseContact()
            for tick in 0...age { contact.answered(at: at(tick), rules: rules) }
            return rules.mayRescue(contact: contact.unbroken(at: at(age), rules: rules))
        }
        // As in claim_batches: lease_until < now() - p_grace.
        let grace = mutation == .rescueWithoutGrace ? .zero : rules.grace
        isLost = ages.map { rules.lease < .seconds($0) - grace }
        oldestAsked = UInt8(maySend.firstIndex(of: false) ?? 0)
        oldestLink = UInt8(mayRescue.firstIndex(of: true) ?? 0)
        oldestLease = UInt8(isLost.firstIndex(of: true) ?? 0)
        fates = RequestEnd.allCases.map { end in
            switch end {
            case .accepted: AnswerRules.verdict(PushAnswer(status: 200)).request
            case .deadToken: AnswerRules.verdict(PushAnswer(status: 410, reason: "Unregistered")).request
            case .serverFault: AnswerRules.verdict(PushAnswer(status: 503, reason: "ServiceUnavailable")).request
            case .notProcessed: Verdict.notProcessed.request
            case .unanswered: Verdict.unanswered.request
            }
        }
    }

    /// Longer than anything is counted.
    static let ages = 8
    /// Two attempts, so that a second one and its end can be seen.
    private static let policy = RetryPolicy(maximumAttempts: 2)

    /// Whether a device is tried again after a charged attempt.
    func isTriedAgain(_ kind: RetryKind, attempt: UInt8) -> Bool {
        var random = SeededGenerator(seed: UInt64(attempt))
        if case .again = Self.policy.decide(kind, attempt: Int(attempt), using: &random) { return true }
        return false
    }
}
