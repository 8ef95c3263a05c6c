// How a point in time is written on the command line. The grammar is narrow on purpose: PostgreSQL alone would also
// take 'tomorrow', 'infinity' or 03/04/2026, and mean by the last what its DateStyle says.

import PushStore

/// A point in time as typed: `now`, `+15m`, or ISO 8601.
struct TimeArgument: Equatable {
    let moment: Moment
    /// Whether the text says which zone it means; if not, the zone of the database session is used.
    let namesZone: Bool

    static let forms = """
        now, +90s, +15m, +2h30m, +1d, or ISO 8601: 2026-03-08T09:30:00+01:00, 2026-03-08 09:30Z,
        '2026-03-08 09:30 Europe/Berlin'; without a zone it is read in the time zone of the database session
        """

    /// Reads `text`; `place` is how the message calls it.
    init(_ text: String, for place: String) throws(UsageError) {
        if text == "now" {
            moment = .now
            namesZone = true
        } else if text.hasPrefix("+") {
            guard let seconds = Self.seconds(text.dropFirst()) else { throw Self.refusal(text, place) }
            moment = .fromNow(seconds: seconds)
            namesZone = true
        } else {
            var scanner = TimeScanner(text)
            guard scanner.date(), scanner.timeOfDay(), let zone = scanner.zone() else {
                throw Self.refusal(text, place)
            }
            moment = .at(text)
            namesZone = zone
        }
    }

    private static func refusal(_ text: String, _ place: String) -> UsageError {
        UsageError("\(place) does not understand '\(text)' as a time; write \(forms)")
    }

    /// `2h30m` → 9000; nil unless it is numbers with the units w, d, h, m, s, each larger than the next.
    static func seconds(_ text: Substring) -> Int64? {
        let units: [(letter: Character, seconds: Int64)] = [
            ("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1),
        ]
        var rest = text
        var usable = units[...]
        var sum: Int64 = 0
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            // At most 9 digits: no sum of five of them times a week overflows.
            guard digits.count <= 9, let number = Int64(digits) else { return nil }
            rest = rest.dropFirst(digits.count)
            guard let letter = rest.popFirst(), let index = usable.firstIndex(where: { $0.letter == letter }) else {
                return nil
            }
            sum += number * usable[index].seconds
            usable = usable[(index + 1)...]
        }
        return text.isEmpty ? nil : sum
    }
}

/// Walks over a date and time; each step answers whether the text fits.
private struct TimeScanner {
    private var rest: Substring

    init(_ text: String) { rest = text[...] }

    /// `YYYY-MM-DD`, a day that exists.
    mutating func date() -> Bool {
        guard let year = digits(4), year > 0, take("-"), let month = digits(2), (1...12).contains(month), take("-"),
            let day = digits(2)
        else { return false }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let length = month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
        return (1...length).contains(day)
    }

    /// `THH:MM[:SS[.ffffff]]`; a blank may stand for the T.
    mutating func timeOfDay() -> Bool {
        guard take("T") || take("t") || take(" "), let hour = digits(2), hour < 24, take(":"),
            let minute = digits(2), minute < 60
        else { return false }
        guard take(":") else { return true }
        guard let second = digits(2), second < 60 else { return false }
        guard take(".") else { return true }
        let fraction = rest.prefix { $0.isASCII && $0.isNumber }
        rest = rest.dropFirst(fraction.count)
        return (1...6).contains(fraction.count)
    }

    /// The rest as a zone: true if it is one, false if nothing is left, nil if it cannot be one.
    mutating func zone() -> Bool? {
        _ = take(" ")
        if rest.isEmpty { return false }
        if rest == "Z" || rest == "z" { return true }
        if take("+") || take("-") {
            guard let hour = digits(2), hour < 16 else { return nil }
            if rest.isEmpty { return true }
            _ = take(":")
            guard let minute = digits(2), minute < 60, rest.isEmpty else { return nil }
            return true
        }
        // A name such as Europe/Berlin or Etc/GMT+3; whether it exists, PostgreSQL knows.
        guard let first = rest.first, first.isASCII, first.isLetter else { return nil }
        return rest.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "_/+-".contains($0)) } ? true : nil
    }

    private mutating func digits(_ count: Int) -> Int? {
        let found = rest.prefix(count)
        guard found.count == count, found.allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int(found) else {
            return nil
        }
        rest = rest.dropFirst(count)
        return number
    }

    private mutating func take(_ letter: Character) -> Bool {
        guard rest.first == letter else { return false }
        rest = rest.dropFirst()
        return true
    }
}
