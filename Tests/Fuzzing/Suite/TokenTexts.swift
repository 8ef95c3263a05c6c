// Device tokens as people write them: what apps log, what old libraries print, what spreadsheets and JSON files make of it, and
// then a few characters changed.

import TestSupport

/// A source of texts that are, or look like, device tokens; none holds NUL, which PostgreSQL knows nowhere.
struct TokenTexts {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    /// The next text.
    mutating func next() -> String {
        var text = form()
        let changes = [0, 0, 0, 1, 1, 2, 4].randomElement(using: &random) ?? 0
        for _ in 0..<changes { mutate(&text) }
        return text
    }

    /// Another spelling of a token in normal form that must be understood as the same.
    mutating func respelled(_ token: String) -> String {
        var text = mixed(token)
        if flip() { text = grouped(text, size: [1, 2, 4, 8].randomElement(using: &random) ?? 8, " ") }
        if flip() { text = "<\(text)>" }
        return margin() + text + margin()
    }

    private mutating func flip() -> Bool { Bool.random(using: &random) }

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

    private mutating func hex() -> String {
        let usual = [64, 64, 64, 64, 160]
        let odd = [0, 1, 2, 6, 7, 8, 9, 10, 63, 65, 398, 399, 400, 401, 402, 512]
        let length = (number(0...3) > 0 ? usual : odd).randomElement(using: &random) ?? 64
        return String((0..<length).map { _ in "0123456789abcdef".randomElement(using: &random) ?? "0" })
    }

    private mutating func mixed(_ text: String) -> String {
        switch number(0...2) {
        case 0: text
        case 1: text.uppercased()
        default: text.map { flip() ? $0.uppercased() : String($0) }.joined()
        }
    }

    private func grouped(_ text: String, size: Int, _ separator: String) -> String {
        var result = ""
        for (place, character) in text.enumerated() {
            if place > 0, place % size == 0 { result += separator }
            result.append(character)
        }
        return result
    }

    private mutating func margin() -> String {
        let blanks = ["", "", " ", "  ", "\t", "\n", "\r\n", "\u{a0}", "\u{b}", "\u{c}"]
        return (blanks.randomElement(using: &random) ?? "") + (blanks.randomElement(using: &random) ?? "")
    }

    private mutating func form() -> String {
        let plain = hex()
        let hex = mixed(plain)
        switch number(0...15) {
        case 0...2: return hex
        case 3: return respelled(plain)
        case 4: return "<\(grouped(hex, size: 8, " "))>"
        case 5:
            return grouped(
                hex, size: number(1...9), [" ", "-", ":", "  ", "\t", ","].randomElement(using: &random) ?? " ")
        case 6:
            return "{length = 32, bytes = 0x\(grouped(String(hex.prefix(24)), size: 8, " ")) ... \(hex.suffix(16)) }"
        case 7: return "{length=\(hex.count / 2),bytes=0x\(hex)}"
        case 8: return "0x\(hex)"
        case 9: return "\"\(hex)\""
        case 10: return "Optional(\(hex))"
        case 11: return "\(hex.prefix(20))…\(hex.suffix(8))"
        case 12:
            return ["", " ", "null", "(null)", "undefined", "<>", "< >", "<", ">", "NaN", "0"].randomElement(
                using: &random) ?? ""
        case 13: return margin() + hex + margin()
        case 14: return wide(hex)
        default: return String((0..<number(1...40)).map { _ in scalar() }.map(Character.init))
        }
    }

    /// Digits and letters of other scripts that look the same, or are digits too.
    private mutating func wide(_ hex: String) -> String {
        let shift = [0xfee0, 0x630, 0x1d79e].randomElement(using: &random) ?? 0xfee0
        return hex.unicodeScalars.map { scalar in
            guard number(0...9) == 0, let other = Unicode.Scalar(scalar.value + UInt32(shift)) else {
                return String(scalar)
            }
            return String(other)
        }.joined()
    }

    private mutating func scalar() -> Unicode.Scalar {
        let range: ClosedRange<UInt32> =
            switch number(0...5) {
            case 0...2: 0x01...0x7f
            case 3: 0x80...0x2ff
            case 4: 0x2000...0x206f
            default: 0x01...0x10ffff
            }
        return Unicode.Scalar(UInt32.random(in: range, using: &random)) ?? "\u{fffd}"
    }

    private mutating func mutate(_ text: inout String) {
        var scalars = Array(text.unicodeScalars)
        // At an end as often as anywhere: that is where texts are trimmed.
        let place = [0, scalars.count, number(0...scalars.count)].randomElement(using: &random) ?? 0
        switch number(0...5) {
        case 0: scalars.insert(scalar(), at: place)
        case 1: scalars.insert(contentsOf: margin().unicodeScalars, at: place)
        case 2:
            scalars.insert(
                contentsOf: ["abcdefvxABCDEF<>{}= .".unicodeScalars.randomElement(using: &random) ?? "v"], at: place)
        case 3: if place < scalars.count { scalars.remove(at: place) }
        case 4: if place < scalars.count { scalars[place] = scalar() }
        default: scalars.removeSubrange(min(place, scalars.count)..<min(place + number(0...9), scalars.count))
        }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars)
        text = String(result)
    }
}
