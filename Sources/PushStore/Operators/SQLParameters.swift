// Parameters of operators' statements. They travel as text and are cast in SQL: the values come from a command line, and
// PostgreSQL's own reading of them (and its messages about them) is the one that producers get as well.

import Postgres

/// Numbered text parameters, and calls with named arguments built from them.
struct SQLParameters: Sendable {
    private enum Value: Sendable {
        case text(String?)
        case texts([String])
        case numbers([Int64])
    }

    private var values: [Value] = []

    /// Adds a parameter and returns its placeholder with a cast, such as `$3::jsonb`.
    mutating func add(_ text: String?, _ type: String = "text") -> String {
        values.append(.text(text))
        return "$\(values.count)::\(type)"
    }

    /// Adds an array of texts.
    mutating func add(_ texts: [String]) -> String {
        values.append(.texts(texts))
        return "$\(values.count)"
    }

    /// Adds an array of ids.
    mutating func add(_ numbers: [Int64]) -> String {
        values.append(.numbers(numbers))
        return "$\(values.count)"
    }

    /// Adds a number.
    mutating func add(_ number: Int64?) -> String { add(number.map(String.init), "bigint") }

    /// Adds a point in time and returns the expression for it.
    mutating func add(_ moment: Moment) -> String {
        values.append(.text(moment.parameter))
        return moment.expression(values.count)
    }

    /// The statement with these parameters.
    func statement(_ sql: String) -> PostgresStatement {
        var parameters = PostgresParameters()
        for value in values {
            switch value {
            case .text(let text): parameters.add(text)
            case .texts(let texts): parameters.add(texts)
            case .numbers(let numbers): parameters.add(numbers)
            }
        }
        return PostgresStatement(sql, parameters)
    }
}

/// The arguments of one call of a function, by name; what is not given keeps the function's default.
package struct NamedArguments: Sendable {
    private(set) var parameters = SQLParameters()
    private var list: [String] = []

    package init() {}

    /// Adds a value of a type, unless it is nil.
    package mutating func add(_ name: String, _ text: String?, as type: String = "text") {
        guard let text else { return }
        list.append("\(name) => \(parameters.add(text, type))")
    }

    /// Adds an array of texts, unless it is empty.
    package mutating func add(_ name: String, _ texts: [String]) {
        guard !texts.isEmpty else { return }
        list.append("\(name) => \(parameters.add(texts))")
    }

    /// Adds a point in time, unless it is nil.
    package mutating func add(_ name: String, _ moment: Moment?) {
        guard let moment else { return }
        list.append("\(name) => \(parameters.add(moment))")
    }

    /// The call of `function` in the schema.
    func call(_ function: String, _ schema: SchemaName) -> String {
        "\(schema.quoted).\(function)(\(list.joined(separator: ", ")))"
    }
}
