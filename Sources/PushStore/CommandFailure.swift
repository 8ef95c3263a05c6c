// What a command could not do, in the shape in which it is told: one line of what, one of why, one of what to do about it, and
// the exit code it ends in.

package import Postgres

/// An error for the person at the command line or for the supervisor.
package struct CommandFailure: Error, Sendable, Equatable {
    package let code: ExitCode
    /// What went wrong, without a full stop.
    package let message: String
    package var detail: String?
    /// What to do about it.
    package var hint: String?
    /// PostgreSQL's code for it.
    package var sqlState: String?

    package init(
        _ code: ExitCode, _ message: String, detail: String? = nil, hint: String? = nil, sqlState: String? = nil
    ) {
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.sqlState = sqlState
    }

    /// What a fault of the database means for a command that needed it, in the schema of that name.
    package init(_ error: PostgresError, schema: SchemaName) {
        func given(_ text: String) -> String? { text.isEmpty ? nil : text }
        // What a constraint has to say about a row is the row itself, or the token; its name says enough.
        let detail = error.sqlState.hasPrefix("23") ? nil : given(error.detail)
        self.init(
            Self.code(error), error.message, detail: detail, hint: given(error.hint),
            sqlState: given(error.sqlState))
        switch error.sqlState {
        case "42P01", "42883", "3F000", "42703":
            hint = "run 'pgpush migrate', or name the schema by PGPUSH_SCHEMA or --schema (now: \(schema))"
        case "42501" where hint == nil:
            hint = "'pgpush migrate --roles' makes roles with the rights; GRANT one of them to this user"
        default:
            if code == .databaseUnreachable, hint == nil {
                hint = "check that the server runs, and DATABASE_URL or the PG* variables"
            }
        }
        if error.outcome == .unknown { hint = "it is not known whether this was done; look before doing it again" }
    }

    private static func code(_ error: PostgresError) -> ExitCode {
        switch error.code {
        case .configuration, .authentication, .untrusted, .unknownDatabase: return .configuration
        case .unreachable, .readOnly, .connectionLost, .deadline, .overloaded, .closed: return .databaseUnreachable
        case .encoding, .decoding, .protocolViolation: return .failed
        case .server:
            switch error.sqlState {
            // The schema or the rights are not what this program needs.
            case "42P01", "42883", "3F000", "42703", "42501": return .configuration
            default:
                return error.sqlState.hasPrefix("57P") || error.sqlState == "25006" ? .databaseUnreachable : .failed
            }
        }
    }
}
