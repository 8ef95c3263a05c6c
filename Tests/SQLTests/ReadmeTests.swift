// sql/README.md: every example runs as it stands, and says so of every SQLSTATE and every name.

import Foundation
import TestSupport
import Testing

@Suite struct ReadmeTests {
    private struct Example {
        let line: Int
        let sqlState: String?
        let sql: String
    }

    private let text = try? String(contentsOfFile: "\(SchemaFiles.folder)/README.md", encoding: .utf8)

    private func examples() throws -> [Example] {
        var found: [Example] = []
        var open: (line: Int, sqlState: String?, lines: [Substring])?
        for (number, line) in try #require(text).split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if let block = open {
                if line == "```" {
                    found.append(
                        Example(line: block.line, sqlState: block.sqlState, sql: block.lines.joined(separator: "\n")))
                    open = nil
                } else {
                    open?.lines.append(line)
                }
            } else if line.hasPrefix("```sql") {
                open = (number + 1, line.split(separator: " ").dropFirst(2).first.map(String.init), [])
            }
        }
        return found
    }

    @Test func examplesRun() throws {
        let database = try PostgresCluster.shared().createDatabase()
        let examples = try examples()
        #expect(examples.count > 40)
        for example in examples {
            do {
                try database.psql(example.sql)
                #expect(
                    example.sqlState == nil,
                    "line \(example.line) should have been refused with \(example.sqlState ?? "")")
            } catch let failure as SQLFailure {
                #expect(failure.sqlState == example.sqlState, "line \(example.line): \(failure)")
                if failure.sqlState.hasPrefix("PN") {
                    #expect(failure.hint?.isEmpty == false, "line \(example.line) has no hint")
                    #expect(failure.column?.isEmpty == false, "line \(example.line) names no column")
                }
            }
        }
    }

    @Test func everySQLSTATEIsListedAndShown() throws {
        var used: Set<String> = []
        for file in try SchemaFiles.names("objects") {
            let source = try String(contentsOfFile: "\(SchemaFiles.folder)/objects/\(file)", encoding: .utf8)
            for match in source.matches(of: /'(PN[0-9]{3})'/) { used.insert(String(match.1)) }
        }
        let listed = Set(try #require(text).matches(of: /(?m)^\| (PN[0-9]{3}) \|/).map { String($0.1) })
        let shown = Set(try examples().compactMap(\.sqlState).filter { $0.hasPrefix("PN") })
        #expect(used == listed)
        #expect(used == shown)
    }

    @Test func everyPublicObjectIsNamed() throws {
        let database = try PostgresCluster.shared().createDatabase()
        let names = try database.psql(
            """
            SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname NOT LIKE 'pgpush\\_%'
            UNION SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
                AND NOT relispartition
            """)
        #expect(names.count > 35)
        for name in names.compactMap({ $0[0] }) {
            #expect(text?.contains(name) == true, "\(name) is not in sql/README.md")
        }
    }

    @Test func everyObjectHasAComment() throws {
        let database = try PostgresCluster.shared().createDatabase()
        let bare = try database.psql(
            """
            SELECT p.oid::regprocedure::text FROM pg_proc p
            WHERE p.pronamespace = 'public'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL
            UNION ALL
            SELECT c.relname || coalesce('.' || a.attname, '') FROM pg_class c
            LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND c.relkind <> 'v' AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
              AND (obj_description(c.oid, 'pg_class') IS NULL OR (c.relkind <> 'v' AND col_description(c.oid, a.attnum) IS NULL))
            """)
        #expect(bare.isEmpty, "without a comment: \(bare)")
    }
}
