// How much a running worker has worked, as /proc tells it: for tests that look for busy loops.

import Foundation

extension WorkerProcess {
    /// Processor time that it has used so far, in user and system mode.
    ///
    /// - Throws: when it has ended.
    package func processorTime() throws -> Duration {
        let line = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
        // The name in parentheses may hold blanks; utime and stime are the 14th and 15th field of all.
        let fields = line[(line.lastIndex(of: ")") ?? line.startIndex)...].split(separator: " ")
        let ticks = fields.count > 13 ? (Int(fields[12]) ?? 0) + (Int(fields[13]) ?? 0) : 0
        return .milliseconds(ticks * 1000 / sysconf(Int32(_SC_CLK_TCK)))
    }
}
