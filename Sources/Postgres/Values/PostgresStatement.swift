// One statement with its parameters, and the short way to write the parameters of statements that are not in a hurry.

/// SQL text with parameters `$1`, `$2`, …; sent unnamed, so that nothing of it stays on the server's side.
package struct PostgresStatement {
    /// The text; one statement only, fixed in the program, never put together from data.
    package let sql: String
    /// What stands for `$1`, `$2`, ….
    package let parameters: PostgresParameters

    /// A statement with ready-made parameters.
    package init(_ sql: String, _ parameters: PostgresParameters = PostgresParameters()) {
        self.sql = sql
        self.parameters = parameters
    }

    /// A statement with a list of values, for example `PostgresStatement("SELECT f($1, $2)", [Int64(5), "name"])`.
    package init(_ sql: String, _ values: [any PostgresValue]) {
        var parameters = PostgresParameters()
        for value in values { value.add(to: &parameters) }
        self.init(sql, parameters)
    }
}

/// A value that knows its type as a parameter.
package protocol PostgresValue {
    /// Adds the value, or NULL of its type for nil.
    static func add(_ value: Self?, to parameters: inout PostgresParameters)
}

extension PostgresValue {
    fileprivate func add(to parameters: inout PostgresParameters) { Self.add(self, to: &parameters) }
}

extension Int64: PostgresValue {
    package static func add(_ value: Int64?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension Int32: PostgresValue {
    package static func add(_ value: Int32?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension Int16: PostgresValue {
    package static func add(_ value: Int16?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension Bool: PostgresValue {
    package static func add(_ value: Bool?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension Double: PostgresValue {
    package static func add(_ value: Double?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension String: PostgresValue {
    package static func add(_ value: String?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension PostgresUUID: PostgresValue {
    package static func add(_ value: PostgresUUID?, to parameters: inout PostgresParameters) { parameters.add(value) }
}

extension Duration: PostgresValue {
    package static func add(_ value: Duration?, to parameters: inout PostgresParameters) {
        parameters.add(interval: value)
    }
}

/// An element that has an array type.
package protocol PostgresArrayValue: PostgresValue {
    /// Adds the array, or NULL for nil.
    static func add(array: [Self]?, to parameters: inout PostgresParameters)
}

extension Int64: PostgresArrayValue {
    package static func add(array: [Int64]?, to parameters: inout PostgresParameters) { parameters.add(array) }
}

extension Int32: PostgresArrayValue {
    package static func add(array: [Int32]?, to parameters: inout PostgresParameters) { parameters.add(array) }
}

extension String: PostgresArrayValue {
    package static func add(array: [String]?, to parameters: inout PostgresParameters) { parameters.add(array) }
}

extension Array: PostgresValue where Element: PostgresArrayValue {
    package static func add(_ value: [Element]?, to parameters: inout PostgresParameters) {
        Element.add(array: value, to: &parameters)
    }
}

extension Optional: PostgresValue where Wrapped: PostgresValue {
    package static func add(_ value: Wrapped??, to parameters: inout PostgresParameters) {
        Wrapped.add(value ?? nil, to: &parameters)
    }
}
