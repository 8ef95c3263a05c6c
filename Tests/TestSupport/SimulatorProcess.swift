// A running apns-simulator for tests: started from the build folder, watched for its ready line, steered by control
// commands, its journal read while it runs. It ends with the test process, whatever happens to that, because its
// commands come through a pipe whose end ends it.

package import Foundation

/// What can go wrong with a simulator in a test.
package struct SimulatorFailure: Error, CustomStringConvertible {
    package let description: String

    /// Says what went wrong.
    package init(description: String) { self.description = description }
}

/// An apns-simulator in a process of its own.
///
/// Start it with `run`, which also ends it, or with `start` and `stop`. All waits are bounded.
package final class SimulatorProcess: @unchecked Sendable {
    /// `https://127.0.0.1:port` of the two services.
    package let productionURL: String
    package let sandboxURL: String
    /// Where their channels are managed.
    package let manageURL, sandboxManageURL: String
    /// The variables that a worker needs to reach it: APNS_PRODUCTION_URL and so on.
    package let environment: [String: String]
    /// Where journal, credentials and stderr lie; removed at the end.
    package let folder: String

    private let process: ChildProcess
    private let commands: FileHandle
    private let inbox: Inbox
    private let ending = NSLock()
    private var hasEnded = false

    /// The port of the production service.
    package var productionPort: Int { URL(string: productionURL)?.port ?? 0 }
    /// The port of the sandbox.
    package var sandboxPort: Int { URL(string: sandboxURL)?.port ?? 0 }
    /// The process id.
    package var processID: Int32 { process.pid }
    /// What it wrote on stderr so far.
    package var complaints: String { (try? String(contentsOfFile: folder + "/stderr", encoding: .utf8)) ?? "" }
    /// The CA certificate that clients must trust.
    package var authorityPath: String { environment["APNS_CA_PATH"] ?? "" }

    // MARK: Start and end

    /// Runs `body` with a simulator and ends it afterwards.
    package static func run<T>(
        _ arguments: [String] = [], onePort: Bool = false, _ body: (SimulatorProcess) async throws -> T
    ) async throws -> T {
        let simulator = try await start(arguments, onePort: onePort)
        do {
            let result = try await body(simulator)
            await simulator.stop()
            return result
        } catch {
            await simulator.stop()
            throw error
        }
    }

    /// Starts a simulator on two free ports with credentials of its own; `arguments` are added to its command line.
    ///
    /// - Throws: `SimulatorFailure` with what it said on stderr, when it is not ready within a minute.
    package static func start(_ arguments: [String] = [], onePort: Bool = false) async throws -> SimulatorProcess {
        // A simulator that has gone must not take the tests with it.
        signal(SIGPIPE, SIG_IGN)
        let folder = NSTemporaryDirectory() + "/apns-simulator-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        // Of its own: it closes its ports and opens them again when the weather says so.
        let (production, sandbox) = (try FreePort.find(), try FreePort.find())
        let options =
            [
                "--port", "\(production)", "--ca-dir", folder + "/credentials", "--print-env", folder + "/env",
                "--journal",
                folder + "/journal", "--control-stdin",
            ] + (onePort ? [] : ["--sandbox-port", "\(sandbox)"]) + arguments
        let (input, output) = (try ClosedPipe(), try ClosedPipe())
        try Data().write(to: URL(fileURLWithPath: folder + "/stderr"))
        let errors = try FileHandle(forWritingTo: URL(fileURLWithPath: folder + "/stderr"))
        let process = try ChildProcess(
            executable("apns-simulator").path, options, input: input.reader.fileDescriptor,
            output: output.writer.fileDescriptor, errors: errors.fileDescriptor)
        // Only the child may hold its end, or ours would never see the other's end.
        try output.writer.close()
        let inbox = Inbox()
        inbox.read(from: output.reader)
        do {
            let ready = try await inbox.answer(to: "", within: .seconds(60)) {}
            return try SimulatorProcess(ready, folder, process, input.writer, inbox)
        } catch {
            process.signal(SIGKILL)
            let complaints = (try? String(contentsOfFile: folder + "/stderr", encoding: .utf8)) ?? ""
            throw SimulatorFailure(description: "apns-simulator did not start: \(error) \(complaints)")
        }
    }

    private init(
        _ ready: String, _ folder: String, _ process: ChildProcess, _ commands: FileHandle, _ inbox: Inbox
    ) throws {
        self.folder = folder
        self.process = process
        self.commands = commands
        self.inbox = inbox
        productionURL = try SimulatorProcess.word("production", in: ready)
        sandboxURL = try SimulatorProcess.word("sandbox", in: ready)
        manageURL = try SimulatorProcess.word("manage", in: ready)
        sandboxManageURL = try SimulatorProcess.word("sandbox-manage", in: ready)
        let lines = try String(contentsOfFile: folder + "/env", encoding: .utf8).split(separator: "\n")
        let pairs = lines.map { $0.split(separator: "=", maxSplits: 1).map(String.init) }.filter { $0.count == 2 }
        environment = Dictionary(pairs.map { ($0[0], $0[1]) }, uniquingKeysWith: { $1 })
    }

    deinit { try? commands.close() }

    /// Ends the simulator as an operator would (SIGTERM), or by the end of its input; removes its folder.
    ///
    /// - Returns: the exit code; nil when it had to be killed, or was ended before.
    @discardableResult
    package func stop(bySignal: Bool = false, keepFolder: Bool = false) async -> Int32? {
        guard
            ending.withLock({
                defer { hasEnded = true }
                return !hasEnded
            })
        else { return nil }
        if bySignal { process.signal(SIGTERM) } else { try? commands.close() }
        let code = await process.end(within: .seconds(60))
        if !keepFolder { try? FileManager.default.removeItem(atPath: folder) }
        return code
    }

    /// An executable of this package, next to the test bundle.
    package static func executable(_ name: String) -> URL {
        let bundle = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        return bundle.deletingLastPathComponent().appendingPathComponent(name)
    }

    private static func word(_ name: String, in line: String) throws -> String {
        for word in line.split(separator: " ") where word.hasPrefix(name + "=") {
            return String(word.dropFirst(name.count + 1))
        }
        throw SimulatorFailure(description: "no \(name) in the ready line: \(line)")
    }

    // MARK: Control

    /// Sends a control command (`apns-simulator --help` lists them) and returns what follows `ok` in its answer.
    @discardableResult
    package func control(_ command: String, within limit: Duration = .seconds(60)) async throws -> String {
        let tag = "#" + UUID().uuidString + " "
        let answer = try await inbox.answer(to: tag, within: limit) { [commands] in
            try commands.write(contentsOf: Data("\(tag)\(command)\n".utf8))
        }
        guard answer.hasPrefix("ok") else { throw SimulatorFailure(description: "\(command): \(answer)") }
        return answer.dropFirst(2).trimmingCharacters(in: .whitespaces)
    }

    /// Changes the weather: `set("latency-ms", 20)`.
    package func set(_ name: String, _ value: any CustomStringConvertible & Sendable) async throws {
        try await control("set \(name) \(value)")
    }

    /// What can be waited for.
    package enum Milestone: String, Sendable {
        case requests, answered, accepted, held, unanswered, knocks, opened, closed, open
    }

    /// Waits until the simulator has counted so many; throws when it has not within the limit.
    @discardableResult
    package func wait(for what: Milestone, atLeast count: Int, within limit: Duration = .seconds(120)) async throws
        -> Int
    {
        let milliseconds = Int(limit / .milliseconds(1))
        let answer = try await control("await \(what.rawValue) \(count) \(milliseconds)", within: limit + .seconds(60))
        return Int(answer) ?? 0
    }

    /// All counts since the start or the last `control("forget")`.
    package func counts() async throws -> SimulatorCounts {
        try SimulatorJournal.decoder.decode(SimulatorCounts.self, from: Data(try await control("counts").utf8))
    }

    // MARK: Journal

    /// The journal so far.
    ///
    /// Whoever has seen an answer finds its request here.
    package func journal() throws -> SimulatorJournal {
        try SimulatorJournal(contentsOf: folder + "/journal")
    }
}

/// Lines from the simulator, each on its way to whoever waits for it.
private final class Inbox: @unchecked Sendable {
    private let lock = NSLock()
    private var waiting: [String: CheckedContinuation<String, any Error>] = [:]
    private var early: [String] = []
    private var isClosed = false

    /// Sends something and waits for the line that begins with `tag` (empty: for any line).
    func answer(to tag: String, within limit: Duration, _ send: @escaping () throws -> Void) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            guard register(tag, continuation) else { return }
            DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(limit / .nanoseconds(1)))) {
                self.finish(tag, .failure(SimulatorFailure(description: "no answer within \(limit)")))
            }
            do { try send() } catch { finish(tag, .failure(error)) }
        }
    }

    /// Starts a thread that reads lines until the end.
    func read(from handle: FileHandle) {
        let thread = Thread { [self] in
            var partial = Data()
            // `availableData` returns what there is; empty at the end.
            while case let chunk = handle.availableData, !chunk.isEmpty {
                partial.append(chunk)
                while let end = partial.firstIndex(of: 0x0A) {
                    deliver(String(decoding: partial[partial.startIndex..<end], as: UTF8.self))
                    partial = Data(partial[partial.index(after: end)...])
                }
            }
            close()
        }
        thread.start()
    }

    private func register(_ tag: String, _ continuation: CheckedContinuation<String, any Error>) -> Bool {
        let (ready, gone) = lock.withLock { () -> (String?, Bool) in
            if tag.isEmpty, !early.isEmpty { return (early.removeFirst(), false) }
            if isClosed { return (nil, true) }
            waiting[tag] = continuation
            return (nil, false)
        }
        if let ready { continuation.resume(returning: ready) }
        if gone { continuation.resume(throwing: SimulatorFailure(description: "the simulator has ended")) }
        return ready == nil && !gone
    }

    private func deliver(_ line: String) {
        let tag = line.hasPrefix("#") ? String(line.prefix { $0 != " " }) + " " : ""
        let isAwaited = lock.withLock {
            if waiting[tag] == nil, tag.isEmpty { early.append(line) }
            return waiting[tag] != nil
        }
        if isAwaited { finish(tag, .success(String(line.dropFirst(tag.count)))) }
    }

    private func finish(_ tag: String, _ result: Result<String, any Error>) {
        lock.withLock { waiting.removeValue(forKey: tag) }?.resume(with: result)
    }

    private func close() {
        let left = lock.withLock {
            isClosed = true
            defer { waiting.removeAll() }
            return waiting
        }
        for continuation in left.values {
            continuation.resume(throwing: SimulatorFailure(description: "the simulator has ended"))
        }
    }
}
