// Device tokens of tests, the same in Swift and in SQL.

import Foundation

/// Makes device tokens.
package enum DeviceTokens {
    /// A token that the simulator accepts, told apart by its number.
    package static func plain(_ number: Int) -> String { "a0" + digits(number, 62) }

    /// A token that chooses its answer by four digits; `apns-simulator --help` lists them.
    package static func magic(_ choice: String, _ number: Int = 0) -> String {
        "5ca1ab1e" + choice + digits(number, 52)
    }

    /// `plain` of a number as an SQL expression.
    package static func sql(_ number: String) -> String { "'a0' || lpad(to_hex(\(number)), 62, '0')" }

    private static func digits(_ number: Int, _ width: Int) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: max(0, width - text.count)) + text
    }
}
