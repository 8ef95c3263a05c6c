// The event loop of a lane: one thread, one epoll, timers, and the jobs of the actors that live on it.
//
// One turn of the loop:
//
//     epoll_wait ──► I/O handlers ──► due timers ──► mailbox ──► actor jobs ──► end-of-turn handlers ─┐
//         ▲                                             ▲                                             │ while there
//         │                                             └─────────────────────────────────────────────┘ is more
//         └── (does not sleep when jobs are left over)
//
// Reading comes first and writing (the end-of-turn handlers) last, so that what a turn produced for one
// connection leaves in one write. Handlers run on the loop's thread and never overlap.

import CLinux
import Synchronization
import Telemetry

/// What a descriptor is watched for.
package struct IOInterest: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }
    /// Bytes can be read, or the peer has closed.
    package static let readable = IOInterest(rawValue: EPOLLIN.rawValue)
    /// Bytes can be written.
    package static let writable = IOInterest(rawValue: EPOLLOUT.rawValue)
    /// The peer has closed, whatever of its bytes is still to be read.
    package static let peerClosed = IOInterest(rawValue: EPOLLRDHUP.rawValue)
}

/// What has happened on a descriptor.
package struct IOEvents: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }
    /// Bytes can be read, or the peer has closed.
    package static let readable = IOEvents(rawValue: EPOLLIN.rawValue)
    /// Bytes can be written.
    package static let writable = IOEvents(rawValue: EPOLLOUT.rawValue)
    /// The peer has closed; only when it was asked for.
    package static let peerClosed = IOEvents(rawValue: EPOLLRDHUP.rawValue)
    /// Both directions are closed.
    package static let hangup = IOEvents(rawValue: EPOLLHUP.rawValue)
    /// An error is pending on the descriptor.
    package static let error = IOEvents(rawValue: EPOLLERR.rawValue)
}

/// Somebody who watches a descriptor.
package protocol IOHandler: AnyObject {
    /// Called on the loop while an event that was asked for holds (level-triggered).
    func ready(_ events: IOEvents)
}

/// Somebody with work to do once at the end of a turn.
package protocol TurnHandler: AnyObject {
    /// Called on the loop after all reading of the turn is done.
    func turnEnded()
}

/// A watch on one descriptor.
package struct IORegistration: Hashable, Sendable {
    let descriptor: Int32
    let slot: Int
    let generation: UInt32
}

/// One thread that waits for descriptors and timers and runs the actors that live on it.
///
/// Members marked "any thread" may be called from everywhere; all others only on the loop's own thread.
package final class EventLoop: @unchecked Sendable {
    /// The name of the loop and of its thread (15 characters at most are seen in `top`).
    package let name: String

    private let epoll: Int32
    private let wakeup: Int32
    private let shared = Lock(Mailbox())
    private let thread = LoopThread()
    private let foreignCount = Atomic(0)

    // Only the loop's thread touches what follows.
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    private var timers = TimerHeap()
    private var jobs: [UnownedJob] = []
    private var turnHandlers: [any TurnHandler] = []
    private var spareTurnHandlers: [any TurnHandler] = []
    private var running = true

    /// The time of the current turn, read once after waiting.
    package private(set) var now = MonotonicTime.now()

    /// Actors name this as their executor (any thread).
    package private(set) lazy var serialExecutor = LoopSerialExecutor(loop: self)
    /// Tasks are started with this as their preference (any thread).
    package private(set) lazy var taskExecutor = LoopTaskExecutor(loop: self)

    private struct Slot {
        var handler: (any IOHandler)?
        var generation: UInt32 = 0
    }

    private struct Mailbox {
        var work: [@Sendable () -> Void] = []
        var jobs: [UnownedJob] = []
        var isAwake = false
    }

    /// Makes a loop; `start` begins its thread.
    package init(name: String) throws(ReactorError) {
        self.name = name
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw .last("epoll_create1") }
        wakeup = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
        guard wakeup >= 0 else {
            let failure = ReactorError.last("eventfd")
            close(epoll)
            throw failure
        }
        var event = unsafe epoll_event()
        unsafe event.events = EPOLLIN.rawValue
        unsafe event.data.u64 = .max
        guard unsafe epoll_ctl(epoll, EPOLL_CTL_ADD, wakeup, &event) == 0 else { throw .last("epoll_ctl") }
        _ = serialExecutor
        _ = taskExecutor
    }

    deinit {
        close(wakeup)
        close(epoll)
    }

    // MARK: Any thread

    /// Whether the calling thread is the loop's own (any thread).
    package var isCurrent: Bool { thread.isCurrent }

    /// How many jobs came from another thread: a count that grows with the work means that some change of code or
    /// toolchain bounces resumed tasks through the global pool (any thread).
    package var foreignEnqueues: Int { foreignCount.load(ordering: .relaxed) }

    /// Starts the loop's thread; once only (any thread).
    package func start() throws(ReactorError) { try thread.start(name: name) { self.run() } }

    /// Asks the loop to end after the current turn (any thread).
    package func stop() { execute { self.running = false } }

    /// Waits until the loop's thread has ended (any thread but its own).
    package func join() { thread.join() }

    /// Runs `work` on the loop, in the order of the calls (any thread).
    package func execute(_ work: @escaping @Sendable () -> Void) {
        post { $0.work.append(work) }
    }

    /// Takes a job of an actor or a task of this loop (any thread).
    func enqueue(_ job: UnownedJob) {
        if isCurrent {
            jobs.append(job)
        } else {
            foreignCount.add(1, ordering: .relaxed)
            post { $0.jobs.append(job) }
        }
    }

    private func post(_ put: (inout Mailbox) -> Void) {
        let mustWake = shared.withLock { mailbox in
            put(&mailbox)
            if mailbox.isAwake { return false }
            mailbox.isAwake = true
            return true
        }
        if mustWake { wake() }
    }

    private func wake() {
        var one: UInt64 = 1
        // EAGAIN means the counter is full, so the loop will wake up anyway.
        _ = unsafe write(wakeup, &one, 8)
    }

    // MARK: Descriptors

    /// Watches `descriptor` until `deregister`; the handler is kept alive meanwhile.
    package func register(
        _ descriptor: Int32, _ interest: IOInterest, _ handler: any IOHandler
    ) throws(ReactorError) -> IORegistration {
        assertOnLoop()
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot].generation &+= 1
        slots[slot].handler = handler
        let registration = IORegistration(descriptor: descriptor, slot: slot, generation: slots[slot].generation)
        guard control(EPOLL_CTL_ADD, registration, interest) else {
            let failure = ReactorError.last("epoll_ctl")
            release(registration)
            throw failure
        }
        return registration
    }

    /// Changes what the descriptor is watched for.
    package func modify(_ registration: IORegistration, _ interest: IOInterest) {
        assertOnLoop()
        guard isLive(registration) else { return }
        // The descriptor is open and registered, so the kernel can only run out of memory here; the watch then
        // stays as it was and the deadline of whoever waits takes over.
        _ = control(EPOLL_CTL_MOD, registration, interest)
    }

    /// Ends the watch; call before closing the descriptor.
    package func deregister(_ registration: IORegistration) {
        assertOnLoop()
        guard isLive(registration) else { return }
        _ = control(EPOLL_CTL_DEL, registration, [])
        release(registration)
    }

    private func control(_ operation: Int32, _ registration: IORegistration, _ interest: IOInterest) -> Bool {
        var event = unsafe epoll_event()
        unsafe event.events = interest.rawValue
        unsafe event.data.u64 = UInt64(registration.generation) << 32 | UInt64(registration.slot)
        return unsafe epoll_ctl(epoll, operation, registration.descriptor, &event) == 0
    }

    private func isLive(_ registration: IORegistration) -> Bool {
        slots[registration.slot].generation == registration.generation && slots[registration.slot].handler != nil
    }

    private func release(_ registration: IORegistration) {
        slots[registration.slot].handler = nil
        freeSlots.append(registration.slot)
    }

    // MARK: Timers and turns

    /// Calls `action` once, not before `delay` has passed.
    @discardableResult
    package func schedule(after delay: Duration, _ action: @escaping () -> Void) -> LoopTimer {
        assertOnLoop()
        let timer = LoopTimer(due: MonotonicTime.now().advanced(by: delay), action: action)
        timers.insert(timer)
        return timer
    }

    /// Takes a timer back; harmless when it has fired.
    package func cancel(_ timer: LoopTimer) {
        assertOnLoop()
        timers.remove(timer)
    }

    /// Calls `handler` once at the end of this turn, before anything is waited for.
    package func atEndOfTurn(_ handler: any TurnHandler) {
        assertOnLoop()
        turnHandlers.append(handler)
    }

    /// Traps in debug builds when the caller is not on the loop's thread.
    package func assertOnLoop() { assert(isCurrent, "this call belongs to the loop \(name)") }

    // MARK: The loop

    private func run() {
        var events = unsafe [epoll_event](repeating: epoll_event(), count: 256)
        while running {
            let count = unsafe wait(&events)
            now = .now()
            for index in 0..<count { unsafe dispatch(events[index]) }
            while let action = timers.popDue(now) { action() }
            settleTurn()
        }
    }

    private func wait(_ events: inout [epoll_event]) -> Int {
        let timeout = jobs.isEmpty && turnHandlers.isEmpty ? untilNextTimer() : 0
        let count = unsafe epoll_wait(epoll, &events, Int32(events.count), timeout)
        // EINTR and nothing else can go wrong here: a turn without events.
        return max(0, Int(count))
    }

    private func untilNextTimer() -> Int32 {
        guard let due = timers.earliest else { return -1 }
        return Int32(clamping: max(0, due.since(.now()).millisecondsRoundedUp))
    }

    private func dispatch(_ event: epoll_event) {
        let data = unsafe event.data.u64
        guard data != .max else { return drainWakeup() }
        let slot = Int(data & 0xffff_ffff)
        // An event for a descriptor that was given up earlier in this turn is stale.
        guard slot < slots.count, slots[slot].generation == UInt32(data >> 32), let handler = slots[slot].handler
        else { return }
        handler.ready(unsafe IOEvents(rawValue: event.events))
    }

    private func drainWakeup() {
        var count: UInt64 = 0
        _ = unsafe read(wakeup, &count, 8)
    }

    /// Runs what the turn brought until nothing is left, but not for ever: I/O must have its turn again.
    private func settleTurn() {
        for _ in 0..<16 {
            takeMail()
            runJobs()
            runTurnHandlers()
            if jobs.isEmpty && turnHandlers.isEmpty { return }
        }
    }

    private func takeMail() {
        let mail = shared.withLock { mailbox in
            let mail = mailbox
            mailbox = Mailbox()
            return mail
        }
        for work in mail.work { work() }
        jobs.append(contentsOf: mail.jobs)
    }

    private func runJobs() {
        var next = 0
        // Jobs may add jobs; they run in order in the same sweep, up to a bound.
        while next < jobs.count, next < 4096 {
            let job = jobs[next]
            unsafe job.runSynchronously(
                isolatedTo: serialExecutor.asUnownedSerialExecutor(), taskExecutor: taskExecutor.asUnownedTaskExecutor()
            )
            next += 1
        }
        jobs.removeFirst(next)
    }

    private func runTurnHandlers() {
        swap(&turnHandlers, &spareTurnHandlers)
        for handler in spareTurnHandlers { handler.turnEnded() }
        spareTurnHandlers.removeAll(keepingCapacity: true)
    }
}
