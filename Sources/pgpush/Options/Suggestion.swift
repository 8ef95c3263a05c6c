// "Did you mean …?" for a mistyped verb, option or word.

/// Finds the word that was probably meant.
enum Suggestion {
    /// The candidate that is at most a third of its letters away from `word`, or begins with it; nil if none does.
    static func nearest(to word: String, among candidates: [String]) -> String? {
        guard word.count >= 2 else { return nil }
        let scored = candidates.map { candidate in
            (candidate, candidate.hasPrefix(word) ? 0 : distance(Array(word), Array(candidate)))
        }
        guard let best = scored.min(by: { $0.1 < $1.1 }), best.1 <= max(1, best.0.count / 3) else { return nil }
        return best.0
    }

    /// How many letters must be put in, taken out, changed or swapped with their neighbour.
    static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for (row, letter) in left.enumerated() {
            var current = [row + 1]
            for (column, other) in right.enumerated() {
                var best = min(last[column + 1], current[column]) + 1
                best = min(best, last[column] + (letter == other ? 0 : 1))
                if row > 0, column > 0, letter == right[column - 1], left[row - 1] == other {
                    best = min(best, beforeLast[column - 1] + 1)
                }
                current.append(best)
            }
            (beforeLast, last) = (last, current)
        }
        return last[right.count]
    }
}
