// Times between the two epochs. PostgreSQL counts microseconds from 2000-01-01 UTC and has two infinities at the ends of
// Int64; this client speaks of microseconds from 1970-01-01 UTC and keeps the infinities where they are.

enum PostgresTimestamp {
    /// Microseconds from 1970-01-01 to 2000-01-01.
    private static let epochDistance: Int64 = 946_684_800_000_000

    /// Microseconds since 1970 as the server counts them; the ends of Int64 are its infinities.
    static func toWire(_ unixMicroseconds: Int64) -> Int64 {
        if unixMicroseconds == .max || unixMicroseconds == .min { return unixMicroseconds }
        let (value, overflow) = unixMicroseconds.subtractingReportingOverflow(epochDistance)
        return overflow ? .min : value
    }

    /// Microseconds since 1970; saturates, so that no value of the server can overflow.
    static func fromWire(_ wire: Int64) -> Int64 {
        if wire == .max || wire == .min { return wire }
        let (value, overflow) = wire.addingReportingOverflow(epochDistance)
        return overflow ? .max : value
    }
}
