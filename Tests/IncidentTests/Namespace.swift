// A process namespace of a worker's own, as in a container: there it is process 1, and whatever it started dies with it.

import Foundation
import TestSupport
import Testing

/// Commands that run a worker in a process namespace of its own.
enum Namespace {
    /// The wrapper for `Rig.worker`; process 1 is the worker, or a shell that runs the script `shell` with the worker's command line
    /// as its arguments.
    static func command(shell: String? = nil) -> [String] {
        let account = geteuid() == 0 ? [] : ["--user", "--map-root-user"]
        let words = ["/usr/bin/unshare"] + account + ["--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL", "--"]
        return words + (shell.map { ["/bin/sh", "-c", $0, "sh"] } ?? [])
    }

    /// The process id, seen from outside, of process 1 in the namespace of this worker.
    static func first(of worker: WorkerProcess) throws -> pid_t {
        let children = try String(contentsOfFile: "/proc/\(worker.pid)/task/\(worker.pid)/children", encoding: .utf8)
        return try #require(pid_t(children.trimmingCharacters(in: .whitespaces)), "\(children)")
    }
}
