// The places where bytes from outside come in, each as one function that takes any bytes at all and throws when a rule is broken.
// libFuzzer calls them (`./deploy/test.sh fuzz`), and so do the ordinary tests with what was once found and with seeded noise.
//
// A rule is what a stranger could check: an answer computed in another way, a bound, a round trip. That nothing traps, reads
// beyond its end or runs for ever needs no rule; the sanitizer and the clock see to that.

/// A border across which bytes come in.
package enum Surface: String, CaseIterable, Sendable {
    /// What Apple, or something in Apple's place, says: the body of an answer, the debug data of a GOAWAY, `retry-after`.
    case answer
    /// The reader and the writers of JSON.
    case json
    /// Device tokens and bundle ids on their way into a request's path.
    case path

    /// Examines one input.
    ///
    /// - Throws: `Finding`.
    package func examine(_ bytes: [UInt8]) throws(Finding) {
        switch self {
        case .answer: try AnswerSurface.examine(bytes)
        case .json: try JSONSurface.examine(bytes)
        case .path: try PathSurface.examine(bytes)
        }
    }
}

/// A rule that an input broke.
package struct Finding: Error, CustomStringConvertible {
    package let rule: String
    /// What came out, or what was expected instead.
    package let details: String

    package var description: String { "\(rule): \(details)" }
}

/// Throws a finding when the rule does not hold.
func require(_ holds: Bool, _ rule: String, _ details: @autoclosure () -> String) throws(Finding) {
    guard holds else { throw Finding(rule: rule, details: details()) }
}
