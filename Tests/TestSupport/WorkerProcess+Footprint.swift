// What a running worker holds of the machine, as /proc tells it: for tests that look for leaks and busy loops.

import Foundation

/// Counts that come back to where they were when nothing leaks.
package struct Footprint: Sendable, CustomStringConvertible {
    /// Open file descriptors.
    package let descriptors: Int
    package let threads: Int
    /// Resident memory in kilobytes.
    package let memory: Int

    package var description: String { "\(descriptors) descriptors, \(threads) threads, \(memory) kB" }
}

extension WorkerProcess {
    /// What it holds at this moment.
    ///
    /// - Throws: when it has ended.
    package func footprint() throws -> Footprint {
        let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        let fields = status.split(separator: "\n").reduce(into: [String: Int]()) { fields, line in
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { fields[String(parts[0])] = Int(parts[1].filter(\.isNumber)) }
        }
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd")
        return Footprint(
            descriptors: descriptors.count, threads: fields["Threads"] ?? 0, memory: fields["VmRSS"] ?? 0)
    }

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
