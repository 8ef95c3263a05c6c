// Apple says why it ends a connection in the debug data of GOAWAY, as JSON with a reason; others write plain text.

package import PushModel

/// What a GOAWAY says.
package struct Farewell: Sendable, Equatable {
    /// The reason of a JSON text, else the cleaned text itself; empty when there was nothing.
    package let reason: String
    /// What must not be sent any more because of it.
    package let pause: PauseScope?

    package init(debugData: [UInt8]) {
        let parsed = AnswerBody(debugData).reason
        reason = parsed.isEmpty ? CleanText.cleaned(debugData) : parsed
        pause = AnswerRules.pause(goAwayReason: reason)
    }

    package init(debugText: String) { self.init(debugData: Array(debugText.utf8)) }
}
