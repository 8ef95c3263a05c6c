// A setting that cannot work. Each says which variable, what is wrong with it and what to write instead; none ever
// contains the value of a secret. Ends with exit code 4.

/// A mistake in the configuration.
struct ConfigurationError: Error, Equatable, CustomStringConvertible {
    /// The variable or option.
    let variable: String
    let problem: String
    let remedy: String

    var description: String { "\(variable) \(problem)" }
}

/// Reads settings out of the environment; an empty variable counts as not set.
struct Settings {
    let environment: [String: String]

    /// The variable's value, if it has one.
    subscript(_ variable: String) -> String? {
        guard let value = environment[variable], !value.isEmpty else { return nil }
        return value
    }

    /// The variable's value, which must be there.
    func required(_ variable: String, _ remedy: String) throws(ConfigurationError) -> String {
        guard let value = self[variable] else {
            throw ConfigurationError(variable: variable, problem: "is not set", remedy: remedy)
        }
        return value
    }
}
