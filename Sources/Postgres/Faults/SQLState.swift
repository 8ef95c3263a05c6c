// What the five characters of a SQLSTATE mean for a program that runs for ever: which faults pass by themselves, which need a
// person, which concern one row only.
//
//     08 57P0x 25006          the connection or the server has gone: retry, on a new connection
//     40001 40P01 55P03 53…   somebody else was in the way, or the server was short of something: retry
//     57014                   a timeout of ours or a cancel: retry
//     28 3D 3F 42 0A F0 XX 58 configuration, rights, schema, broken server: say so loudly, retry slowly
//     21 22 23                data: the row is at fault, the loop is not
//     everything else         raised on purpose by SQL code: the caller knows what it means

/// What to do about an error.
package enum PostgresReaction: Sendable, Equatable {
    /// It passes by itself: try again after 0.2–10 s with jitter, for ever.
    case retry
    /// A person has to repair something: say so loudly, retry slowly, be not ready meanwhile.
    case alarm
    /// The data of this call is at fault: set the row aside and go on.
    case isolate
    /// A refusal that somebody programmed: show it.
    case report
}

/// Rules over SQLSTATEs, by value.
enum SQLState {
    /// What an error with this state asks for.
    static func reaction(to state: String) -> PostgresReaction {
        if losesConnection(state) || isPassing(state) { return .retry }
        return switch state.prefix(2) {
        case "28", "3D", "3F", "42", "0A", "F0", "XX", "58": .alarm
        case "21", "22", "23": .isolate
        default: .report
        }
    }

    /// Whether the connection is of no use after this error: it is closed by the server, or leads to a server that no
    /// longer takes writes.
    static func losesConnection(_ state: String) -> Bool {
        state.hasPrefix("08") || state.hasPrefix("57P") || state == "25006"
    }

    /// Whether a server that sent this has certainly not committed the transaction that it was working on.
    ///
    /// Class 08 comes from poolers too, which know as little as we do.
    static func rulesOutCommit(_ state: String, severity: String) -> Bool {
        !state.isEmpty && !state.hasPrefix("08") && severity != "PANIC"
    }

    /// Whether the class is one of PostgreSQL's own (appendix A of its manual); all others are made up by functions.
    static func isStandard(_ state: String) -> Bool {
        let classes: Set<Substring> = [
            "00", "01", "02", "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "10", "20", "21", "22", "23", "24",
            "25", "26", "27", "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "40", "42", "44", "53", "54",
            "55", "57", "58", "72", "F0", "HV", "P0", "XX",
        ]
        return classes.contains(state.prefix(2))
    }

    private static func isPassing(_ state: String) -> Bool {
        switch state {
        case "40001", "40P01", "55P03", "55006", "57014", "25P03", "25P04": true
        default: state.hasPrefix("53")
        }
    }
}
