// The live line of `watch`, as a pure function of what is known and of the width it may take.
//
//     sending  ━━━━━━━━━━━━╸───────  61 %  6,104 of 10,000  12 rejected  5,210/s  0:04 left
//
// When it is too long, the parts that matter least go first; the bar takes what is left.

/// What is known about a notification under way.
struct ProgressSnapshot: Equatable {
    var status: String
    /// Devices in the audience, as far as known.
    var total: Int64?
    var accepted: Int64 = 0
    var rejected: Int64 = 0
    var unknown: Int64 = 0
    /// Devices per second at present.
    var rate: Double?
    /// Seconds until the due time, while it lies ahead.
    var dueIn: Double?

    var done: Int64 { accepted + rejected + unknown }

    /// The share done, 0 … 1; nil while the total is not known.
    var share: Double? {
        guard let total, total > 0 else { return nil }
        return min(1, Double(done) / Double(total))
    }

    /// Seconds until the end at the present rate.
    var remaining: Double? {
        guard let total, let rate, rate > 0, total > done else { return nil }
        return Double(total - done) / rate
    }
}

/// Draws progress.
enum ProgressBar {
    private static let widest = 40
    private static let narrowest = 10

    /// The line for a terminal of `width` columns; never wider.
    static func line(_ snapshot: ProgressSnapshot, width: Int, style: Style) -> String {
        var parts = words(snapshot)
        // The last column stays free: many terminals wrap when it is written to.
        let room = max(0, width - 1)
        while parts.count > 1, length(parts) > room { parts.removeLast() }
        let barRoom = min(widest, room - length(parts) - 2)
        let ink = Style.ink(ofStatus: snapshot.status)
        var painted = parts
        painted[0] = style.paint(DisplayText.cut(parts[0], to: room), ink)
        if let share = snapshot.share, barRoom >= narrowest {
            painted.insert(bar(share, columns: barRoom, style: style, ink: ink), at: 1)
        }
        return painted.joined(separator: "  ")
    }

    /// The same as a plain sentence, for logs and pipes.
    static func sentence(_ snapshot: ProgressSnapshot) -> String { words(snapshot).joined(separator: "  ") }

    /// The parts, the most important first.
    private static func words(_ snapshot: ProgressSnapshot) -> [String] {
        var words = [snapshot.status]
        if snapshot.status == "pending" {
            return words + [snapshot.dueIn.map { "due in \(Numbers.span($0))" } ?? "due, waiting for a worker"]
        }
        if snapshot.total == nil, snapshot.done == 0 { return words }
        if let share = snapshot.share { words.append("\(Int((share * 100).rounded(.down))) %") }
        let total = snapshot.total.map { " of \(Numbers.grouped($0))" } ?? ""
        words.append("\(Numbers.grouped(snapshot.done))\(total)")
        if snapshot.rejected > 0 { words.append("\(Numbers.grouped(snapshot.rejected)) rejected") }
        if snapshot.unknown > 0 { words.append("\(Numbers.grouped(snapshot.unknown)) unknown") }
        if let remaining = snapshot.remaining { words.append("\(Numbers.span(remaining)) left") }
        if let rate = snapshot.rate { words.append("\(Numbers.rate(rate))/s") }
        words.append("\(Numbers.grouped(snapshot.accepted)) accepted")
        return words
    }

    private static func length(_ parts: [String]) -> Int {
        parts.reduce(0) { $0 + DisplayText.width($1) } + 2 * (parts.count - 1)
    }

    private static func bar(_ share: Double, columns: Int, style: Style, ink: Style.Ink?) -> String {
        let halves = Int((share * Double(columns * 2)).rounded(.down))
        let full = String(repeating: "━", count: halves / 2)
        let half = halves.isMultiple(of: 2) ? "" : "╸"
        let rest = String(repeating: "─", count: columns - halves / 2 - half.count)
        return style.paint(full + half, ink) + style.paint(rest, .dim)
    }
}

/// Smooths counts seen now and then into a rate.
struct RateMeter {
    /// Seconds after which an old rate counts a third.
    private static let memory = 4.0
    private var last: (time: Double, count: Int64)?
    /// Per second; nil before the second count.
    private(set) var rate: Double?

    /// Takes the count at a time (seconds on any steady clock).
    mutating func add(_ count: Int64, at time: Double) {
        guard let (lastTime, lastCount) = last else {
            last = (time, count)
            return
        }
        guard time > lastTime else { return }
        // A count can fall when a unit of work is taken back; that is no negative rate.
        let current = Double(max(0, count - lastCount)) / (time - lastTime)
        let weight = Self.weight(time - lastTime)
        rate = rate.map { $0 + (current - $0) * weight } ?? current
        last = (time, count)
    }

    /// The share of the newest value after `seconds`: 1 - e^(-t/memory), by its rational approximation.
    private static func weight(_ seconds: Double) -> Double {
        let x = seconds / memory
        return 1 - 1 / (1 + x + x * x / 2 + x * x * x / 6)
    }
}
