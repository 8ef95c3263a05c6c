// Reads connection strings with libpq's own parser, so that every form people have works (URI, keywords, both with several hosts),
// and looks at the `PG*` variables that fill the gaps. Nothing of a string that cannot be read is repeated in the error: the
// piece that puzzles the parser is often a piece of the password.

import CLibPQ
import Glibc

/// Keywords and values of a connection string.
struct ConnectionString {
    /// What the string itself says, in libpq's order.
    let explicit: [(keyword: String, value: String)]

    /// - Throws: `configuration` for a string that libpq cannot read.
    init(_ text: String) throws(PostgresError) {
        if ConnectionString.hasStrayAt(text) {
            throw ConnectionString.unreadable("it holds an @ that is not percent-encoded")
        }
        var message: UnsafeMutablePointer<CChar>?
        guard let options = unsafe PQconninfoParse(text, &message) else {
            let reason = unsafe message.map { unsafe String(cString: $0) } ?? "out of memory"
            unsafe PQfreemem(message)
            throw ConnectionString.unreadable(reason.singleLine.withoutQuoted())
        }
        defer { unsafe PQconninfoFree(options) }
        explicit = unsafe ConnectionString.values(options)
    }

    /// The value of a keyword as the string says it.
    func value(_ keyword: String) -> String? { explicit.last { $0.keyword == keyword }?.value }

    /// What the environment variable behind a keyword says, for example `PGHOST` for `host`.
    static func environmentValue(_ keyword: String) -> String? {
        // With an empty string the parser only lists what it knows.
        guard let options = unsafe PQconninfoParse("", nil) else { return nil }
        defer { unsafe PQconninfoFree(options) }
        var option = unsafe options
        while let name = unsafe option.pointee.keyword {
            if unsafe String(cString: name) == keyword, let variable = unsafe option.pointee.envvar {
                return unsafe getenv(variable).map { unsafe String(cString: $0) }
            }
            unsafe option += 1
        }
        return nil
    }

    private static func values(_ options: UnsafeMutablePointer<PQconninfoOption>) -> [(String, String)] {
        var found: [(String, String)] = []
        var option = unsafe options
        while let name = unsafe option.pointee.keyword {
            if let value = unsafe option.pointee.val {
                found.append((unsafe String(cString: name), unsafe String(cString: value)))
            }
            unsafe option += 1
        }
        return found
    }

    /// The error for a string that cannot be used.
    static func unreadable(_ reason: String) -> PostgresError {
        var error = PostgresError(.configuration, "the connection string cannot be read: \(reason)")
        error.hint =
            "postgres://user:password@host:5432/database or host=… dbname=…; in a URI, characters such as @ : / ? # %"
            + " in the password must be percent-encoded"
        return error
    }

    /// Whether a URI has an `@` behind the one that ends user and password, or behind the host.
    ///
    /// Only a password that was not percent-encoded brings that about, and the pieces of it would become host and database.
    private static func hasStrayAt(_ text: String) -> Bool {
        guard let scheme = ["postgresql://", "postgres://"].first(where: { text.hasPrefix($0) }) else { return false }
        let place = text.dropFirst(scheme.count).prefix { $0 != "?" }
        guard let at = place.firstIndex(of: "@") else { return false }
        return place[..<at].contains("/") || place[place.index(after: at)...].contains("@")
    }
}
