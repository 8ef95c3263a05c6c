// What the user typed, after parsing: options with their values and the operands, and the readings of them that
// verbs share. Every reading that can fail says which option is wrong and what it would accept.

/// The options and operands of one invocation.
struct Arguments: Sendable {
    private var values: [String: [String]] = [:]
    /// The words that are not options, in order.
    var operands: [String] = []

    mutating func add(_ option: Option, _ value: String?) {
        if option.repeats {
            values[option.name, default: []].append(value ?? "")
        } else {
            values[option.name] = [value ?? ""]
        }
    }

    /// Whether the option was given.
    func has(_ option: Option) -> Bool { values[option.name] != nil }

    /// The value of an option, if it was given.
    func text(_ option: Option) -> String? { values[option.name]?.last }

    /// All values of an option that may be repeated.
    func texts(_ option: Option) -> [String] { values[option.name] ?? [] }

    /// A whole number within `range`, if it was given.
    func integer(_ option: Option, _ range: ClosedRange<Int>) throws(UsageError) -> Int? {
        guard let text = text(option) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "\(option.dashed) takes a whole number from \(range.lowerBound) to \(range.upperBound), not '\(text)'")
        }
        return number
    }

    /// A number, if it was given.
    func number(_ option: Option) throws(UsageError) -> Double? {
        guard let text = text(option) else { return nil }
        guard let number = Double(text), number.isFinite else {
            throw UsageError("\(option.dashed) takes a number, not '\(text)'")
        }
        return number
    }

    /// One of a few words, if it was given.
    func choice(_ option: Option, _ words: [String]) throws(UsageError) -> String? {
        guard let text = text(option) else { return nil }
        return try Self.checked(text, option, words)
    }

    /// Any number out of a few words.
    func choices(_ option: Option, _ words: [String]) throws(UsageError) -> [String] {
        var found: [String] = []
        for text in texts(option) { found.append(try Self.checked(text, option, words)) }
        return found
    }

    private static func checked(_ text: String, _ option: Option, _ words: [String]) throws(UsageError) -> String {
        guard words.contains(text) else {
            let hint = Suggestion.nearest(to: text, among: words).map { "; did you mean '\($0)'?" } ?? ""
            throw UsageError("\(option.dashed) is one of \(words.joined(separator: ", ")), not '\(text)'\(hint)")
        }
        return text
    }

    /// A point in time, if it was given.
    func time(_ option: Option) throws(UsageError) -> TimeArgument? {
        guard let text = text(option) else { return nil }
        return try TimeArgument(text, for: option.dashed)
    }

    /// The operand at `index` as the id of a notification.
    func identifier(_ index: Int) throws(UsageError) -> Int64 {
        let text = operands.indices.contains(index) ? operands[index] : ""
        guard let id = Int64(text), id > 0 else {
            throw UsageError("an ID is a whole number above 0, as 'pgpush list' shows it, not '\(text)'")
        }
        return id
    }
}
