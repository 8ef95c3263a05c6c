// Signals as events of a loop. They must be blocked before the first other thread starts, so that no thread
// takes them the old way.

import CLinux

/// Receives signals on a loop, through a signalfd.
package final class SignalWatch: IOHandler {
    private let loop: EventLoop
    private let descriptor: Int32
    private let action: (Int32) -> Void
    private var registration: IORegistration?

    /// Blocks `signals` for this thread and all it starts, and ignores SIGPIPE; call first thing in `main`.
    package static func block(_ signals: [Int32]) {
        pgpush_ignore_sigpipe()
        var set = makeSet(signals)
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Calls `action` on the loop for each of `signals` that arrives, until `close`.
    package init(loop: EventLoop, signals: [Int32], action: @escaping (Int32) -> Void) throws(ReactorError) {
        self.loop = loop
        self.action = action
        var set = SignalWatch.makeSet(signals)
        descriptor = unsafe signalfd(-1, &set, Int32(SFD_NONBLOCK) | Int32(SFD_CLOEXEC))
        guard descriptor >= 0 else { throw .last("signalfd") }
        registration = try loop.register(descriptor, .readable, self)
    }

    /// Stops watching.
    package func close() {
        guard let registration else { return }
        self.registration = nil
        loop.deregister(registration)
        CLinux.close(descriptor)
    }

    package func ready(_ events: IOEvents) {
        var info = signalfd_siginfo()
        let size = MemoryLayout<signalfd_siginfo>.size
        while registration != nil, unsafe read(descriptor, &info, size) == size { action(Int32(info.ssi_signo)) }
    }

    private static func makeSet(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal) }
        return set
    }
}
