// Waits: their bounds, their ends, and that randomness fills the range.

import PushModel
import TestSupport
import Testing

private func seconds(_ range: ClosedRange<Duration>) -> ClosedRange<Double> {
    func value(_ duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) * 1e-18
    }
    return value(range.lowerBound)...value(range.upperBound)
}

@Suite struct RetryPolicyTests {
    private let policy = RetryPolicy(maximumAttempts: 50)

    private static let expectedRanges: [(RetryKind, [ClosedRange<Double>])] = [
        (.device, [30...60, 60...120, 120...240, 240...480, 480...960, 960...1920, 1800...3600, 1800...3600]),
        (.server, [5...30, 900...1800, 900...2700, 900...4500, 900...4500]),
        (.throttled, [1...20, 1...40, 1...80, 1...160, 1...320, 1...640, 1...900, 1...900]),
        (.unanswered, [0.5...5, 0.5...10, 0.5...20, 0.5...40, 0.5...80, 0.5...160, 0.5...300, 0.5...300]),
    ]

    @Test(arguments: expectedRanges)
    func ranges(_ kind: RetryKind, _ expected: [ClosedRange<Double>]) {
        for (index, range) in expected.enumerated() {
            #expect(seconds(RetryPolicy.range(kind, attempt: index + 1)) == range)
        }
        #expect(seconds(RetryPolicy.range(kind, attempt: .max)) == expected.last)
    }

    @Test(arguments: RetryKind.allCases)
    func jitterFillsTheRange(_ kind: RetryKind) {
        for attempt in 1...10 {
            let range = RetryPolicy.range(kind, attempt: attempt)
            var least = ExtremeGenerator.least
            var greatest = ExtremeGenerator.greatest
            #expect(policy.decide(kind, attempt: attempt, using: &least) == .again(after: range.lowerBound))
            #expect(policy.decide(kind, attempt: attempt, using: &greatest) == .again(after: range.upperBound))
            var random = SeededGenerator(seed: UInt64(attempt))
            var seen: [Duration] = []
            for _ in 0..<200 {
                guard case .again(let wait) = policy.decide(kind, attempt: attempt, using: &random) else {
                    Issue.record("gave up")
                    return
                }
                #expect(range.contains(wait))
                seen.append(wait)
            }
            let middle = (range.lowerBound + range.upperBound) / 2
            #expect((60...140).contains(seen.filter { $0 < middle }.count))
        }
    }

    @Test func thereIsOneEarlyTryAfterAServerFault() {
        var random = SeededGenerator(seed: 1)
        for attempt in 2...20 {
            for _ in 0..<50 {
                guard case .again(let wait) = policy.decide(.server, attempt: attempt, using: &random) else {
                    Issue.record("gave up")
                    return
                }
                #expect(wait >= .seconds(900))
            }
        }
    }

    @Test func retryAfterLengthensAndIsBounded() {
        var least = ExtremeGenerator.least
        func wait(_ retryAfter: Duration?) -> RetryDecision {
            policy.decide(.server, attempt: 1, retryAfter: retryAfter, using: &least)
        }
        #expect(wait(.seconds(120)) == .again(after: .seconds(120)))
        #expect(wait(.seconds(1)) == .again(after: .seconds(5)))
        #expect(wait(.seconds(-7)) == .again(after: .seconds(5)))
        #expect(wait(.seconds(86_400)) == .again(after: .seconds(3600)))
        #expect(wait(.seconds(Int64.max / 4)) == .again(after: .seconds(3600)))
        var greatest = ExtremeGenerator.greatest
        #expect(
            policy.decide(.server, attempt: 1, retryAfter: .seconds(3000), using: &greatest)
                == .again(after: .seconds(3030)))
    }

    @Test func attemptsEnd() {
        var random = SeededGenerator(seed: 1)
        let policy = RetryPolicy()
        for kind in RetryKind.allCases {
            for attempt in 1..<8 {
                guard case .again = policy.decide(kind, attempt: attempt, using: &random) else {
                    Issue.record("gave up early")
                    continue
                }
            }
            #expect(policy.decide(kind, attempt: 8, using: &random) == .giveUp(.attempts))
            #expect(policy.decide(kind, attempt: .max, using: &random) == .giveUp(.attempts))
        }
    }

    @Test func timeEnds() {
        var least = ExtremeGenerator.least
        func decide(_ remaining: Duration) -> RetryDecision {
            policy.decide(.device, attempt: 1, remaining: remaining, using: &least)
        }
        #expect(decide(.seconds(30)) == .giveUp(.expiry))
        #expect(decide(.seconds(31)) == .again(after: .seconds(30)))
        #expect(decide(.seconds(-5)) == .giveUp(.expiry))
        #expect(
            policy.decide(.device, attempt: 1, retryAfter: .seconds(100), remaining: .seconds(90), using: &least)
                == .giveUp(.expiry))
    }

    @Test func oddAttemptsAreHarmless() {
        var random = SeededGenerator(seed: 1)
        for attempt in [0, -1, .min] {
            guard case .again(let wait) = policy.decide(.device, attempt: attempt, using: &random) else {
                Issue.record("gave up")
                continue
            }
            #expect((Duration.seconds(30)...(.seconds(60))).contains(wait))
        }
    }
}
