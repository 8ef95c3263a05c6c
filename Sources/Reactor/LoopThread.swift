// The thread under a loop, and the check whether one is on it.

import CLinux
import Synchronization
import Telemetry

/// A joinable POSIX thread that runs one body.
final class LoopThread: @unchecked Sendable {
    private let state = Lock(State())

    private struct State {
        var thread: pthread_t?
        var joined = false
    }

    // Written by the thread itself before the body runs; a stale read can only give the "not yet" that is right
    // for every other thread.
    private let identity = Atomic<UInt>(0)

    var isCurrent: Bool { identity.load(ordering: .relaxed) == UInt(pthread_self()) }

    func start(name: String, _ body: @escaping @Sendable () -> Void) throws(ReactorError) {
        let box = unsafe Unmanaged.passRetained(
            ThreadBody { [self] in
                identity.store(UInt(pthread_self()), ordering: .relaxed)
                _ = unsafe name.prefix(15).description.withCString { unsafe pthread_setname_np(pthread_self(), $0) }
                body()
            })
        var thread = pthread_t()
        let result = unsafe pthread_create(&thread, nil, runThreadBody, box.toOpaque())
        guard result == 0 else {
            unsafe box.release()
            throw ReactorError(call: "pthread_create", errno: result)
        }
        state.withLock { $0.thread = thread }
    }

    func join() {
        let thread = state.withLock { state -> pthread_t? in
            defer { state.joined = true }
            return state.joined ? nil : state.thread
        }
        if let thread { pthread_join(thread, nil) }
    }
}

/// A closure that can travel through `pthread_create`.
final class ThreadBody {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// The start routine of every thread of this module; takes over the retained body.
func runThreadBody(_ raw: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    if let raw = unsafe raw {
        unsafe Unmanaged<ThreadBody>.fromOpaque(raw).takeRetainedValue().run()
    }
    return nil
}
