// Arrays of parameters, built element by element. A worker fills several of these in parallel while answers come in, and
// adds them to its parameters when it settles; no Swift array of the values is ever made.
//
// Binary form of an array (array_recv in the server): dimensions, flag for NULLs, element type, then for the one dimension its length
// and lower bound, then each element as length and bytes. An empty array has no dimension.

/// A one-dimensional array of one element type; its memory is kept between uses.
package struct PostgresArrayBuilder: ~Copyable {
    /// The type of the elements.
    package let element: PostgresType
    /// How many elements there are.
    package private(set) var count: Int32 = 0

    private let buffer = ByteBuffer()
    private var hasNull = false
    private var fault: String?

    /// An empty array of `element`: bool, int2, int4, int8, float8, text, uuid, timestamptz, interval, json, jsonb or bytea.
    package init(_ element: PostgresType) {
        self.element = element
        if element.array == nil { fault = "no arrays of the type with OID \(element.oid)" }
    }

    /// Bytes that the elements take on the wire.
    package var byteCount: Int { buffer.count }

    /// Forgets the elements and keeps the memory.
    package mutating func removeAll() {
        buffer.removeAll()
        count = 0
        hasNull = false
        if element.array != nil { fault = nil }
    }

    /// Appends NULL.
    package mutating func appendNull() {
        count += 1
        hasNull = true
        buffer.append(Int32(-1))
    }

    /// Appends a whole number to an array of int8, int4 or int2.
    package mutating func append(_ value: Int64) {
        switch element {
        case .int8: appendFixed(value)
        case .int4: append(narrow: Int32(exactly: value), value)
        case .int2: append(narrow: Int16(exactly: value), value)
        default: refuse("a whole number")
        }
    }

    /// Appends a whole number to an array of int8, int4 or int2.
    package mutating func append(_ value: Int) { append(Int64(value)) }

    /// Appends a whole number to an array of int8, int4 or int2.
    package mutating func append(_ value: Int32) { append(Int64(value)) }

    /// Appends to an array of bool.
    package mutating func append(_ value: Bool) {
        guard element == .bool else { return refuse("a boolean") }
        appendFixed(UInt8(value ? 1 : 0))
    }

    /// Appends to an array of float8.
    package mutating func append(_ value: Double) {
        guard element == .float8 else { return refuse("a floating-point number") }
        appendFixed(value.bitPattern)
    }

    /// Appends to an array of text, json or jsonb.
    package mutating func append(_ value: String) {
        guard element.isText || element == .jsonb else { return refuse("a text") }
        appendSized { buffer, isVersioned in
            if isVersioned { buffer.append(UInt8(1)) }
            _ = buffer.append(utf8: value)
        }
    }

    /// Appends bytes to an array of text (they must be UTF-8), json, jsonb or bytea; they are copied now.
    package mutating func append(bytes: UnsafeRawBufferPointer) {
        guard element.isText || element == .jsonb || element == .bytea else { return refuse("bytes") }
        appendSized { buffer, isVersioned in
            if isVersioned { buffer.append(UInt8(1)) }
            unsafe buffer.append(bytes)
        }
    }

    /// Appends to an array of uuid.
    package mutating func append(_ value: PostgresUUID) {
        guard element == .uuid else { return refuse("a UUID") }
        count += 1
        buffer.append(Int32(16))
        buffer.append(value.high)
        buffer.append(value.low)
    }

    /// Appends microseconds since 1970 to an array of timestamptz.
    package mutating func append(timestamp: Int64) {
        guard element == .timestamptz else { return refuse("a time") }
        appendFixed(PostgresTimestamp.toWire(timestamp))
    }

    /// Appends to an array of interval.
    package mutating func append(interval: Duration) {
        guard element == .interval else { return refuse("an interval") }
        count += 1
        buffer.append(Int32(16))
        buffer.append(interval: interval)
    }

    private mutating func appendFixed<T: FixedWidthInteger>(_ value: T) {
        count += 1
        buffer.append(Int32(MemoryLayout<T>.size))
        buffer.append(value)
    }

    private mutating func append<T: FixedWidthInteger>(narrow: T?, _ value: Int64) {
        guard let narrow else {
            if fault == nil { fault = "\(value) does not fit into \(T.bitWidth / 8) bytes" }
            return appendNull()
        }
        appendFixed(narrow)
    }

    private mutating func appendSized(_ write: (_ buffer: ByteBuffer, _ isVersioned: Bool) -> Void) {
        count += 1
        let start = buffer.count
        buffer.append(Int32(0))
        write(buffer, element == .jsonb)
        buffer.overwrite(Int32(clamping: buffer.count - start - 4), at: start)
    }

    // The element stays countable, so that parallel arrays keep their lengths until the fault is reported.
    private mutating func refuse(_ what: String) {
        if fault == nil { fault = "\(what) was added to an array of the type with OID \(element.oid)" }
        appendNull()
    }

    /// Copies the array into `parameters` as the next one.
    fileprivate borrowing func write(to parameters: inout PostgresParameters) {
        if let fault { parameters.setFault(fault) }
        if buffer.isOverfull { parameters.setFault("an array is larger than 1 GB") }
        let (count, hasNull, element) = (count, hasNull, element)
        let elements = buffer
        parameters.add(element.array ?? .unknown) { target in
            target.reserve(20 + elements.count)
            target.append(Int32(count == 0 ? 0 : 1))
            target.append(Int32(hasNull ? 1 : 0))
            target.append(element.oid)
            guard count > 0 else { return }
            target.append(count)
            target.append(Int32(1))
            unsafe target.append(elements.bytes)
        }
    }
}

extension PostgresParameters {
    /// Adds the array as it is now; the builder stays as it was.
    package mutating func add(_ array: borrowing PostgresArrayBuilder) { array.write(to: &self) }

    /// Adds an array of `element`, or NULL, whose elements `append` writes one by one.
    private mutating func add<T>(
        _ element: PostgresType, _ values: [T]?, _ append: (inout PostgresArrayBuilder, T) -> Void
    ) {
        guard let values else { return addNull(element.array ?? .unknown) }
        var builder = PostgresArrayBuilder(element)
        for value in values { append(&builder, value) }
        add(builder)
    }

    /// Adds an `int8[]`.
    package mutating func add(_ values: [Int64]?) { add(.int8, values) { $0.append($1) } }

    /// Adds an `int4[]`.
    package mutating func add(_ values: [Int32]?) { add(.int4, values) { $0.append(Int64($1)) } }

    /// Adds an `int2[]`.
    package mutating func add(_ values: [Int16]?) { add(.int2, values) { $0.append(Int64($1)) } }

    /// Adds a `bool[]`.
    package mutating func add(_ values: [Bool]?) { add(.bool, values) { $0.append($1) } }

    /// Adds a `float8[]`.
    package mutating func add(_ values: [Double]?) { add(.float8, values) { $0.append($1) } }

    /// Adds a `text[]`.
    package mutating func add(_ values: [String]?) { add(.text, values) { $0.append($1) } }

    /// Adds a `text[]` in which elements may be NULL.
    package mutating func add(_ values: [String?]?) {
        add(.text, values) { builder, value in
            if let value { builder.append(value) } else { builder.appendNull() }
        }
    }

    /// Adds a `uuid[]`.
    package mutating func add(_ values: [PostgresUUID]?) { add(.uuid, values) { $0.append($1) } }

    /// Adds a `timestamptz[]` from microseconds since 1970; elements may be NULL.
    package mutating func add(timestamps values: [Int64?]?) {
        add(.timestamptz, values) { builder, value in
            if let value { builder.append(timestamp: value) } else { builder.appendNull() }
        }
    }

    /// Adds an `interval[]` whose elements may be NULL.
    package mutating func add(intervals values: [Duration?]?) {
        add(.interval, values) { builder, value in
            if let value { builder.append(interval: value) } else { builder.appendNull() }
        }
    }
}
