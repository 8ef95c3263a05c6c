// An error as PostgreSQL reported it, read from psql's verbose messages.

import Foundation

/// An error of the server.
package struct SQLFailure: Error, CustomStringConvertible, Sendable {
    /// Five characters, such as `PN001`.
    package var sqlState = ""
    package var message = ""
    package var detail: String?
    package var hint: String?
    /// The column that the message is about, where the server names one.
    package var column: String?
    package var constraint: String?

    package var description: String {
        "\(sqlState): \(message)" + (detail.map { " DETAIL: \($0)" } ?? "") + (hint.map { " HINT: \($0)" } ?? "")
    }

    /// Reads the first error out of what psql wrote to its standard error; nil when there is none.
    init?(psqlMessages text: String) {
        var failure: SQLFailure?
        var field: WritableKeyPath<SQLFailure, String?>?
        var isContext = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if let start = line.range(of: "ERROR:  ") ?? line.range(of: "FATAL:  ") {
                guard failure == nil else { break }
                let parts = line[start.upperBound...].split(separator: ":", maxSplits: 1)
                var found = SQLFailure()
                found.sqlState = parts.first.map(String.init) ?? ""
                found.message = parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
                failure = found
                field = nil
                isContext = false
            } else if let (path, value) = Self.field(line) {
                failure?[keyPath: path] = value
                field = path
                isContext = false
            } else if Self.ends(line) {
                isContext = true
            } else if failure != nil, !line.isEmpty, !isContext {
                if let path = field {
                    failure?[keyPath: path]? += "\n" + line
                } else {
                    failure?.message += "\n" + line
                }
            }
        }
        guard let failure else { return nil }
        self = failure
    }

    private init() {}

    private static func field(_ line: Substring) -> (WritableKeyPath<SQLFailure, String?>, String)? {
        let fields: [(String, WritableKeyPath<SQLFailure, String?>)] = [
            ("DETAIL:  ", \.detail), ("HINT:  ", \.hint), ("COLUMN NAME:  ", \.column),
            ("CONSTRAINT NAME:  ", \.constraint),
        ]
        for (prefix, path) in fields where line.hasPrefix(prefix) {
            return (path, String(line.dropFirst(prefix.count)))
        }
        return nil
    }

    private static func ends(_ line: Substring) -> Bool {
        ["CONTEXT:", "LOCATION:", "SCHEMA NAME:", "TABLE NAME:", "LINE ", "SQL "].contains { line.hasPrefix($0) }
    }
}
