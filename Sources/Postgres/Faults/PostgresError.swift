// The one error of this module. It says what kind of fault it is, what the server called it, and the one thing a caller cannot
// find out alone: whether the transaction may have been committed.

import CLibPQ

/// A call that did not end with its results.
package struct PostgresError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kinds of fault.
    package enum Code: String, Sendable {
        /// The connection string cannot be read.
        case configuration
        /// No connection could be had in time.
        case unreachable
        /// The server does not let this user in.
        case authentication
        /// The server is not the one that its certificate must prove it to be.
        case untrusted
        /// There is no such database.
        case unknownDatabase
        /// Every server that answered is read-only.
        case readOnly
        /// The connection broke during the call.
        case connectionLost
        /// The call's own deadline passed; the connection was dropped if the call was under way.
        case deadline
        /// Too many calls are waiting already.
        case overloaded
        /// The session was closed.
        case closed
        /// The server refused a statement: `sqlState` says why.
        case server
        /// The parameters cannot be sent.
        case encoding
        /// The result is not of the shape that was expected.
        case decoding
        /// The other side does not speak as it should.
        case protocolViolation
    }

    /// Whether the call may have taken effect.
    package enum Outcome: String, Sendable {
        /// Nothing of the transaction has been applied, and nothing will be.
        case notApplied
        /// The transaction may have been committed: read back before doing it again.
        case unknown
    }

    /// What kind of fault it is.
    package var code: Code
    /// The five characters of the server's SQLSTATE, or empty.
    package var sqlState: String = ""
    /// One line for people; never holds a password.
    package var message: String
    /// What the server suggests, or empty.
    package var hint: String = ""
    /// More about it; may hold values of rows, so it is not part of `description`.
    package var detail: String = ""
    /// Where in the server's code it happened; may hold values of rows.
    package var context: String = ""
    /// The table, column and constraint concerned, each empty when the server names none.
    package var table: String = ""
    package var column: String = ""
    package var constraint: String = ""
    /// `ERROR`, `FATAL` or `PANIC` as the server says it, untranslated, or empty.
    package var severity: String = ""
    /// Index of the statement that failed among those of the call, if it was one of them.
    package var statement: Int?
    /// Whether the call may have taken effect.
    package var outcome: Outcome = .notApplied

    /// An error that was found on this side.
    package init(_ code: Code, _ message: String, outcome: Outcome = .notApplied) {
        self.code = code
        self.message = message
        self.outcome = outcome
    }

    /// What to do about it.
    package var reaction: PostgresReaction {
        switch code {
        case .unreachable, .readOnly, .connectionLost, .deadline, .overloaded, .protocolViolation:
            sqlState.isEmpty ? .retry : SQLState.reaction(to: sqlState)
        case .configuration, .authentication, .untrusted, .unknownDatabase, .decoding: .alarm
        case .closed: .report
        case .encoding: .isolate
        case .server: SQLState.reaction(to: sqlState)
        }
    }

    /// Whether a time limit ended the call, the server's or our own: it may have been too much at once.
    package var isOverdue: Bool { code == .deadline || sqlState == "57014" }

    /// Code, SQLSTATE, message and hint in one line, fit for a log: no values of rows.
    package var description: String {
        var text = "\(code.rawValue)"
        if !sqlState.isEmpty { text += " \(sqlState)" }
        text += ": \(discreetMessage)"
        if !hint.isEmpty, discreetMessage == message { text += " (hint: \(hint))" }
        if outcome == .unknown { text += " (it is not known whether the transaction was committed)" }
        return text
    }
}

extension PostgresError {
    /// Reads an error result (`PQresultErrorField`).
    init(result: OpaquePointer) {
        func field(_ code: Int32) -> String {
            guard let text = unsafe PQresultErrorField(result, code) else { return "" }
            return unsafe String(cString: text)
        }
        // The PG_DIAG_* macros of postgres_ext.h are characters.
        func field(_ character: Unicode.Scalar) -> String { field(Int32(character.value)) }
        self.init(.server, field("M"))
        sqlState = field("C")
        severity = field("V")
        hint = field("H")
        detail = field("D")
        context = field("W")
        table = field("t")
        column = field("c")
        constraint = field("n")
        guard sqlState.isEmpty else {
            code = sqlState == "25006" ? .readOnly : SQLState.losesConnection(sqlState) ? .connectionLost : .server
            return
        }
        // Made by libpq itself: the connection has failed, or the protocol was broken.
        code = .connectionLost
        message = unsafe String(cString: PQresultErrorMessage(result)).singleLine
    }
}

extension String {
    /// The text on one line: line breaks and the blanks around them become one blank.
    var singleLine: String {
        split { $0.isNewline }.map { $0.trimmed }.filter { !$0.isEmpty }.joined(separator: " ")
    }
}

extension Substring {
    /// Without white space at either end.
    var trimmed: Substring {
        var rest = self
        while rest.first?.isWhitespace == true { rest.removeFirst() }
        while rest.last?.isWhitespace == true { rest.removeLast() }
        return rest
    }
}
