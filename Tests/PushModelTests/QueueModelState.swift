// One state of the model: what is committed, what is locked, what the workers remember, what Apple has seen. Every field is one
// byte (see `QueueModelIdentity`).

import PushModel

/// Who holds a row's lock or a batch's lease.
enum Party: UInt8 {
    case nobody, workerA, workerB, sweeper
    /// A transaction whose client has gone away, and that the server still works on.
    case stray
    /// An owner that is no more: a worker that was killed.
    case gone

    init(worker: Int) { self = worker == 0 ? .workerA : .workerB }

    /// 0 or 1 for a worker.
    var worker: Int { self == .workerB ? 1 : 0 }
    var bit: UInt8 { 1 << rawValue }
    /// With the workers' names exchanged.
    var swapped: Party {
        switch self {
        case .workerA: .workerB
        case .workerB: .workerA
        default: self
        }
    }
}

enum BatchState: UInt8 { case absent, ready, leased, done, abandoned }

/// A batch as it is committed, and who has locked its row.
///
/// A batch of a retry stands in the place of the one that it came from.
struct Batch {
    var state = BatchState.absent
    var owner = Party.nobody
    var lock = Party.nobody
    /// Ticks since the lease was granted, by the database's clock.
    var age: UInt8 = 0
    var attempt: UInt8 = 1
    var accepted: UInt8 = 0
    var rejected: UInt8 = 0
    var unknown: UInt8 = 0

    var isOpen: Bool { state == .ready || state == .leased }
}

/// What Apple has seen of a device.
struct Device {
    /// Whether a request was ever started.
    var isStarted = false
    /// Requests under way.
    var wires: UInt8 = 0
    /// A request was answered 200.
    var isDelivered = false
    /// A request was written and its end is not known.
    var isDoubtful = false
    /// Its sender was killed, or frozen until the lease was gone, when something had been written: a repeat is allowed.
    var isExcused = false
}

/// Where a worker is with a unit that it was given.
enum Phase: UInt8 {
    case none, waiting, onTheWire
    /// Ended, not written back: accepted, rejected for good, to be sent again, unknown.
    case accepted, rejected, again, unknown

    var isEnded: Bool { rawValue >= Phase.accepted.rawValue }
    var isTouched: Bool { rawValue >= Phase.onTheWire.rawValue }
}

/// A unit in a worker's memory.
struct Unit {
    var phase = Phase.none
    /// Whether owner and epoch are those of the batch's latest lease; nobody in the model knows that, but the fence asks for it.
    var isCurrent = false
    /// Told that it must not be sent any more.
    var isStopped = false
    /// Ticks since its lease was asked for, by the worker's clock.
    var asked: UInt8 = 0
    /// Ticks on the wire.
    var clock: UInt8 = 0
}

/// A worker's memory.
struct Worker {
    var isFrozen = false
    /// Whether it was frozen while it had something on the wire or not written back.
    var hasSlept = false
    var isConnected = true
    /// Ticks since the connection was made.
    var link: UInt8 = 0
    /// Something has been overdue since before the last tick.
    var isLate = false
    /// What was settled has to be finalised.
    var mustFinalise = false
    /// The answer to the commit of a claim was lost.
    var isInDoubt = false
    /// Batches of a claim that was committed while the worker was frozen, and how long ago it had asked.
    var granted: UInt8 = 0
    var grantedAge: UInt8 = 0
    /// For each batch the unit, and an older one of the same batch whose lease was lost.
    var unit0 = Unit()
    var unit1 = Unit()
    var old0 = Unit()
    var old1 = Unit()

    /// 0 and 1 by batch, 2 and 3 the older ones.
    subscript(place: Int) -> Unit {
        get {
            switch place {
            case 0: unit0
            case 1: unit1
            case 2: old0
            default: old1
            }
        }
        set {
            switch place {
            case 0: unit0 = newValue
            case 1: unit1 = newValue
            case 2: old0 = newValue
            default: old1 = newValue
            }
        }
    }

    var hasEnded: Bool { unit0.phase.isEnded || unit1.phase.isEnded || old0.phase.isEnded || old1.phase.isEnded }
    var hasTouched: Bool {
        unit0.phase.isTouched || unit1.phase.isTouched || old0.phase.isTouched || old1.phase.isTouched
    }
    var isAtRest: Bool {
        unit0.phase == .none && unit1.phase == .none && old0.phase == .none && old1.phase == .none && granted == 0
    }
}

/// A transaction under way.
///
/// Sets of batches are bit masks.
struct Transaction {
    enum Kind: UInt8 { case none, cut, take, settle, finalise, sweep }
    var kind = Kind.none
    var owner = Party.nobody
    /// The next step.
    var step: UInt8 = 0
    /// The batches concerned.
    var units: UInt8 = 0
    /// Settle: those of `units` whose lease is the latest.
    ///
    /// Cleared from outside when it is taken by somebody else.
    var current: UInt8 = 0
    /// What this transaction has changed and nobody else can see yet.
    var applied: UInt8 = 0
    /// Settle: of which batches the older of the worker's two units is meant.
    var olds: UInt8 = 0
    /// Finalise and sweep: the batches that are given up.
    var givenUp: UInt8 = 0
    /// Settle: whether numbers for new batches were drawn.
    var drawn: UInt8 = 0
    var phase0 = Phase.none
    var phase1 = Phase.none
    /// Finish: the status that was decided; pending for none.
    var outcome = NotificationStatus.pending

    func phase(_ batch: Int) -> Phase { batch == 0 ? phase0 : phase1 }
}

/// What a cancel returned.
enum CancelAnswer: UInt8 { case none, cancelled, cancelling }

struct QueueState {
    // The notification's row.
    var status = NotificationStatus.pending
    var isWalking = false
    /// How many batches have been cut.
    var cursor: UInt8 = 0
    var accepted: UInt8 = 0
    var rejected: UInt8 = 0
    var unknown: UInt8 = 0
    var isSentAtSet = false
    var lock = Party.nobody
    /// Who has it locked FOR SHARE.
    var shares: UInt8 = 0
    var cancel = CancelAnswer.none

    var batch0 = Batch()
    var batch1 = Batch()
    var device0 = Device()
    var device1 = Device()
    var workerA = Worker()
    var workerB = Worker()
    var transactionA = Transaction()
    var transactionB = Transaction()
    var sweep = Transaction()
    var stray = Transaction()
    /// Ticks since the sweep's connection was made.
    var sweepLink: UInt8 = 0
    var isDatabaseUp = true
    var faults: UInt8 = 0
    /// What is wrong with it, found on the way into it.
    var breach = Breach.none

    func batch(_ i: Int) -> Batch { i == 0 ? batch0 : batch1 }
    func device(_ i: Int) -> Device { i == 0 ? device0 : device1 }
    func worker(_ i: Int) -> Worker { i == 0 ? workerA : workerB }

    mutating func set(_ i: Int, _ batch: Batch) { if i == 0 { batch0 = batch } else { batch1 = batch } }
    mutating func set(_ i: Int, _ device: Device) { if i == 0 { device0 = device } else { device1 = device } }
    mutating func set(_ i: Int, _ worker: Worker) { if i == 0 { workerA = worker } else { workerB = worker } }

    func transaction(_ party: Party) -> Transaction {
        switch party {
        case .workerA: transactionA
        case .workerB: transactionB
        case .sweeper: sweep
        default: stray
        }
    }

    mutating func set(_ party: Party, _ transaction: Transaction) {
        switch party {
        case .workerA: transactionA = transaction
        case .workerB: transactionB = transaction
        case .sweeper: sweep = transaction
        default: stray = transaction
        }
    }

    /// Whether no transaction is under way.
    var isQuiet: Bool {
        transactionA.kind == .none && transactionB.kind == .none && sweep.kind == .none && stray.kind == .none
    }

    /// Whether a transaction of `party` can lock the notification's row.
    func canLock(_ party: Party) -> Bool { (lock == .nobody || lock == party) && shares & ~party.bit == 0 }

    /// The end of a transaction of `party`: its locks go.
    mutating func unlock(_ party: Party) {
        if lock == party { lock = .nobody }
        shares &= ~party.bit
        if batch0.lock == party { batch0.lock = .nobody }
        if batch1.lock == party { batch1.lock = .nobody }
        set(party, Transaction())
    }
}
