// What signals do to a verb that is not a worker: it ends with the usual exit code. Without a handler the kernel would do the same,
// but not in a container, where pgpush is process 1 and signals without a handler are dropped. A worker blocks them and reads
// them itself.

import Glibc
import PushStore

/// Ends by signal.
enum Interrupt {
    /// SIGINT ends with 130, SIGTERM with 143.
    static func install() {
        signal(SIGINT) { _ in _exit(ExitCode.interrupted.rawValue) }
        signal(SIGTERM) { _ in _exit(128 + SIGTERM) }
    }

    /// The same for SIGINT, on a new line: a live line has no end of its own.
    static func breakLine() {
        signal(SIGINT) { _ in
            _ = unsafe write(STDERR_FILENO, "\n", 1)
            _exit(ExitCode.interrupted.rawValue)
        }
    }
}
