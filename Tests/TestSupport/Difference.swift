// What is too little and what is too much, told briefly even when thousands were compared.

/// How one list differs from another, whatever their order; each value counts as often as it stands there.
package struct Difference: Equatable, Sendable, CustomStringConvertible {
    /// Values that are expected more often than they were seen, and the reverse.
    package private(set) var missing: [String] = []
    package private(set) var surplus: [String] = []

    /// No difference.
    package static let none = Difference(expected: [], seen: [])

    /// Compares.
    package init(expected: [String], seen: [String]) {
        var balance: [String: Int] = [:]
        for value in expected { balance[value, default: 0] += 1 }
        for value in seen { balance[value, default: 0] -= 1 }
        for (value, count) in balance.sorted(by: { $0.key < $1.key }) where count != 0 {
            if count > 0 { missing.append(value) } else { surplus.append(value) }
        }
    }

    package var description: String {
        if missing.isEmpty && surplus.isEmpty { return "no difference" }
        return "missing \(missing.count): \(missing.prefix(3)), too much \(surplus.count): \(surplus.prefix(3))"
    }
}
