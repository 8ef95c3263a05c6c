// A container that starts its program by `sh -c` without exec has the shell as process 1. The kernel keeps signals from a process 1
// that has no handler for them, so SIGTERM is lost there and the worker below never hears of it.

import Glibc

/// Who is process 1 where this process runs.
enum ProcessOne {
    private static let shells: Set<String> = ["sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh"]

    /// The shell that is process 1 and started this process; nil when there is none.
    static var shell: String? {
        guard getppid() == 1, let name = try? InputFile.read("/proc/1/comm", for: "process 1") else { return nil }
        let command = String(name.prefix { !$0.isNewline })
        return shells.contains(command) ? command : nil
    }
}
