// What a process holds, read from /proc: open descriptors by kind, threads, memory. Tests of endurance compare a reading taken once
// a worker has warmed up with readings after hundreds of faults; what must come back to where it was, comes back here.

import Foundation

/// What the kernel counts for a process at one moment.
package struct ProcessReading: Sendable, Equatable, CustomStringConvertible {
    /// Open descriptors by what they are: `socket`, `pipe`, `file`, `anon_inode:[eventpoll]`, ….
    package let descriptorKinds: [String: Int]
    package let threads: Int
    /// VmRSS: all that is resident, mapped files too, in kilobytes.
    package let resident: Int
    /// RssAnon: heap and stacks alone, in kilobytes; where a leak shows first.
    package let anonymous: Int

    /// All open descriptors.
    package var descriptors: Int { descriptorKinds.values.reduce(0, +) }
    /// Open sockets, connected or not.
    package var sockets: Int { descriptorKinds["socket"] ?? 0 }

    package var description: String {
        let kinds = descriptorKinds.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        return "\(descriptors) descriptors (\(kinds.joined(separator: ", "))), \(threads) threads, "
            + "\(resident) kB resident, \(anonymous) kB of them anonymous"
    }

    /// Reads the counts of a process.
    ///
    /// - Throws: `CommandError` when it has ended.
    package init(of pid: Int32) throws {
        let folder = "/proc/\(pid)"
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/fd"),
            let status = try? String(contentsOfFile: "\(folder)/status", encoding: .utf8)
        else { throw CommandError(description: "process \(pid) has ended") }
        var kinds: [String: Int] = [:]
        for name in names {
            // One that was closed since the folder was read counts no more.
            guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/fd/\(name)") else {
                continue
            }
            kinds[ProcessReading.kind(target), default: 0] += 1
        }
        descriptorKinds = kinds
        let fields = status.split(separator: "\n").map { $0.split(separator: ":", maxSplits: 1) }
        func field(_ name: String) -> Int {
            let value = fields.first { $0.first == name[...] }?.last ?? ""
            return Int(value.filter(\.isNumber)) ?? 0
        }
        threads = field("Threads")
        resident = field("VmRSS")
        anonymous = field("RssAnon")
    }

    /// `socket:[123]` is a socket, `/var/log/x` a file, `anon_inode:[eventpoll]` stays.
    private static func kind(_ target: String) -> String {
        if target.hasPrefix("/") { return "file" }
        return target.hasPrefix("anon_inode:") ? target : String(target.prefix { $0 != ":" })
    }
}

extension WorkerProcess {
    /// What it holds now.
    ///
    /// - Throws: `WorkerFailure` when it has ended.
    package func reading() throws -> ProcessReading {
        do { return try ProcessReading(of: pid) } catch { throw failure("has ended, so it cannot be looked at") }
    }

    /// Waits until what it holds meets the condition, and returns that reading.
    ///
    /// - Throws: `WorkerFailure` with the last reading when it does not within the limit.
    package func reading(
        within limit: Duration = .seconds(60), until isMet: (ProcessReading) -> Bool
    ) async throws -> ProcessReading {
        let deadline = ContinuousClock.now + limit
        while true {
            let reading = try reading()
            if isMet(reading) { return reading }
            guard ContinuousClock.now < deadline else { throw failure("still holds \(reading) after \(limit)") }
            // The kernel tells nobody when a descriptor is closed.
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
