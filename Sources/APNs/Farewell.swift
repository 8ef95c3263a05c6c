// Apple says why it ends a connection in the debug data of GOAWAY, as JSON with a reason; others write plain text. A reason that
// would hold a scope as an answer holds it here as well: with a refused certificate Apple does not even wait for a request.

package import PushModel

/// What a GOAWAY says.
package struct Farewell: Sendable, Equatable {
    /// The reason of a JSON text, else the cleaned text itself; empty when there was nothing.
    package let reason: String

    package init(debugData: [UInt8]) {
        let parsed = AnswerBody(debugData).reason
        reason = parsed.isEmpty ? CleanText.cleaned(debugData) : parsed
    }

    package init(debugText: String) { self.init(debugData: Array(debugText.utf8)) }

    /// What follows from it for what is sent next; nil for an ordinary one.
    ///
    /// `repeats`: how many connections before this one ended with the same reason, without an answer in between.
    package func verdict(repeats: Int = 0) -> Verdict? { AnswerRules.verdict(goAwayReason: reason, repeats: repeats) }
}
