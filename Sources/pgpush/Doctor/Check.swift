// One thing that doctor looked at, and what to do if it is not well.

import PushStore

/// The result of a check.
struct Check: Sendable, Equatable {
    enum State: String, Sendable {
        case ok
        /// It works, but not as one would want it.
        case warn
        case fail
    }

    let name: String
    let state: State
    /// What was found.
    let message: String
    /// What to do about it.
    var remedy: String?
    /// What a failure means for the exit code.
    var code = ExitCode.failed

    static func ok(_ name: String, _ message: String) -> Check { Check(name: name, state: .ok, message: message) }

    static func warn(_ name: String, _ message: String, remedy: String) -> Check {
        Check(name: name, state: .warn, message: message, remedy: remedy)
    }

    static func fail(_ name: String, _ message: String, remedy: String?, _ code: ExitCode) -> Check {
        Check(name: name, state: .fail, message: message, remedy: remedy, code: code)
    }

    static func fail(_ name: String, _ error: ConfigurationError) -> Check {
        fail(name, error.description, remedy: error.remedy, .configuration)
    }

    static func fail(_ name: String, _ failure: CommandFailure) -> Check {
        fail(name, failure.message, remedy: failure.hint, failure.code)
    }

    /// The exit code for a list of results: of the failures, what must be repaired first.
    static func exitCode(_ checks: [Check]) -> ExitCode {
        let failures = checks.filter { $0.state == .fail }.map(\.code)
        let order: [ExitCode] = [.configuration, .databaseUnreachable, .pushServiceUnreachable, .failed]
        return order.first(where: failures.contains) ?? .done
    }

    var json: JSON {
        .object([
            ("check", .string(name)), ("state", .string(state.rawValue)), ("message", .string(message)),
            ("remedy", .text(remedy)),
        ])
    }
}
