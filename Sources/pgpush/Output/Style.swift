// Colours, where they are welcome.

/// Paints words for a terminal, or leaves them alone.
struct Style: Sendable {
    /// A colour or weight of the terminal's own palette.
    enum Ink: String, Sendable {
        case bold = "1"
        case dim = "2"
        case red = "31"
        case green = "32"
        case yellow = "33"
        case blue = "34"
    }

    let isColoured: Bool

    func paint(_ text: String, _ ink: Ink?) -> String {
        guard isColoured, let ink else { return text }
        return "\u{1B}[\(ink.rawValue)m\(text)\u{1B}[0m"
    }

    /// The ink of a status, a result or a check.
    static func ink(ofStatus status: String) -> Ink? {
        switch status {
        case "sent", "ok", "done", "accepted": .green
        case "failed", "fail", "rejected": .red
        case "cancelled", "cancelling", "expired", "warn", "unknown", "parked": .yellow
        case "sending", "leased": .blue
        case "skipped", "abandoned": .dim
        default: nil
        }
    }
}
