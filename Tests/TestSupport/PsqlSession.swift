// One session of psql that stays open: for tests that need transactions, several sessions side by side, or simply speed (a statement
// costs about a millisecond, a new psql twenty). What one call sends goes to the server as one query, so that nothing after a failed
// statement is run, and nothing in it means anything to psql.

package import Foundation
import Glibc

/// A connection through psql; may be used from any thread, one statement at a time.
package final class PsqlSession: @unchecked Sendable {
    private let arguments: [String]
    /// By which the server knows it.
    private let name = "psql \(UUID().uuidString)"
    private weak var cluster: PostgresCluster?
    /// Taken from start to finish of a statement, on whatever threads.
    private let statements = DispatchSemaphore(value: 1)
    /// Guards the rest.
    private let state = NSCondition()
    private var process: ChildProcess?
    private var input: FileHandle?
    private var output = Data()
    private var errors = Data()
    private var openStreams = 0
    private var generation = 0
    private var count = 0

    private static let null = "\u{1}"

    /// A session as the superuser over the unix socket, or as any role by a connection string.
    package init(_ cluster: PostgresCluster, database: String, connection: String? = nil) {
        self.cluster = cluster
        let socket = "host=\(cluster.folder) port=\(cluster.port) user=\(PostgresCluster.user) dbname=\(database)"
        arguments = [
            "-XqAt", "--csv", "-P", "null=\(Self.null)", "-v", "VERBOSITY=verbose",
            connection ?? socket,
        ]
    }

    /// Ends with the last reference, so that no psql is left behind.
    deinit { close() }

    /// Runs statements and returns the rows of all of them; nil is NULL.
    ///
    /// Several are one transaction, unless they say BEGIN.
    ///
    /// - Throws: `SQLFailure` as the server reported it, after which a transaction that was open is rolled back; `CommandError` when nothing came within `timeout`.
    @discardableResult
    package func run(_ sql: String, timeout: TimeInterval = 120) throws -> [[String?]] {
        try start(sql)
        return try finish(timeout: timeout)
    }

    /// Sends statements without waiting, for a statement that blocks; `finish` has to follow.
    package func start(_ sql: String) throws {
        statements.wait()
        do {
            let input = try open()
            state.lock()
            count += 1
            let mark = mark
            state.unlock()
            try input.write(
                contentsOf: Data("SELECT $psql$\(sql)$psql$ \\gexec\n\\echo \(mark)\n\\warn \(mark)\n".utf8))
        } catch {
            statements.signal()
            throw error
        }
    }

    /// Waits for what `start` has sent.
    package func finish(timeout: TimeInterval = 120) throws -> [[String?]] {
        CSV.rows(try finishText(timeout), null: Self.null)
    }

    /// The notifications that have come since the last statement, as `channel:payload`.
    package func notifications() throws -> [String] {
        try start("SELECT")
        return try finishText(30).matches(of: /Asynchronous notification "(.*?)"(?: with payload "(.*?)")? received/)
            .map { "\($0.1):\($0.2 ?? "")" }
    }

    private func finishText(_ timeout: TimeInterval) throws -> String {
        defer { statements.signal() }
        let deadline = Date(timeIntervalSinceNow: timeout)
        state.lock()
        defer { state.unlock() }
        while true {
            let (rows, messages) = (take(output), take(errors))
            if let rows, let messages {
                (output, errors) = (Data(), Data())
                if messages.contains(/connection to (?:the )?server|closed the connection/) {
                    // It would go on without one, and report every statement as done.
                    process?.signal(SIGKILL)
                    process?.wait()
                    reset()
                    throw CommandError(description: "the connection is lost: \(messages)")
                }
                if let failure = SQLFailure(psqlMessages: messages) {
                    try? input?.write(contentsOf: Data("ROLLBACK;\n".utf8))
                    throw failure
                }
                return rows
            }
            if openStreams == 0 {
                let text = String(decoding: errors, as: UTF8.self)
                reset()
                throw SQLFailure(psqlMessages: text) ?? CommandError(description: "psql has ended: \(text)")
                    as any Error
            }
            guard state.wait(until: deadline) else {
                process?.signal(SIGKILL)
                throw CommandError(description: "no answer within \(timeout) s")
            }
        }
    }

    /// Whether what `start` has sent comes to wait for a lock: false when it ends without, or has not within two minutes.
    ///
    /// Its statement has its snapshot by then, and has seen what others had committed when it began.
    package func waitsForALock() throws -> Bool {
        let deadline = Date(timeIntervalSinceNow: 120)
        let question = """
            SELECT count(*) FROM pg_stat_activity WHERE application_name = '\(name)' AND wait_event_type = 'Lock'
            """
        while isBusy, Date() < deadline {
            // There is nothing to wait on but what the server says of it.
            if try cluster?.execute(question) == [["1"]] { return true }
            usleep(5000)
        }
        return false
    }

    private var isBusy: Bool {
        state.withLock { openStreams > 0 && (take(output) == nil || take(errors) == nil) }
    }

    /// Ends the session; a transaction that is open is rolled back.
    package func close() {
        state.lock()
        defer { state.unlock() }
        try? input?.close()
        process?.signal(SIGTERM)
        process?.wait()
        reset()
    }

    private var mark: String { "\u{4}done-\(count)" }

    // The text before the mark, once the mark is there.
    private func take(_ data: Data) -> String? {
        guard let end = data.range(of: Data("\(mark)\n".utf8)) else { return nil }
        return String(decoding: data[data.startIndex..<end.lowerBound], as: UTF8.self)
    }

    private func reset() {
        process = nil
        input = nil
        (output, errors) = (Data(), Data())
    }

    private func open() throws -> FileHandle {
        state.lock()
        defer { state.unlock() }
        if let input, process?.exitStatus == nil { return input }
        let (stdin, stdout, stderr) = (try ClosedPipe(), try ClosedPipe(), try ClosedPipe())
        process = try ChildProcess(
            "/usr/bin/psql", arguments,
            environment: ProcessInfo.processInfo.environment.merging(["PGAPPNAME": name]) { $1 },
            input: stdin.reader.fileDescriptor, output: stdout.writer.fileDescriptor,
            errors: stderr.writer.fileDescriptor)
        for end in [stdin.reader, stdout.writer, stderr.writer] { try end.close() }
        (output, errors) = (Data(), Data())
        openStreams = 2
        generation += 1
        input = stdin.writer
        read(stdout.reader, isErrors: false)
        read(stderr.reader, isErrors: true)
        return stdin.writer
    }

    private func read(_ handle: FileHandle, isErrors: Bool) {
        // What an earlier psql still had to say is not ours.
        let generation = generation
        Thread { [weak self] in
            // FileHandle would wait until all it was asked for has come.
            var bytes = [UInt8](repeating: 0, count: 65536)
            while true {
                let count = Glibc.read(handle.fileDescriptor, &bytes, bytes.count)
                guard let self, received(bytes.prefix(max(0, count)), isErrors, generation), count > 0 else { return }
            }
        }.start()
    }

    /// Takes what a psql wrote, nothing at its end; false when it is not the present one.
    private func received(_ bytes: ArraySlice<UInt8>, _ isErrors: Bool, _ generation: Int) -> Bool {
        state.lock()
        defer { state.unlock() }
        guard generation == self.generation else { return false }
        if bytes.isEmpty {
            openStreams -= 1
        } else if isErrors {
            errors.append(contentsOf: bytes)
        } else {
            output.append(contentsOf: bytes)
        }
        state.broadcast()
        return true
    }
}
