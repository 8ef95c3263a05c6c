// What keeps a simulator from starting.

import Glibc

/// Why a simulator cannot start, in one line for people.
package struct SimulatorError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Whose fault it is.
    package enum Code: Sendable {
        /// The command line.
        case usage
        /// The system, a file, a port.
        case system
        /// A key or certificate.
        case credentials
    }

    package let code: Code
    package let description: String

    /// Makes an error.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// An error of the command line.
    package static func usage(_ text: String) -> SimulatorError { SimulatorError(.usage, text) }

    /// A failed system call.
    package static func system(_ text: String, _ number: Int32) -> SimulatorError {
        SimulatorError(.system, "\(text): \(self.text(of: number))")
    }

    /// A key or certificate that cannot be used or made.
    package static func credentials(_ text: String) -> SimulatorError { SimulatorError(.credentials, text) }

    /// The system's words for an error number.
    static func text(of number: Int32) -> String { unsafe String(cString: strerror(number)) }
}
