// Reasons as values of labels. What Apple, a proxy or a person writes may be anything, and is for the ledger and the log; a label
// takes only what stands in a list, so that neither a name nor a token can get into a metric, and nobody can fill the memory.

import APNs
import PushModel
import PushStore

/// Words of a bounded number, for reasons.
enum ReasonLabel {
    /// Nothing was said.
    static let none = "none"
    /// Something was said that is in no list.
    static let other = "other"

    /// Of an answer that was not 200, or of what happened instead of one (status 0).
    static func push(status: Int, reason: String) -> String {
        if status == 0 { return PushResult.words.contains(reason) ? reason : "NotSent" }
        if AnswerRules.isKnown(reason) { return reason }
        return isStatus(reason) || reason.isEmpty ? none : other
    }

    /// The status of an answer.
    static func status(_ status: Int) -> String {
        switch status {
        case 0: none
        case 100...599: String(status)
        default: other
        }
    }

    /// Of a GOAWAY.
    static func farewell(_ reason: String) -> String {
        if reason.isEmpty { return none }
        return AnswerRules.isKnown(reason) ? reason : other
    }

    /// Of a pause; what a person has written is not shown.
    static func pause(_ pause: PauseFigure) -> String {
        let reason = pause.scope.reason
        guard pause.isAutomatic else { return "Operator" }
        if AnswerRules.isKnown(reason) { return reason }
        if isStatus(reason) { return reason }
        if reason.hasPrefix("TLS alert") { return "TLSAlert" }
        if isMissing(pause) { return "NoCredential" }
        // The database says how many of how many tokens were refused, and as what.
        if reason.contains("BadDeviceToken") || reason.contains("DeviceTokenNotForTopic") { return "Storm" }
        return other
    }

    /// Whether nobody has told the worker who the app is to that environment.
    static func isMissing(_ pause: PauseFigure) -> Bool { pause.scope.reason.hasPrefix("no credential for ") }

    /// `HTTP 500`, which stands for an answer without a readable reason.
    private static func isStatus(_ reason: String) -> Bool {
        guard reason.hasPrefix("HTTP "), reason.utf8.count == 8 else { return false }
        return reason.utf8.dropFirst(5).allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}
