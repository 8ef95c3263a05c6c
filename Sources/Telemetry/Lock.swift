// A mutex around a value, over pthread_mutex_t.
//
// Why not Synchronization.Mutex: its lock is invisible to the thread sanitizer, which then reports races that are none;
// a pthread mutex costs the same. Contract: hold it for a few instructions, never while waiting for anything else.

import Glibc

/// A value that may be touched only under its lock; shared freely between threads.
@safe package final class Lock<State>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var state: State

    /// Makes the lock with the state it guards.
    package init(_ state: sending State) {
        unsafe mutex = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        // A default mutex cannot fail to initialise on Linux (no resource is allocated).
        unsafe pthread_mutex_init(mutex, nil)
        self.state = state
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Runs `body` with exclusive access to the state and returns what it returns.
    package func withLock<R, E: Error>(_ body: (inout State) throws(E) -> sending R) throws(E) -> sending R {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&state)
    }
}
