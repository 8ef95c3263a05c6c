// Numbers and spans of time as people read them.

/// Renders counts, rates and spans.
enum Numbers {
    /// `1234567` → `1,234,567`.
    static func grouped(_ number: Int64) -> String {
        let digits = String(number.magnitude)
        var result = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { result.append(",") }
            result.append(digit)
        }
        return number < 0 ? "-" + result : result
    }

    /// Pushes per second: one decimal below ten, none above.
    static func rate(_ perSecond: Double) -> String {
        guard perSecond.isFinite, perSecond >= 0 else { return "-" }
        if perSecond >= 9.95 { return grouped(Int64(min(perSecond, 1e15).rounded())) }
        let tenths = Int((perSecond * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    /// Seconds as `0:04`, `12:30`, `3:05:00` or `2d 03:00`.
    static func span(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds >= 0 else { return "-" }
        let whole = Int64(min(seconds, 1e12).rounded(.up))
        let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60)
        if days > 0 { return "\(days)d \(two(hours)):\(two(minutes))" }
        return hours > 0 ? "\(hours):\(two(minutes)):\(two(whole % 60))" : "\(minutes):\(two(whole % 60))"
    }

    private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : String(number) }
}
