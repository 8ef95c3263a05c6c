// One replica of the worker: a process that can be killed, frozen and started again, with a way of its own to the database and a
// clock of its own.

import Foundation
import TestSupport

/// A replica; its parts are used by the tasks of a scenario one at a time.
final class Replica: @unchecked Sendable {
    let number: Int
    /// Its way to the database.
    let database: TCPProxy
    private let rig: Rig
    private let options: [String]
    private let environment: [String: String]
    private let clockFile: String?
    private let lock = NSLock()
    private var process: WorkerProcess?
    private var peaks: [Int] = []
    private var mostConnections = 0

    /// Sets it up; `start` starts it.
    ///
    /// `gateways` are the variables that lead to Apple; with `hasOwnClock` `setClock` works, at the price of a preloaded library
    /// without which it throws.
    init(_ number: Int, _ rig: Rig, options: [String], gateways: [String: String], hasOwnClock: Bool) throws {
        self.number = number
        self.rig = rig
        self.options = options
        let (proxy, variables) = try rig.databaseProxy()
        database = proxy
        var environment = variables.merging(gateways) { $1 }
        clockFile = hasOwnClock ? "\(rig.simulator.folder)/clock-\(number)" : nil
        if let clockFile { environment.merge(try Self.fakeClock(clockFile)) { $1 } }
        self.environment = environment
        try setClock(ahead: 0)
    }

    /// A clock of its own (Debian package `faketime`).
    private static func fakeClock(_ file: String) throws -> [String: String] {
        [
            "LD_PRELOAD": try FakeTime.library(), "FAKETIME_TIMESTAMP_FILE": file, "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        ]
    }

    /// Its process, if there is one.
    var worker: WorkerProcess? { lock.withLock { process } }

    /// Whether it is stopped by SIGSTOP, or the way to the database does not let it through.
    var isHeldUp: Bool {
        guard database.isPassable, let worker else { return true }
        let text = (try? String(contentsOfFile: "/proc/\(worker.pid)/stat", encoding: .utf8)) ?? ""
        // The state follows the name in parentheses.
        return text.split(separator: ")").last?.hasPrefix(" T") ?? true
    }

    /// Starts it, unless it runs.
    func start() throws {
        try lock.withLock {
            if let process, process.isRunning { return }
            process = try WorkerProcess(options, environment: rig.environment.merging(environment) { $1 })
        }
    }

    /// Kills it, as the kernel does when memory is short.
    func kill() async {
        look()
        await worker?.kill()
    }

    /// Ends it in order.
    func stop() async throws {
        look()
        try await worker?.stop(within: .seconds(60))
    }

    /// Lets its calendar (not its monotonic clock) go ahead of the machine's.
    func setClock(ahead seconds: Int) throws {
        guard let clockFile else { return }
        try "\(seconds < 0 ? "-" : "+")\(abs(seconds))\n".write(toFile: clockFile, atomically: true, encoding: .utf8)
    }

    /// Notes what it uses at present.
    func look() {
        let (memory, connections) = (worker?.peakMemory, database.open)
        lock.withLock {
            if let memory { peaks.append(memory) }
            mostConnections = max(mostConnections, connections)
        }
    }

    /// The most memory of any of its processes in kB, and the most connections at once.
    var used: (memory: Int, connections: Int) { lock.withLock { (peaks.max() ?? 0, mostConnections) } }

    /// Ends everything.
    func close() async {
        await worker?.kill()
        database.close()
    }
}
