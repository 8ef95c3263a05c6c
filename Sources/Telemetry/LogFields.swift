// The keys and values of a log record. A key is a typed constant, so that all keys of a program can be found in one place:
// modules extend `LogKey` with static members.

/// A dotted key of a log record, such as `db.state`; made only as a static member.
package struct LogKey: Sendable, Hashable {
    package let name: StaticString

    package init(_ name: StaticString) { self.name = name }

    package static func == (left: LogKey, right: LogKey) -> Bool { left.text == right.text }
    package func hash(into hasher: inout Hasher) { hasher.combine(text) }

    var text: String { String(describing: name) }
}

extension LogKey {
    /// How many like this were left out since the last one that was written.
    package static let suppressed = LogKey("log.suppressed")
    /// How many records were lost because the log could not be written.
    package static let dropped = LogKey("log.dropped")
    /// What went wrong, in words.
    package static let error = LogKey("error")
}

/// A value as it is written.
package enum LogValue: Sendable, Equatable {
    case text(String)
    case signed(Int64)
    case unsigned(UInt64)
    case real(Double)
    case flag(Bool)
}

/// What may stand as a value in a log record; nil leaves the key out.
package protocol LogRepresentable {
    var logValue: LogValue? { get }
}

extension LogValue: LogRepresentable {
    package var logValue: LogValue? { self }
}
extension String: LogRepresentable {
    package var logValue: LogValue? { .text(self) }
}
extension Substring: LogRepresentable {
    package var logValue: LogValue? { .text(String(self)) }
}
extension StaticString: LogRepresentable {
    package var logValue: LogValue? { .text(description) }
}
extension Bool: LogRepresentable {
    package var logValue: LogValue? { .flag(self) }
}
extension Double: LogRepresentable {
    package var logValue: LogValue? { .real(self) }
}
extension Int: LogRepresentable {
    package var logValue: LogValue? { .signed(Int64(self)) }
}
extension Int16: LogRepresentable {
    package var logValue: LogValue? { .signed(Int64(self)) }
}
extension Int32: LogRepresentable {
    package var logValue: LogValue? { .signed(Int64(self)) }
}
extension Int64: LogRepresentable {
    package var logValue: LogValue? { .signed(self) }
}
extension UInt8: LogRepresentable {
    package var logValue: LogValue? { .unsigned(UInt64(self)) }
}
extension UInt16: LogRepresentable {
    package var logValue: LogValue? { .unsigned(UInt64(self)) }
}
extension UInt32: LogRepresentable {
    package var logValue: LogValue? { .unsigned(UInt64(self)) }
}
extension UInt64: LogRepresentable {
    package var logValue: LogValue? { .unsigned(self) }
}
extension Duration: LogRepresentable {
    /// Seconds, to the microsecond.
    package var logValue: LogValue? {
        let (seconds, attoseconds) = components
        return .real(Double(seconds) + Double(attoseconds / 1_000_000_000_000) / 1_000_000)
    }
}
extension Optional: LogRepresentable where Wrapped: LogRepresentable {
    package var logValue: LogValue? { self?.logValue }
}

/// Keys with values, in the order in which they were given.
package struct LogFields: Sendable, ExpressibleByDictionaryLiteral {
    package private(set) var pairs: [(key: LogKey, value: LogValue)]

    package init() { pairs = [] }

    package init(dictionaryLiteral elements: (LogKey, any LogRepresentable)...) {
        pairs = elements.compactMap { key, value in value.logValue.map { (key, $0) } }
    }

    /// Sets a key; nil leaves it out.
    package mutating func add(_ key: LogKey, _ value: any LogRepresentable) {
        if let value = value.logValue { pairs.append((key, value)) }
    }

    package var isEmpty: Bool { pairs.isEmpty }
}
