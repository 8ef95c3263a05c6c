// The logger that is handed down through the program. Messages are constants, what varies stands under typed keys: so lines can
// be counted and searched, and nothing from outside can become a message. Fields are evaluated only when the level is wanted.

/// Writes records under a label with fixed context fields; a value, cheap to copy.
package struct Logger: Sendable {
    package let label: String
    private let output: LogOutput
    private var context: LogFields

    package init(label: String, output: LogOutput, context: LogFields = LogFields()) {
        self.label = label
        self.output = output
        self.context = context
    }

    /// A logger whose records go nowhere.
    package static let silent = Logger(
        label: "", output: LogOutput(LogSettings(level: .error)) { _ in true })

    /// The same destination under another label and with more context.
    package func child(_ label: String, _ fields: LogFields = LogFields()) -> Logger {
        var child = Logger(label: label, output: output, context: context)
        for (key, value) in fields.pairs { child.context.add(key, value) }
        return child
    }

    /// Whether a record of that level would be written.
    package func wants(_ level: LogLevel) -> Bool { level >= output.settings.level }

    package func log(_ level: LogLevel, _ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        guard wants(level) else { return }
        output.write(level, label, message, context, fields())
    }

    package func trace(_ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        log(.trace, message, fields())
    }

    package func debug(_ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        log(.debug, message, fields())
    }

    package func info(_ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        log(.info, message, fields())
    }

    package func notice(_ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        log(.notice, message, fields())
    }

    package func warning(_ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        log(.warning, message, fields())
    }

    package func error(_ message: StaticString, _ fields: @autoclosure () -> LogFields = LogFields()) {
        log(.error, message, fields())
    }
}
