// What is done to the system in a scenario: a fault begins, lasts, and ends. Each kind draws its figures from a seeded generator.

import TestSupport

/// Something that goes wrong for a while.
protocol Fault: Sendable, CustomStringConvertible {
    /// How long it lasts.
    var lasts: Duration { get }
    func begin(on field: Field) async throws
    func end(on field: Field) async throws
}

extension Fault {
    /// Lets it begin, last and end.
    func strike(_ field: Field) async throws {
        try await field.trouble(description) {
            try await begin(on: field)
            try await field.pass(lasts)
            try await end(on: field)
        }
    }
}

/// What the plans draw.
extension SeededGenerator {
    /// A whole number out of a range.
    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

    /// Whole milliseconds out of a range of seconds.
    mutating func seconds(_ range: ClosedRange<Int>) -> Duration {
        .milliseconds(number(range.lowerBound * 1000...range.upperBound * 1000))
    }

    /// One of several.
    mutating func pick<T>(_ choices: [T]) -> T { choices[number(0...choices.count - 1)] }

    /// True with this share.
    mutating func happens(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &self) < share }
}
