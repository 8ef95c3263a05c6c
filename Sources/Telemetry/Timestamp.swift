// Wall-clock time as ISO 8601 in UTC, made by hand: formatters would bring in ICU, and the C library's would take locks.

import Glibc

/// A point of wall-clock time.
package struct WallTime: Sendable, Equatable {
    /// Seconds since 1970-01-01 00:00 UTC.
    package var seconds: Int64
    /// 0 …< 1000.
    package var milliseconds: Int32

    package init(seconds: Int64, milliseconds: Int32 = 0) {
        self.seconds = seconds
        self.milliseconds = milliseconds
    }

    /// What the machine's clock says.
    package static func now() -> WallTime {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(seconds: Int64(time.tv_sec), milliseconds: Int32(truncatingIfNeeded: time.tv_nsec / 1_000_000))
    }

    /// `2026-11-30T09:08:07.123Z`; years outside 0000…9999 are shown as the nearest of them.
    package var iso8601: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    func append(to bytes: inout [UInt8]) {
        // 0000-01-01 and 9999-12-31 23:59:59.
        let bounded = min(max(seconds, -62_167_219_200), 253_402_300_799)
        let days = bounded.flooredQuotient(86_400)
        let second = bounded - days * 86_400
        let (year, month, day) = WallTime.civil(days)
        bytes.appendDigits(year, 4)
        bytes.append(UInt8(ascii: "-"))
        bytes.appendDigits(month, 2)
        bytes.append(UInt8(ascii: "-"))
        bytes.appendDigits(day, 2)
        bytes.append(UInt8(ascii: "T"))
        bytes.appendDigits(second / 3600, 2)
        bytes.append(UInt8(ascii: ":"))
        bytes.appendDigits(second / 60 % 60, 2)
        bytes.append(UInt8(ascii: ":"))
        bytes.appendDigits(second % 60, 2)
        bytes.append(UInt8(ascii: "."))
        bytes.appendDigits(Int64(min(max(milliseconds, 0), 999)), 3)
        bytes.append(UInt8(ascii: "Z"))
    }

    /// Year, month and day of the day that many days after 1970-01-01 (Howard Hinnant's `civil_from_days`).
    private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = shifted.flooredQuotient(146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}

extension Int64 {
    fileprivate func flooredQuotient(_ divisor: Int64) -> Int64 {
        self >= 0 ? self / divisor : -((-self + divisor - 1) / divisor)
    }
}

extension [UInt8] {
    /// Appends a number that is not negative in decimal, at least `width` digits.
    mutating func appendDigits(_ number: Int64, _ width: Int) {
        var power: Int64 = 1
        for _ in 1..<width { power *= 10 }
        while power <= number / 10 { power *= 10 }
        while power > 0 {
            append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / power % 10))
            power /= 10
        }
    }
}
