// The rows of one statement. The bytes stay where libpq put them; accessors read them in place and check position, type and length
// first, because what a function of another schema version returns is input from outside.
//
// A PGresult never changes after it was made, so a result may be read from any thread.

import CLibPQ

/// The result of one statement; frees libpq's memory with its last reference.
@safe package final class PostgresResult: @unchecked Sendable {
    let pointer: OpaquePointer
    /// Number of rows.
    package let rows: Int
    /// Number of columns.
    package let columns: Int

    /// Takes over a result that libpq handed out.
    init(taking pointer: OpaquePointer) {
        unsafe self.pointer = unsafe pointer
        rows = Int(unsafe PQntuples(pointer))
        columns = Int(unsafe PQnfields(pointer))
    }

    deinit { unsafe PQclear(pointer) }

    /// What libpq says the result is (`PQresultStatus`).
    var status: ExecStatusType { unsafe PQresultStatus(pointer) }

    /// Rows that the statement inserted, updated, deleted or returned; 0 for others.
    package var affected: Int {
        guard let text = unsafe PQcmdTuples(pointer) else { return 0 }
        return Int(unsafe String(cString: text)) ?? 0
    }

    /// What the server says it did, for example `UPDATE 3`.
    package var commandTag: String {
        guard let text = unsafe PQcmdStatus(pointer) else { return "" }
        return unsafe String(cString: text)
    }

    /// The name of a column, or empty outside the result.
    package func name(ofColumn column: Int) -> String {
        guard let text = unsafe PQfname(pointer, Int32(truncatingIfNeeded: column)) else { return "" }
        return unsafe String(cString: text)
    }

    /// The index of the first column of that name, in exactly this spelling.
    package func column(_ name: String) throws(PostgresError) -> Int {
        for index in 0..<columns where self.name(ofColumn: index) == name { return index }
        throw PostgresError(.decoding, "the result has no column \(name)")
    }

    /// The type of a column; the OID is 0 outside the result.
    package func type(ofColumn column: Int) -> PostgresType {
        PostgresType(oid: unsafe PQftype(pointer, Int32(truncatingIfNeeded: column)))
    }

    // MARK: Cells

    /// Whether a cell is NULL.
    package func isNull(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        try check(row, column)
        return unsafe PQgetisnull(pointer, Int32(row), Int32(column)) != 0
    }

    /// The bytes of a cell as they came, nil for NULL.
    ///
    /// They belong to the result: keep it alive for as long as they are used.
    package func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer? {
        try check(row, column)
        let (row, column) = (Int32(row), Int32(column))
        if unsafe PQgetisnull(pointer, row, column) != 0 { return nil }
        let length = Int(unsafe PQgetlength(pointer, row, column))
        return unsafe UnsafeRawBufferPointer(start: PQgetvalue(pointer, row, column), count: max(0, length))
    }

    private func check(_ row: Int, _ column: Int) throws(PostgresError) {
        guard row >= 0, row < rows, column >= 0, column < columns else {
            throw PostgresError(
                .decoding, "cell (\(row), \(column)) lies outside a result of \(rows) rows and \(columns) columns")
        }
    }

    /// Whether a column came in binary form; script results come as text.
    func isBinary(_ column: Int) -> Bool { unsafe PQfformat(pointer, Int32(truncatingIfNeeded: column)) == 1 }

    /// The bytes of a cell in binary form, which must not be NULL.
    func present(_ row: Int, _ column: Int, _ what: StaticString) throws(PostgresError) -> UnsafeRawBufferPointer {
        guard let bytes = unsafe try bytes(row, column) else { throw mismatch(column, what, "it is NULL") }
        guard isBinary(column) else { throw mismatch(column, what, "it came in text form") }
        return unsafe bytes
    }

    /// The error for a cell that is not what the caller expects; names the column, never the value.
    func mismatch(_ column: Int, _ what: StaticString, _ why: String) -> PostgresError {
        PostgresError(.decoding, "column \(name(ofColumn: column)) cannot be read as \(what): \(why)")
    }

    /// The error for a cell of another type.
    func wrongType(_ column: Int, _ what: StaticString) -> PostgresError {
        mismatch(column, what, "its type has the OID \(type(ofColumn: column).oid)")
    }
}
