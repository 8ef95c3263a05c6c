// Counting as requests go by, so that "nothing doubled, nothing missed" over a million pushes needs no second pass
// over the journal. Tokens are kept as 64-bit hashes: 1 in 37 million for a clash among a million of them.

/// What a simulator has seen so far.
package struct Tally: Sendable {
    /// How often a token was asked for and accepted.
    private struct Visits {
        var requests: UInt32 = 0
        var accepted: UInt32 = 0
    }

    /// A kind of answer.
    private struct Outcome: Hashable {
        let environment: SimulatedEnvironment
        let status: Int
        let reason: String
    }

    private var visits: [UInt64: Visits] = [:]
    private var outcomes: [Outcome: Int] = [:]
    private var magicMet: Set<UInt64> = []
    /// Requests that arrived.
    package private(set) var requests = 0
    /// Requests that were answered.
    package private(set) var answered = 0
    /// Pushes that were answered with 200.
    package private(set) var accepted = 0
    /// Requests that ended without an answer.
    package private(set) var unanswered = 0
    /// Tokens that were accepted at least once.
    package private(set) var distinctAccepted = 0
    /// Tokens that were accepted more than once.
    package private(set) var repeatedAccepted = 0
    /// The first of the tokens that were accepted more than once.
    package private(set) var repeatedExamples: [String] = []
    /// TCP connections that were accepted, whatever became of their handshake.
    package internal(set) var knocks = 0
    /// Connections that were opened, and those that have ended.
    package internal(set) var opened = 0
    package internal(set) var closed = 0
    /// Bodies that earned a warning.
    package private(set) var warned = 0

    /// Nothing seen yet.
    package init() {}

    /// Notes the arrival of a request; returns which one it is for its token, from 1.
    package mutating func arrived(_ token: UInt64) -> Int {
        requests += 1
        visits[token, default: Visits()].requests &+= 1
        return Int(visits[token]?.requests ?? 1)
    }

    /// Notes the arrival of a request that nobody looks at.
    package mutating func arrivedUnread() { requests += 1 }

    /// Whether a magic token that works once is met for the first time.
    package mutating func meetsMagicFirst(_ token: UInt64) -> Bool { magicMet.insert(token).inserted }

    /// Notes that a body was odd.
    package mutating func noteWarning() { warned += 1 }

    /// Notes an answer that is about to leave.
    package mutating func noteAnswer(_ answer: Answer, environment: SimulatedEnvironment, token: String?) {
        answered += 1
        let outcome = Outcome(environment: environment, status: answer.status, reason: answer.rejection?.reason ?? "")
        outcomes[outcome, default: 0] += 1
        guard answer.rejection == nil, answer.channel == nil else { return }
        accepted += 1
        if let token { noteAccepted(token) }
    }

    /// Notes a request that will get no answer.
    package mutating func noteUnanswered() { unanswered += 1 }

    private mutating func noteAccepted(_ token: String) {
        let hash = stableHash(token)
        visits[hash, default: Visits()].accepted &+= 1
        switch visits[hash]?.accepted {
        case 1: distinctAccepted += 1
        case 2:
            repeatedAccepted += 1
            if repeatedExamples.count < 20 { repeatedExamples.append(token) }
        default: break
        }
    }

    /// All counts as one line of JSON.
    package var json: String {
        let lines = outcomes.sorted {
            ($0.key.environment.rawValue, $0.key.status, $0.key.reason) < (
                $1.key.environment.rawValue, $1.key.status, $1.key.reason
            )
        }
        .map { outcome, count in
            "{\"environment\":\"\(outcome.environment.rawValue)\",\"status\":\(outcome.status),"
                + "\"reason\":\"\(outcome.reason)\",\"count\":\(count)}"
        }
        let examples = repeatedExamples.map { "\"\($0)\"" }.joined(separator: ",")
        return "{\"requests\":\(requests),\"answered\":\(answered),\"accepted\":\(accepted),"
            + "\"unanswered\":\(unanswered),\"distinct_accepted\":\(distinctAccepted),"
            + "\"repeated_accepted\":\(repeatedAccepted),\"repeated_examples\":[\(examples)],\"warned\":\(warned),"
            + "\"knocks\":\(knocks),\"opened\":\(opened),\"closed\":\(closed),\"outcomes\":[\(lines.joined(separator: ","))]}"
    }
}
