// Cells as Swift values. Each accessor has a twin that gives nil for NULL; without it NULL is an error.

extension PostgresResult {
    /// An `int8`, `int4`, `int2` or `oid`.
    package func int64(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        let bytes = unsafe try present(row, column, "a whole number")
        switch type(ofColumn: column) {
        case .int8 where bytes.count == 8: return unsafe bytes.bigEndian(0, as: Int64.self)
        case .int4 where bytes.count == 4: return Int64(unsafe bytes.bigEndian(0, as: Int32.self))
        case .int2 where bytes.count == 2: return Int64(unsafe bytes.bigEndian(0, as: Int16.self))
        case .oid where bytes.count == 4: return Int64(unsafe bytes.bigEndian(0, as: UInt32.self))
        default: throw wrongType(column, "a whole number")
        }
    }

    /// A whole number that fits into 32 bits.
    package func int32(_ row: Int, _ column: Int) throws(PostgresError) -> Int32 {
        guard let value = Int32(exactly: try int64(row, column)) else {
            throw mismatch(column, "a whole number of 32 bits", "it is too large")
        }
        return value
    }

    /// A whole number that fits into `Int`.
    package func int(_ row: Int, _ column: Int) throws(PostgresError) -> Int { Int(try int64(row, column)) }

    /// A `bool`.
    package func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        let bytes = unsafe try present(row, column, "a boolean")
        guard type(ofColumn: column) == .bool, bytes.count == 1 else { throw wrongType(column, "a boolean") }
        return unsafe bytes[0] != 0
    }

    /// A `float8` or `float4`.
    package func double(_ row: Int, _ column: Int) throws(PostgresError) -> Double {
        let bytes = unsafe try present(row, column, "a floating-point number")
        switch type(ofColumn: column) {
        case .float8 where bytes.count == 8:
            return Double(bitPattern: unsafe bytes.bigEndian(0, as: UInt64.self))
        case .float4 where bytes.count == 4:
            return Double(Float(bitPattern: unsafe bytes.bigEndian(0, as: UInt32.self)))
        default: throw wrongType(column, "a floating-point number")
        }
    }

    /// A text, varchar, name, json or jsonb; of a script's result any column as the server spells it.
    package func string(_ row: Int, _ column: Int) throws(PostgresError) -> String {
        guard let text = try stringIfPresent(row, column) else { throw mismatch(column, "a text", "it is NULL") }
        return text
    }

    /// A text as `string` reads it, nil for NULL.
    package func stringIfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        guard let text = unsafe try utf8(row, column) else { return nil }
        return unsafe String(decoding: text, as: UTF8.self)
    }

    /// The UTF-8 bytes of a text as `string` reads it, nil for NULL; they belong to the result.
    package func utf8(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard let bytes = unsafe try bytes(row, column) else { return nil }
        if !isBinary(column) || type(ofColumn: column).isText { return unsafe bytes }
        // The binary form of jsonb is a version, 1, and the text.
        guard type(ofColumn: column) == .jsonb, unsafe bytes.first == 1 else { throw wrongType(column, "a text") }
        return unsafe UnsafeRawBufferPointer(rebasing: bytes[1...])
    }

    /// A `uuid`.
    package func uuid(_ row: Int, _ column: Int) throws(PostgresError) -> PostgresUUID {
        let bytes = unsafe try present(row, column, "a UUID")
        guard type(ofColumn: column) == .uuid, bytes.count == 16 else { throw wrongType(column, "a UUID") }
        return PostgresUUID(
            high: unsafe bytes.bigEndian(0, as: UInt64.self), low: unsafe bytes.bigEndian(8, as: UInt64.self))
    }

    /// A `timestamptz` as microseconds since 1970; infinities are `Int64.max` and `.min`.
    package func timestamp(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        let bytes = unsafe try present(row, column, "a time")
        guard type(ofColumn: column) == .timestamptz, bytes.count == 8 else { throw wrongType(column, "a time") }
        return PostgresTimestamp.fromWire(unsafe bytes.bigEndian(0, as: Int64.self))
    }

    // MARK: Nil for NULL

    /// As `int64`, nil for NULL.
    package func int64IfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        try isNull(row, column) ? nil : try int64(row, column)
    }

    /// As `int32`, nil for NULL.
    package func int32IfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> Int32? {
        try isNull(row, column) ? nil : try int32(row, column)
    }

    /// As `bool`, nil for NULL.
    package func boolIfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> Bool? {
        try isNull(row, column) ? nil : try bool(row, column)
    }

    /// As `double`, nil for NULL.
    package func doubleIfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> Double? {
        try isNull(row, column) ? nil : try double(row, column)
    }

    /// As `uuid`, nil for NULL.
    package func uuidIfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> PostgresUUID? {
        try isNull(row, column) ? nil : try uuid(row, column)
    }

    /// As `timestamp`, nil for NULL.
    package func timestampIfPresent(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        try isNull(row, column) ? nil : try timestamp(row, column)
    }
}

extension UnsafeRawBufferPointer {
    /// The number in network byte order at `offset`, which the caller has checked.
    func bigEndian<T: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, as type: T.Type) -> T {
        T(bigEndian: unsafe loadUnaligned(fromByteOffset: offset, as: type))
    }
}
