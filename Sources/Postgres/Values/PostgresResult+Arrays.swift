// Arrays of results. `PostgresArrayReader` walks the binary form (array_send in the server) with a check before each step,
// which still leaves over 100 million elements of int8[] a CPU second (measured).

extension PostgresResult {
    /// An `int8[]`, `int4[]` or `int2[]` without NULLs.
    package func int64Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int64] {
        var values: [Int64] = []
        try appendInt64Array(row, column, to: &values)
        return values
    }

    /// Appends an array of whole numbers without NULLs to `values`; returns how many they were.
    @discardableResult
    package func appendInt64Array(
        _ row: Int, _ column: Int, to values: inout [Int64]
    ) throws(PostgresError) -> Int {
        var reader = try arrayReader(row, column, "an array of whole numbers", [.int8, .int4, .int2])
        let count = reader.count
        values.reserveCapacity(values.count + count)
        while let element = unsafe try reader.next() {
            switch element.count {
            case 8: values.append(unsafe element.bigEndian(0, as: Int64.self))
            case 4: values.append(Int64(unsafe element.bigEndian(0, as: Int32.self)))
            case 2: values.append(Int64(unsafe element.bigEndian(0, as: Int16.self)))
            default: throw wrongType(column, "an array of whole numbers")
            }
        }
        return count
    }

    /// A `text[]` without NULLs.
    package func stringArray(_ row: Int, _ column: Int) throws(PostgresError) -> [String] {
        var reader = try arrayReader(row, column, "an array of texts", [.text, .varchar, .name, .json])
        var values: [String] = []
        values.reserveCapacity(reader.count)
        while let element = unsafe try reader.next() { values.append(unsafe String(decoding: element, as: UTF8.self)) }
        return values
    }

    /// A `text[]` in which elements may be NULL.
    package func optionalStringArray(_ row: Int, _ column: Int) throws(PostgresError) -> [String?] {
        var reader = try arrayReader(row, column, "an array of texts", [.text, .varchar, .name, .json])
        var values: [String?] = []
        values.reserveCapacity(reader.count)
        while reader.remaining > 0 {
            let element = unsafe try reader.nextOrNull()
            values.append(unsafe element.map { unsafe String(decoding: $0, as: UTF8.self) })
        }
        return values
    }

    /// A `bool[]` without NULLs.
    package func boolArray(_ row: Int, _ column: Int) throws(PostgresError) -> [Bool] {
        var reader = try arrayReader(row, column, "an array of booleans", [.bool])
        var values: [Bool] = []
        while let element = unsafe try reader.next() {
            guard element.count == 1 else { throw wrongType(column, "an array of booleans") }
            values.append(unsafe element[0] != 0)
        }
        return values
    }

    /// A `uuid[]` without NULLs.
    package func uuidArray(_ row: Int, _ column: Int) throws(PostgresError) -> [PostgresUUID] {
        var reader = try arrayReader(row, column, "an array of UUIDs", [.uuid])
        var values: [PostgresUUID] = []
        while let element = unsafe try reader.next() {
            guard element.count == 16 else { throw wrongType(column, "an array of UUIDs") }
            values.append(
                PostgresUUID(
                    high: unsafe element.bigEndian(0, as: UInt64.self),
                    low: unsafe element.bigEndian(8, as: UInt64.self)))
        }
        return values
    }

    /// A `timestamptz[]` without NULLs, as microseconds since 1970.
    package func timestampArray(_ row: Int, _ column: Int) throws(PostgresError) -> [Int64] {
        var reader = try arrayReader(row, column, "an array of times", [.timestamptz])
        var values: [Int64] = []
        while let element = unsafe try reader.next() {
            guard element.count == 8 else { throw wrongType(column, "an array of times") }
            values.append(PostgresTimestamp.fromWire(unsafe element.bigEndian(0, as: Int64.self)))
        }
        return values
    }

    private func arrayReader(
        _ row: Int, _ column: Int, _ what: StaticString, _ types: [PostgresType]
    ) throws(PostgresError) -> PostgresArrayReader {
        let bytes = unsafe try present(row, column, what)
        guard let reader = unsafe PostgresArrayReader(bytes) else {
            throw mismatch(column, what, "it is not an array of one dimension")
        }
        guard types.contains(reader.element) else {
            throw mismatch(column, what, "its elements have the OID \(reader.element.oid)")
        }
        return reader
    }
}

/// Walks the elements of an array in binary form; the bytes must outlive it.
@safe struct PostgresArrayReader {
    /// The type of the elements.
    let element: PostgresType
    /// How many elements there are.
    let count: Int
    /// How many are still to come.
    private(set) var remaining: Int

    private let bytes: UnsafeRawBufferPointer
    private var offset: Int

    /// Reads the header; nil when it is cut short, claims more than the bytes can hold, or has several dimensions.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 12 else { return nil }
        unsafe self.bytes = unsafe bytes
        element = PostgresType(oid: unsafe bytes.bigEndian(8, as: UInt32.self))
        switch unsafe bytes.bigEndian(0, as: Int32.self) {
        case 0:
            count = 0
            offset = 12
        case 1 where bytes.count >= 20:
            count = Int(unsafe bytes.bigEndian(12, as: Int32.self))
            offset = 20
        default: return nil
        }
        // Each element takes four bytes at least, so a count beyond that is a lie.
        guard count >= 0, count <= (bytes.count - offset) / 4 else { return nil }
        remaining = count
    }

    /// The next element, nil after the last; NULL is an error.
    mutating func next() throws(PostgresError) -> UnsafeRawBufferPointer? {
        if remaining == 0 { return nil }
        guard let element = unsafe try nextOrNull() else {
            throw PostgresError(.decoding, "an array holds a NULL that is not expected")
        }
        return unsafe element
    }

    /// The next element, nil for NULL; ask `remaining` before.
    mutating func nextOrNull() throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard remaining > 0, unsafe bytes.count - offset >= 4 else { throw cutShort }
        let length = Int(unsafe bytes.bigEndian(offset, as: Int32.self))
        offset += 4
        remaining -= 1
        if length < 0 { return nil }
        guard unsafe bytes.count - offset >= length else { throw cutShort }
        defer { offset += length }
        return unsafe UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + length)])
    }

    private var cutShort: PostgresError { PostgresError(.decoding, "an array is cut short") }
}
