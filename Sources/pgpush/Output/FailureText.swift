// How a failure is told on standard error.

import PushStore

extension CommandFailure {
    init(_ error: ConfigurationError) { self.init(.configuration, error.description, hint: error.remedy) }

    /// The failure that any error thrown by a verb amounts to.
    init(any error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as ConfigurationError: self.init(error)
        default: self.init(.failed, String(describing: error))
        }
    }

    /// The lines for standard error.
    func lines(command: String, style: Style) -> [String] {
        let state = sqlState.map { " (SQLSTATE \($0))" } ?? ""
        var lines = ["\(command): \(style.paint("error:", .red)) \(DisplayText.cleaned(message))\(state)"]
        if let detail { lines.append("  detail: \(DisplayText.cleaned(detail))") }
        if let hint { lines.append("  hint: \(DisplayText.cleaned(hint))") }
        return lines
    }
}
