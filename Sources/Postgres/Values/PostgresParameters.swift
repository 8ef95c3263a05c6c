// The parameters of one statement, in binary form with explicit types, in one buffer that is kept between uses. Nothing is ever
// pasted into SQL text.
//
// A value: a copy that was given to a session stays as it was when the original is changed. Whoever sends the same
// shape again and again keeps one and calls `removeAll()`; once the previous call has ended its memory is used again.
// What cannot be sent (more than 1 GB, a number that does not fit its column) is remembered and makes the call fail
// with the code `encoding` before anything goes to the server.

/// The parameters `$1`, `$2`, … of a statement.
package struct PostgresParameters {
    /// One parameter: its type and where its bytes are; a negative length is NULL.
    struct Slot {
        var type: PostgresType
        var offset: Int
        var length: Int
    }

    /// What all copies share until one of them is changed.
    final class Storage {
        let buffer = ByteBuffer()
        var slots: [Slot] = []
        var fault: String?
    }

    private(set) var storage: Storage?

    /// No parameters.
    package init() {}

    /// How many there are.
    package var count: Int { storage?.slots.count ?? 0 }

    /// Why these parameters cannot be sent, or nil.
    var fault: String? {
        guard let storage else { return nil }
        if storage.buffer.isOverfull { return "the parameters of a statement are larger than 1 GB" }
        if storage.slots.count > 65_535 { return "a statement has more than 65535 parameters" }
        return storage.fault
    }

    /// Forgets all parameters and keeps their memory when nobody else uses it.
    package mutating func removeAll() {
        guard isKnownUniquelyReferenced(&storage), let storage else {
            storage = nil
            return
        }
        storage.buffer.removeAll()
        storage.slots.removeAll(keepingCapacity: true)
        storage.fault = nil
    }

    /// The storage to write into: this value's own.
    private mutating func writable() -> Storage {
        if storage != nil, isKnownUniquelyReferenced(&storage), let storage { return storage }
        let own = Storage()
        if let shared = storage {
            unsafe own.buffer.append(shared.buffer.bytes)
            own.slots = shared.slots
            own.fault = shared.fault
        }
        storage = own
        return own
    }

    /// Adds a parameter whose bytes `write` appends.
    mutating func add(_ type: PostgresType, _ write: (ByteBuffer) -> Void) {
        let storage = writable()
        let start = storage.buffer.count
        write(storage.buffer)
        storage.slots.append(Slot(type: type, offset: start, length: storage.buffer.count - start))
    }

    /// Remembers the first reason why these parameters cannot be sent.
    mutating func setFault(_ reason: String) {
        let storage = writable()
        if storage.fault == nil { storage.fault = reason }
    }

    // MARK: Single values

    /// Adds NULL of a type.
    package mutating func addNull(_ type: PostgresType) {
        writable().slots.append(Slot(type: type, offset: 0, length: -1))
    }

    /// Adds an `int8`.
    package mutating func add(_ value: Int64?) {
        guard let value else { return addNull(.int8) }
        add(.int8) { $0.append(value) }
    }

    /// Adds an `int4`.
    package mutating func add(_ value: Int32?) {
        guard let value else { return addNull(.int4) }
        add(.int4) { $0.append(value) }
    }

    /// Adds an `int2`.
    package mutating func add(_ value: Int16?) {
        guard let value else { return addNull(.int2) }
        add(.int2) { $0.append(value) }
    }

    /// Adds a `bool`.
    package mutating func add(_ value: Bool?) {
        guard let value else { return addNull(.bool) }
        add(.bool) { $0.append(UInt8(value ? 1 : 0)) }
    }

    /// Adds a `float8`.
    package mutating func add(_ value: Double?) {
        guard let value else { return addNull(.float8) }
        add(.float8) { $0.append(value.bitPattern) }
    }

    /// Adds a `text`; the server refuses U+0000 in it (22021).
    package mutating func add(_ value: String?) {
        guard let value else { return addNull(.text) }
        add(.text) { _ = $0.append(utf8: value) }
    }

    /// Adds a `uuid`.
    package mutating func add(_ value: PostgresUUID?) {
        guard let value else { return addNull(.uuid) }
        add(.uuid) {
            $0.append(value.high)
            $0.append(value.low)
        }
    }

    /// Adds a `timestamptz` from microseconds since 1970; `Int64.max` and `.min` are the infinities.
    package mutating func add(timestamp: Int64?) {
        guard let timestamp else { return addNull(.timestamptz) }
        add(.timestamptz) { $0.append(PostgresTimestamp.toWire(timestamp)) }
    }

    /// Adds an `interval` of whole microseconds, without days and months.
    package mutating func add(interval: Duration?) {
        guard let interval else { return addNull(.interval) }
        add(.interval) { $0.append(interval: interval) }
    }

    /// Adds a `jsonb` from JSON text.
    package mutating func add(jsonb: String?) {
        guard let jsonb else { return addNull(.jsonb) }
        add(.jsonb) {
            $0.append(UInt8(1))
            _ = $0.append(utf8: jsonb)
        }
    }

    /// Adds a `json` from JSON text.
    package mutating func add(json: String?) {
        guard let json else { return addNull(.json) }
        add(.json) { _ = $0.append(utf8: json) }
    }

    /// Adds a `bytea`.
    package mutating func add(bytes: [UInt8]?) {
        guard let bytes else { return addNull(.bytea) }
        add(.bytea) { buffer in unsafe bytes.withUnsafeBytes { unsafe buffer.append($0) } }
    }

    /// Adds a `text` from UTF-8 bytes, which are copied now.
    package mutating func add(utf8 bytes: UnsafeRawBufferPointer) {
        add(.text) { unsafe $0.append(bytes) }
    }
}

extension ByteBuffer {
    /// Appends the 16 bytes of an `interval`: microseconds, days, months.
    func append(interval: Duration) {
        let (seconds, attoseconds) = interval.components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        let (total, overflowed) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000_000)
        append(overflow || overflowed ? (seconds < 0 ? Int64.min : .max) : total)
        append(Int32(0))
        append(Int32(0))
    }
}
