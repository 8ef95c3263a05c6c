// The servers of these tests: one that all share and nobody harms, and whatever a test starts for itself.

import Foundation
import TestSupport

/// A test could not be set up.
struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A value behind a lock.
final class Guarded<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value
    init(_ value: Value) { self.value = value }
    func withLock<T>(_ body: (inout Value) throws -> T) rethrows -> T { try lock.withLock { try body(&value) } }
}

private let database = Result { try PostgresCluster.shared().createEmptyDatabase() }

/// The database that tests share; each uses table names of its own.
func sharedDatabase() throws -> TestDatabase { try database.get() }

extension PostgresCluster {
    /// Where the superuser gets in, in keyword form.
    var address: String { "host=127.0.0.1 port=\(port) user=postgres dbname=postgres" }

    /// The process id of the postmaster.
    var postmaster: Int32 {
        get throws {
            let text = try String(contentsOfFile: "\(folder)/data/postmaster.pid", encoding: .utf8)
            guard let line = text.split(separator: "\n").first, let pid = Int32(line) else { throw Failure("no pid") }
            return pid
        }
    }

    /// Changes a setting of the running server.
    func alterSystem(_ setting: String) throws {
        try execute("ALTER SYSTEM \(setting)")
        try execute("SELECT pg_reload_conf()")
    }

    /// Starts the stopped server as a hot standby of nobody: read-only until it is promoted.
    func becomeStandby() throws {
        guard FileManager.default.createFile(atPath: "\(folder)/data/standby.signal", contents: nil) else {
            throw Failure("standby.signal cannot be written")
        }
        try start()
    }
}

/// The connection string of the shared database.
func sharedAddress() throws -> String { try sharedDatabase().connectionString }
