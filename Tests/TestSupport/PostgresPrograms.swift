// Finds the programs of PostgreSQL, and the account that the server may run under: it refuses to run as root.

import Foundation

/// Where PostgreSQL's programs are on this machine.
struct PostgresPrograms {
    /// The folder with `initdb`, `pg_ctl` and `postgres`.
    let folder: String
    /// The prefix of each server command: empty, or one that gives up root.
    let account: [String]
    /// The account's name when it is not our own.
    let user: String?

    static func find() throws -> PostgresPrograms {
        let root = "/usr/lib/postgresql"
        let found = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let versions = found.compactMap { Int($0) }.sorted()
        guard let newest = versions.last(where: { $0 >= 15 }) else {
            throw CommandError(description: "no PostgreSQL 15 or newer in \(root): apt-get install postgresql-15")
        }
        guard geteuid() == 0 else {
            return PostgresPrograms(folder: "\(root)/\(newest)/bin", account: [], user: nil)
        }
        let user = getpwnam("postgres") == nil ? "nobody" : "postgres"
        let group = try Subprocess.require("/usr/bin/id", ["-gn", user]).trimmingCharacters(in: .whitespacesAndNewlines)
        return PostgresPrograms(
            folder: "\(root)/\(newest)/bin",
            account: ["/usr/bin/setpriv", "--reuid=\(user)", "--regid=\(group)", "--init-groups", "--"], user: user)
    }

    /// A server command with its arguments, under the right account.
    func command(_ name: String, _ arguments: [String]) -> (executable: String, arguments: [String]) {
        let all = account + ["\(folder)/\(name)"] + arguments
        return (all[0], Array(all.dropFirst()))
    }
}
