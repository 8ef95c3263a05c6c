// Reads a `retry-after` field (RFC 9110 §10.2.3): seconds, or a date in the preferred form. Apple does not document it; it is
// honoured should it come, within the bounds of `RetryPolicy`.

/// Reader of `retry-after`.
package enum RetryAfter {
    /// How long to wait from `now` (Unix seconds); nil when the value is not understood or lies in the past.
    package static func duration(_ value: String, now: Int64) -> Duration? {
        let text = SettingText.trimmed(value)
        if let first = text.utf8.first, first >= 0x30, first <= 0x39 {
            // What does not fit is a wait that the policy cuts short anyway.
            guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
            return .seconds(min(Int64(text) ?? .max, 1_000_000_000))
        }
        guard let date = unixSeconds(text), date > now else { return nil }
        return .seconds(date - now)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    private static func unixSeconds(_ text: String) -> Int64? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = number(parts[1], 1...31),
            let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
                .firstIndex(of: String(parts[2])),
            let year = number(parts[3], 1970...9999)
        else { return nil }
        let time = parts[4].split(separator: ":")
        guard time.count == 3, let hour = number(time[0], 0...23), let minute = number(time[1], 0...59),
            let second = number(time[2], 0...60)
        else { return nil }
        return daysFrom1970(year, Int64(month) + 1, day) * 86_400 + hour * 3600 + minute * 60 + second
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int64(text) else { return nil }
        return range.contains(number) ? number : nil
    }

    /// Howard Hinnant's `days_from_civil`, for years after 0.
    private static func daysFrom1970(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
