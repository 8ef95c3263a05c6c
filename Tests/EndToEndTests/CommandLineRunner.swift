// Runs the pgpush that was built with these tests, as a process, in an environment that holds nothing but what a test says.

import Foundation
import TestSupport
import Testing

/// The command line under test, with the environment that it gets.
struct CommandLineRunner: Sendable {
    var environment: [String: String] = [:]

    /// A runner for a database; with `PGPUSH_TEST_POOLER` through a pooler, and around it where pgpush goes around.
    init(_ database: TestDatabase) throws {
        environment["DATABASE_URL"] = database.connectionString
        guard Pooler.isWanted else { return }
        let pooler = try Pooler.shared(before: database.cluster)
        environment["DATABASE_URL"] = pooler.connectionString(database: database.name)
        environment["DATABASE_DIRECT_URL"] = database.connectionString
    }

    init() {}

    /// The same for another database or user.
    func on(_ url: String) -> CommandLineRunner { with(["DATABASE_URL": url, "DATABASE_DIRECT_URL": ""]) }

    /// The same with more variables; an empty value counts as unset for pgpush.
    func with(_ more: [String: String]) -> CommandLineRunner {
        var copy = self
        copy.environment.merge(more) { $1 }
        return copy
    }

    /// The folder of the executables: the one that the tests themselves are in.
    static let folder: String = {
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(fileURLWithPath: tests).deletingLastPathComponent().path
    }()

    static let executable = "\(folder)/pgpush"

    /// Runs a verb to its end.
    @discardableResult
    func run(_ words: String..., input: String = "") throws -> CommandResult {
        try Subprocess.run(Self.executable, words, environment: processEnvironment, input: input)
    }

    /// Runs a verb that must succeed and returns what it wrote to standard output, without the last line break.
    @discardableResult
    func output(_ words: String..., input: String = "") throws -> String {
        let result = try Subprocess.run(Self.executable, words, environment: processEnvironment, input: input)
        try #require(result.status == 0, "pgpush \(words.joined(separator: " ")): \(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }

    /// Runs a verb with --json that must succeed and returns its lines as objects.
    func objects(_ words: String...) throws -> [[String: Any]] {
        let result = try Subprocess.run(Self.executable, words + ["--json"], environment: processEnvironment)
        try #require(result.status == 0, "pgpush \(words.joined(separator: " ")): \(result.errors)")
        return try Self.objects(result.output)
    }

    /// Lines of JSON as objects.
    static func objects(_ text: String) throws -> [[String: Any]] {
        try text.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
        }
    }

    /// Starts a verb that runs for a while.
    func start(_ words: String...) throws -> RunningCommand {
        try RunningCommand(Self.executable, words, processEnvironment)
    }

    private var processEnvironment: [String: String] {
        // Without these, libpq would look into the home folder and the user's own variables.
        ["PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"].merging(environment) { $1 }
    }
}

/// A verb that runs beside the test; killed with its last reference.
final class RunningCommand: @unchecked Sendable {
    private let process: ChildProcess
    private let condition = NSCondition()
    private var text = ""
    private var hasEnded = false

    init(_ executable: String, _ arguments: [String], _ environment: [String: String]) throws {
        let output = try ClosedPipe()
        let descriptor = output.writer.fileDescriptor
        process = try ChildProcess(
            executable, arguments, environment: environment, output: descriptor, errors: descriptor)
        try output.writer.close()
        Thread { [weak self] in
            // Not FileHandle: it would wait until all that was asked for has come.
            var bytes = [UInt8](repeating: 0, count: 65_536)
            while case let count = read(output.reader.fileDescriptor, &bytes, bytes.count), count > 0 {
                self?.add(String(decoding: bytes[..<count], as: UTF8.self))
            }
            self?.add("", isLast: true)
        }.start()
    }

    deinit { process.signal(SIGKILL) }

    private func add(_ part: String, isLast: Bool = false) {
        condition.withLock {
            text += part
            hasEnded = isLast
            condition.broadcast()
        }
    }

    /// What it has written so far, to both streams.
    var output: String { condition.withLock { text } }

    /// Waits until `part` has been written; false when that does not happen within two minutes.
    func hasWritten(_ part: String) -> Bool { waits { $0.text.contains(part) } }

    func send(_ signal: Int32) { process.signal(signal) }

    /// Waits at most two minutes for the end: nil when it does not come, 128 + its number for a death by signal.
    func exitCode() -> Int32? { waits { $0.hasEnded } ? process.wait() : nil }

    private func waits(_ isThere: (RunningCommand) -> Bool) -> Bool {
        let deadline = Date().addingTimeInterval(120)
        return condition.withLock {
            while !isThere(self) { if !condition.wait(until: deadline) { return false } }
            return true
        }
    }
}

/// A database that `pgpush migrate` has made ready.
func migratedDatabase() throws -> (TestDatabase, CommandLineRunner) {
    let database = try PostgresCluster.shared().createEmptyDatabase()
    let runner = try CommandLineRunner(database)
    try runner.output("migrate")
    return (database, runner)
}
