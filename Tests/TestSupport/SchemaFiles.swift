// The SQL of this repository as one script, read from its folder, so that tests of SQL need no binary.

import Foundation

/// The files under `sql/`.
package enum SchemaFiles {
    /// The folder `sql` of this repository.
    package static var folder: String {
        var repository = URL(fileURLWithPath: #filePath)
        for _ in 1...3 { repository.deleteLastPathComponent() }
        return repository.appendingPathComponent("sql").path
    }

    /// Names of the files of a subfolder in the order in which they run.
    package static func names(_ subfolder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "\(folder)/\(subfolder)")
            .filter { $0.hasSuffix(".sql") }.sorted()
    }

    /// Everything that `migrate` runs, in one transaction.
    package static func script(schema: String = "public", roles: Bool = false) throws -> String {
        let quoted = "\"" + schema.replacingOccurrences(of: "\"", with: "\"\"") + "\""
        var script = "BEGIN; CREATE SCHEMA IF NOT EXISTS \(quoted); SET LOCAL search_path = \(quoted), pg_temp;\n"
        for file in try names("migrations") { script += try text("migrations/\(file)", quoted) }
        script += try objects(schema: schema)
        if roles { script += try text("objects/roles.sql", quoted) }
        return script + "\nCOMMIT;\n"
    }

    /// The re-creatable objects alone, to be run with `search_path` set to the schema.
    package static func objects(schema: String = "public") throws -> String {
        let quoted = "\"" + schema.replacingOccurrences(of: "\"", with: "\"\"") + "\""
        return try names("objects").filter { $0 != "roles.sql" }.map { try text("objects/\($0)", quoted) }.joined()
    }

    private static func text(_ file: String, _ schema: String) throws -> String {
        try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8)
            .replacingOccurrences(of: "@schema@", with: schema) + "\n"
    }
}
