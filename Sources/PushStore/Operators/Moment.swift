// A point in time as an operator gives it. PostgreSQL reads and computes it, never this process: its clock and its
// table of time zones decide what is due.

/// A point in time, to be settled by the database when the statement runs.
package enum Moment: Sendable, Equatable {
    /// When the statement runs.
    case now
    /// So many seconds after the statement runs.
    case fromNow(seconds: Int64)
    /// A date and time, with zone or to be read in the zone of the database session.
    case at(String)

    /// The SQL expression of type timestamptz; the text parameter `$number` must hold `parameter`.
    func expression(_ number: Int) -> String {
        switch self {
        case .now, .at: "$\(number)::timestamptz"
        case .fromNow: "(now() + $\(number)::interval)"
        }
    }

    /// The text behind `expression`.
    var parameter: String {
        switch self {
        case .now: "now"
        case .fromNow(let seconds): "\(seconds) seconds"
        case .at(let text): text
        }
    }
}
