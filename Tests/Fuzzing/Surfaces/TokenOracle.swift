// What the contract says about device tokens, written down a second time: "hex, stored lower-case; <…>, blanks and upper case are
// normalised on write; anything else is refused with the reason". The SQL is held against this.

/// Judges texts that are offered as device tokens.
package enum TokenOracle {
    /// Why a text is no token.
    package enum Fault: String, Sendable, CaseIterable {
        case empty = "it is empty"
        case shortened = "it is a shortened description of the token"
        case characters = "it holds characters that are not hex digits"
        case odd = "it has an odd number of hex digits"
        case short = "it has fewer than 8 hex digits"
        case long = "it has more than 400 hex digits"
    }

    /// A verdict.
    package struct Judgement: Equatable, Sendable {
        /// The normal form of a text that is a token.
        package let token: String?
        /// Why it is none.
        package let fault: Fault?
    }

    private static let margins: Set<Unicode.Scalar> = [" ", "\t", "\n", "\u{b}", "\u{c}", "\r", "\u{a0}"]

    /// Judges one text.
    package static func judge(_ text: String) -> Judgement {
        var scalars = Array(text.unicodeScalars)[...]
        scalars = scalars.drop { margins.contains($0) }
        while let last = scalars.last, margins.contains(last) { scalars.removeLast() }
        if scalars.count >= 2, scalars.first == "<", scalars.last == ">" { scalars = scalars.dropFirst().dropLast() }
        let rest = scalars.filter { $0 != " " }.map { scalar in
            ("A"..."Z").contains(scalar) ? Unicode.Scalar(scalar.value + 32) ?? scalar : scalar
        }
        if let fault = fault(rest) { return Judgement(token: nil, fault: fault) }
        var token = String.UnicodeScalarView()
        token.append(contentsOf: rest)
        return Judgement(token: String(token), fault: nil)
    }

    private static func fault(_ rest: [Unicode.Scalar]) -> Fault? {
        if rest.isEmpty { return .empty }
        if rest.contains("…") || contains(rest, "...") || contains(rest, "length=") { return .shortened }
        if !rest.allSatisfy({ ("0"..."9").contains($0) || ("a"..."f").contains($0) }) { return .characters }
        if rest.count % 2 == 1 { return .odd }
        if rest.count < 8 { return .short }
        return rest.count > 400 ? .long : nil
    }

    private static func contains(_ scalars: [Unicode.Scalar], _ word: String) -> Bool {
        let word = Array(word.unicodeScalars)
        return scalars.indices.contains { scalars[$0...].starts(with: word) }
    }
}
