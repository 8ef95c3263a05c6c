// From the end of a request as the wire saw it to what follows from it and what goes into the ledger.

package import HTTP2
package import PushModel

/// The end of one push.
package struct PushResult: Sendable, Equatable {
    package let verdict: Verdict
    /// HTTP status; 0 when there was no answer.
    package let status: Int
    /// As Apple sent it, cleaned; without an answer, a word of ours for what happened.
    package let reason: String
    package let retryAfter: Duration?

    /// Response fields that a pool has to keep: `HTTP2PoolConfiguration.responseFields`.
    package static let responseFields = ["retry-after"]

    /// Apple took it.
    package static let accepted = PushResult(verdict: .accepted, status: 200, reason: "", retryAfter: nil)

    init(verdict: Verdict, status: Int, reason: String, retryAfter: Duration?) {
        self.verdict = verdict
        self.status = status
        self.reason = reason
        self.retryAfter = retryAfter
    }

    /// Judges the end of a request.
    ///
    /// - Parameters:
    ///   - outcome: How it ended.
    ///   - resends: How often the request was sent again because of an answer that asked for it (`RequestFate.resend`).
    ///   - now: Unix seconds, for a `retry-after` that gives a date.
    package init(_ outcome: HTTP2Outcome, resends: Int, now: @autoclosure () -> Int64) {
        switch outcome {
        case .answered(let response) where response.status == 200: self = .accepted
        case .answered(let response): self.init(response, resends: resends, now: now())
        case .notProcessed(let fault): self.init(notProcessed: fault)
        case .unknown(let fault):
            self.init(verdict: .unanswered, status: 0, reason: PushResult.word(fault.code), retryAfter: nil)
        }
    }

    private init(_ response: HTTP2Response, resends: Int, now: Int64) {
        let body = AnswerBody(response.body)
        let retryAfter = response["retry-after"].flatMap { RetryAfter.duration($0, now: now) }
        let answer = PushAnswer(
            status: Int(response.status), reason: body.reason,
            timestamp: response.status == 410 ? body.timestamp : nil, retryAfter: retryAfter)
        self.init(
            verdict: AnswerRules.verdict(answer, resends: resends), status: answer.status, reason: answer.reason,
            retryAfter: retryAfter)
    }

    private init(notProcessed fault: HTTP2Fault) {
        // What HTTP/2 cannot carry today it cannot carry tomorrow.
        let verdict =
            fault.code == .unsendable
            ? Verdict(.rejected, notification: .hopeless, concern: .defect) : Verdict.notProcessed
        self.init(verdict: verdict, status: 0, reason: PushResult.word(fault.code), retryAfter: nil)
    }

    /// All that can stand in the ledger instead of Apple's reason.
    package static let words: Set<String> = ["NoAnswer", "ConnectionLost", "Unsendable", "Withdrawn", "NotReachable"]

    /// What stands in the ledger instead of Apple's reason.
    private static func word(_ code: HTTP2Fault.Code) -> String {
        switch code {
        case .deadline: "NoAnswer"
        case .connectionLost, .goAway, .pingTimeout, .reset, .protocolError, .closed: "ConnectionLost"
        case .unsendable: "Unsendable"
        case .withdrawn: "Withdrawn"
        case .resolve, .connect, .proxy, .connectTimeout, .verification, .alert, .handshake, .alpn:
            "NotReachable"
        }
    }
}
