// What becomes of a request, as a value: an answer in one of many forms, or one of the ways of getting none.

/// What the `timestamp` of a 410 looks like.
package enum TimestampForm: String, Sendable, CaseIterable {
    case now
    case dayBefore = "day-before"
    case dayAfter = "day-after"
    case absent
    case text
    case negative
    case huge
    case seconds

    /// The JSON of the value at `milliseconds` since 1970; nil when the key is left out.
    package func json(at milliseconds: Int64) -> String? {
        switch self {
        case .now: "\(milliseconds)"
        case .dayBefore: "\(milliseconds - 86_400_000)"
        case .dayAfter: "\(milliseconds + 86_400_000)"
        case .absent: nil
        case .text: "\"yesterday\""
        case .negative: "-1"
        case .huge: "100000000000000000000"
        case .seconds: "\(milliseconds / 1000)"
        }
    }
}

/// What the body of a refusal looks like.
package enum ErrorBodyForm: String, Sendable, CaseIterable {
    /// Apple's JSON.
    case json
    /// END_STREAM on the headers.
    case absent
    /// One empty DATA frame.
    case empty
    case html
    /// JSON that breaks off.
    case broken
    case emptyObject = "empty-object"
    /// A reason that nobody knows.
    case unknownReason = "unknown-reason"
    /// A reason with an escaped NUL in it.
    case nulReason = "nul-reason"
    /// A reason that is a number.
    case numberReason = "number-reason"
    /// Apple's JSON in three DATA frames.
    case split
    /// A reason of 100 KB.
    case long
    /// Apple's JSON, then trailers.
    case trailers
}

/// What a 200 looks like.
package enum SuccessForm: String, Sendable, CaseIterable {
    case plain
    /// 103 Early Hints first.
    case early
    /// Without `apns-id`.
    case noID = "no-id"
    case trailers
    /// With a body, which Apple never sends.
    case body
}

/// An answer.
package struct Answer: Equatable, Sendable {
    /// Why not; nil when accepted.
    package var rejection: Rejection?
    package var timestamp = TimestampForm.absent
    /// Seconds for a `retry-after` header.
    package var retryAfter: Int?
    package var errorBody = ErrorBodyForm.json
    package var success = SuccessForm.plain
    /// How long to wait before answering.
    package var delay = Duration.zero
    /// What channel management has done; nil for pushes.
    package var channel: ChannelOutcome?

    /// Makes an answer: accepted, or refused for a reason.
    package init(_ rejection: Rejection? = nil) {
        self.rejection = rejection
        if rejection?.status == 410 { timestamp = .now }
    }

    /// The HTTP status.
    package var status: Int { rejection?.status ?? channel?.status ?? 200 }
}

/// What becomes of a request.
package enum Decision: Equatable, Sendable {
    case answer(Answer)
    /// No answer, ever; the connection goes on.
    case silence
    /// RST_STREAM with this error code.
    case reset(UInt32)
    /// RST_STREAM REFUSED_STREAM, and at once another with STREAM_CLOSED.
    case resetTwice
    /// The headers of an answer, then RST_STREAM.
    case resetMidAnswer
    /// The TCP connection is reset.
    case abort
    /// The TCP connection is closed without a word.
    case finish
    /// The headers of an answer, then the TCP connection is reset.
    case abortMidAnswer
    /// The first bytes of an answer's headers, then the TCP connection is reset.
    case abortMidHeaders
    /// GOAWAY that leaves this stream and all later ones unprocessed.
    case goAwayBefore
    /// GOAWAY that still answers this stream.
    case goAwayAfter
    /// GOAWAY with the reason, as if no stream had been looked at.
    case goAwayInstead(Rejection)
}

/// HTTP/2 error codes that Apple has been seen to use.
package enum StreamError {
    package static let noError: UInt32 = 0
    package static let internalError: UInt32 = 2
    package static let streamClosed: UInt32 = 5
    package static let refusedStream: UInt32 = 7
    package static let cancel: UInt32 = 8
    package static let enhanceYourCalm: UInt32 = 11
}

/// The body of an answer: the frames to send, empty for none.
package func errorBody(of answer: Answer, at milliseconds: Int64) -> [UInt8] {
    guard let rejection = answer.rejection else { return [] }
    var timestamp = ""
    if let value = answer.timestamp.json(at: milliseconds) { timestamp = ",\"timestamp\":\(value)" }
    let text =
        switch answer.errorBody {
        case .json, .split, .trailers: "{\"reason\":\"\(rejection.reason)\"\(timestamp)}"
        case .absent, .empty: ""
        case .html: "<!DOCTYPE html><html><body><h1>\(rejection.status) \(rejection.reason)</h1></body></html>"
        case .broken: "{\"reason\":\"\(rejection.reason.prefix(4))"
        case .emptyObject: "{}"
        case .unknownReason: "{\"reason\":\"SomethingNobodyHasHeardOf\"\(timestamp)}"
        case .nulReason: "{\"reason\":\"Bad\\u0000Reason\"\(timestamp)}"
        case .numberReason: "{\"reason\":\(rejection.status)\(timestamp)}"
        case .long: "{\"reason\":\"" + String(repeating: "x", count: 100_000) + "\"}"
        }
    return Array(text.utf8)
}
