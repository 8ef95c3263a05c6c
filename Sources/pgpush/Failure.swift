// What a verb could not do, in the shape in which it is told: one line of what, one of why, one of what to do about it.

import PushStore

/// An error for the user, with the exit code it ends in.
struct Failure: Error {
    let code: ExitCode
    /// What went wrong, without a full stop.
    let message: String
    var detail: String?
    /// What to do about it.
    var hint: String?
    /// PostgreSQL's code for it.
    var sqlState: String?

    init(_ code: ExitCode, _ message: String, detail: String? = nil, hint: String? = nil, sqlState: String? = nil) {
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.sqlState = sqlState
    }

    init(_ error: ConfigurationError) { self.init(.configuration, error.description, hint: error.remedy) }

    /// The lines for standard error.
    func lines(command: String, style: Style) -> [String] {
        let state = sqlState.map { " (SQLSTATE \($0))" } ?? ""
        var lines = ["\(command): \(style.paint("error:", .red)) \(DisplayText.cleaned(message))\(state)"]
        if let detail { lines.append("  detail: \(DisplayText.cleaned(detail))") }
        if let hint { lines.append("  hint: \(DisplayText.cleaned(hint))") }
        return lines
    }
}
