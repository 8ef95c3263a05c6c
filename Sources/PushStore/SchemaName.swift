// The schema that pgpush lives in. Its name is the one thing that is written into SQL text rather than passed as a parameter,
// so it is checked once, here, and only ever used quoted.

/// A schema's name is not acceptable.
package struct SchemaNameError: Error, Sendable, Equatable {
    /// What is wrong, as the end of a sentence that begins with the name of the setting.
    package let problem: String
}

/// A checked schema name and the way to write it into SQL.
package struct SchemaName: Sendable, Hashable, CustomStringConvertible {
    /// What stands for the schema in SQL files.
    package static let placeholder = "@schema@"

    /// The plain name.
    package let name: String

    /// Accepts letters, digits, `_` and `-`, at most 63 bytes, not beginning with `pg_`.
    ///
    /// The scripts write the name into identifiers, string constants and function bodies, where a quote or a dollar sign would
    /// end what it stands in; nobody needs them in a name.
    package init(_ name: String) throws(SchemaNameError) {
        if name.isEmpty { throw SchemaNameError(problem: "is empty") }
        // PostgreSQL would cut a longer name silently and then not find it.
        if name.utf8.count > 63 { throw SchemaNameError(problem: "is longer than 63 bytes") }
        if name.lowercased().hasPrefix("pg_") || name.lowercased() == "information_schema" {
            throw SchemaNameError(problem: "names a schema that belongs to PostgreSQL")
        }
        guard name.allSatisfy({ $0.isLetter || $0.isWholeNumber || $0 == "_" || $0 == "-" }) else {
            throw SchemaNameError(problem: "holds a character that a schema name of pgpush may not have")
        }
        self.name = name
    }

    /// The name as an identifier in SQL.
    package var quoted: String { "\"\(name)\"" }

    /// The text with each placeholder replaced by the quoted name.
    package func sql(_ text: String) -> String { text.replacing(Self.placeholder, with: quoted) }

    package var description: String { name }
}
