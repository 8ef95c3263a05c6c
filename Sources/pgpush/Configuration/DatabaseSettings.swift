// Which database, and where in it.

import PushStore

/// How to reach the database.
struct DatabaseSettings: Sendable {
    /// A libpq connection string or URI; empty means the PG* variables.
    let connectionString: String
    /// A way around a connection pooler, if one is named.
    let directConnectionString: String?
    let schema: SchemaName

    /// Reads DATABASE_URL, DATABASE_DIRECT_URL and PGPUSH_SCHEMA; `schemaOption` goes before the last.
    init(_ settings: Settings, schemaOption: String? = nil) throws(ConfigurationError) {
        connectionString = settings["DATABASE_URL"] ?? ""
        directConnectionString = settings["DATABASE_DIRECT_URL"]
        do throws(SchemaNameError) {
            schema = try SchemaName(schemaOption ?? settings["PGPUSH_SCHEMA"] ?? "public")
        } catch {
            throw ConfigurationError(
                variable: schemaOption == nil ? "PGPUSH_SCHEMA" : "--schema", problem: error.problem,
                remedy: "name a schema of letters, digits, '_' or '-', at most 63 bytes")
        }
    }
}
