// Runs the pgpush that was built with these tests, as a process, in an environment that holds nothing but what a test says.

import Foundation
import TestSupport
import Testing

/// The command line under test, with the environment that it gets.
struct CommandLineRunner: Sendable {
    var environment: [String: String] = [:]

    /// A runner for a database.
    init(_ database: TestDatabase) { environment["DATABASE_URL"] = database.connectionString }

    init() {}

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

/// A process that runs beside the test.
final class RunningCommand: @unchecked Sendable {
    private let process = Process()
    private let condition = NSCondition()
    private var text = ""
    private var errorText = ""
    private var hasEnded = false

    init(_ executable: String, _ arguments: [String], _ environment: [String: String]) throws {
        process.executableURL = URL(fileURLWithPath: executable)
        process.arguments = arguments
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        output.fileHandleForReading.readabilityHandler = { [weak self] in self?.add($0.availableData, isError: false) }
        errors.fileHandleForReading.readabilityHandler = { [weak self] in self?.add($0.availableData, isError: true) }
        process.terminationHandler = { [weak self] _ in self?.ended() }
        try process.run()
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    private func add(_ data: Data, isError: Bool) {
        condition.withLock {
            if isError { errorText += String(decoding: data, as: UTF8.self) } else { text += String(decoding: data, as: UTF8.self) }
            condition.broadcast()
        }
    }

    private func ended() {
        condition.withLock {
            hasEnded = true
            condition.broadcast()
        }
    }

    /// What it has written so far.
    var output: String { condition.withLock { text } }
    var errors: String { condition.withLock { errorText } }

    /// Waits until standard output holds `part`; false when that does not happen within 30 s.
    func hasWritten(_ part: String) -> Bool {
        let deadline = Date().addingTimeInterval(30)
        return condition.withLock {
            while !text.contains(part) { if !condition.wait(until: deadline) { return false } }
            return true
        }
    }

    func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    /// Waits for the end; nil when it does not come within 30 s. A death by signal is 128 + its number.
    func exitCode() -> Int32? {
        let deadline = Date().addingTimeInterval(30)
        let isOver = condition.withLock {
            while !hasEnded { if !condition.wait(until: deadline) { return false } }
            return true
        }
        guard isOver else { return nil }
        return process.terminationReason == .exit ? process.terminationStatus : 128 + process.terminationStatus
    }
}

/// A database that `pgpush migrate` has made ready.
func migratedDatabase() throws -> (TestDatabase, CommandLineRunner) {
    let database = try PostgresCluster.shared().createEmptyDatabase()
    let runner = CommandLineRunner(database)
    try runner.output("migrate")
    return (database, runner)
}
