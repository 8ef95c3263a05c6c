// How important a record is, and how records are written.

/// Importance of a log record, least first.
package enum LogLevel: UInt8, Sendable, Comparable, CaseIterable {
    case trace, debug, info, notice, warning, error

    /// The lower-case name, as configuration and log lines spell it.
    package var name: String {
        switch self {
        case .trace: "trace"
        case .debug: "debug"
        case .info: "info"
        case .notice: "notice"
        case .warning: "warning"
        case .error: "error"
        }
    }

    /// The level of that name in any case, or nil.
    package init?(named name: String) {
        let lowered = name.lowercased()
        guard let level = LogLevel.allCases.first(where: { $0.name == lowered }) else { return nil }
        self = level
    }

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// Shape of a log line.
package enum LogFormat: String, Sendable, CaseIterable {
    /// For people: `time level label: message key=value …`.
    case text
    /// One JSON object a line: time, level, label, message, then the dotted keys.
    case json
}

/// What the environment says about logging.
package struct LogSettings: Sendable, Equatable {
    package var level: LogLevel
    package var format: LogFormat

    package init(level: LogLevel = .info, format: LogFormat = .text) {
        self.level = level
        self.format = format
    }

    /// Reads `<prefix>LOG_LEVEL` and `<prefix>LOG_FORMAT`; absent or empty means the default.
    ///
    /// - Throws: `LogSettingsError` naming the variable and the values it may have.
    package init(environment: [String: String], prefix: String) throws(LogSettingsError) {
        self.init()
        if let text = environment[prefix + "LOG_LEVEL"], !text.isEmpty {
            guard let level = LogLevel(named: text) else {
                throw LogSettingsError(
                    variable: prefix + "LOG_LEVEL", value: text, allowed: LogLevel.allCases.map(\.name))
            }
            self.level = level
        }
        if let text = environment[prefix + "LOG_FORMAT"], !text.isEmpty {
            guard let format = LogFormat(rawValue: text.lowercased()) else {
                throw LogSettingsError(
                    variable: prefix + "LOG_FORMAT", value: text, allowed: LogFormat.allCases.map(\.rawValue))
            }
            self.format = format
        }
    }
}

/// A logging variable has a value that it may not have.
package struct LogSettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    package let variable: String
    package let value: String
    package let allowed: [String]

    package var description: String {
        "\(variable) is \"\(value.prefix(40))\", but must be one of: \(allowed.joined(separator: ", "))"
    }
}
