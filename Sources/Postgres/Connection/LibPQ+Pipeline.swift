// Sending and receiving without ever waiting.

import CLibPQ
import Glibc

extension LibPQ {
    /// How far the output has got.
    enum Flush { case done, blocked, failed }

    /// One thing that libpq has to give.
    enum Received {
        /// A result.
        case result(PostgresResult)
        /// The end of a statement's results.
        case end
        /// Nothing until more bytes come.
        case nothing
    }

    /// Makes the connection non-blocking and turns pipeline mode on; false when libpq refuses.
    func beginPipelining() -> Bool {
        unsafe PQsetnonblocking(connection, 1) == 0 && PQenterPipelineMode(connection) == 1
    }

    /// Turns pipeline mode off, which needs an idle connection.
    func endPipelining() -> Bool { unsafe PQexitPipelineMode(connection) == 1 }

    /// Turns pipeline mode on again.
    func resumePipelining() -> Bool { unsafe PQenterPipelineMode(connection) == 1 }

    /// Queues a statement without parameters (`PQsendQueryParams`).
    func send(_ sql: String) -> Bool { unsafe PQsendQueryParams(connection, sql, 0, nil, nil, nil, nil, 1) == 1 }

    /// Queues a statement; parameters and results are binary, the bytes are copied by libpq.
    func send(_ statement: PostgresStatement) -> Bool {
        guard let storage = statement.parameters.storage, !storage.slots.isEmpty else { return send(statement.sql) }
        scratch.fill(storage)
        return unsafe PQsendQueryParams(
            connection, statement.sql, Int32(scratch.types.count), scratch.types, scratch.values, scratch.lengths,
            scratch.formats, 1) == 1
    }

    /// Queues the end of a pipeline.
    func sendSync() -> Bool { unsafe PQpipelineSync(connection) == 1 }

    /// Queues a script in the simple protocol; its results are text.
    func sendScript(_ sql: String) -> Bool { unsafe PQsendQuery(connection, sql) == 1 }

    /// Writes what the socket takes.
    func flush() -> Flush {
        switch unsafe PQflush(connection) {
        case 0: .done
        case 1: .blocked
        default: .failed
        }
    }

    /// Reads what the socket has; false when the connection is lost.
    func consumeInput() -> Bool { unsafe PQconsumeInput(connection) == 1 }

    /// Whether an idle connection has no end waiting to be read; a server that ends one sends its reason first.
    func isStillThere() -> Bool {
        for _ in 0..<16 {
            var watch = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if unsafe poll(&watch, 1, 0) <= 0 { return true }
            guard consumeInput(), !isBad else { return false }
        }
        return true
    }

    /// Takes the next result if it is complete; never waits.
    func receive() -> Received {
        if unsafe PQisBusy(connection) == 1 { return .nothing }
        guard let result = unsafe PQgetResult(connection) else { return .end }
        return .result(unsafe PostgresResult(taking: result))
    }

    /// Takes the next notification that has arrived.
    func nextNotification() -> (channel: String, payload: String)? {
        guard let notification = unsafe PQnotifies(connection) else { return nil }
        defer { unsafe PQfreemem(notification) }
        let channel = unsafe notification.pointee.relname.map { unsafe String(cString: $0) }
        let payload = unsafe notification.pointee.extra.map { unsafe String(cString: $0) }
        return (channel ?? "", payload ?? "")
    }
}

/// The four arrays that describe parameters to libpq, kept between calls.
@safe struct SendScratch {
    private(set) var types: [Oid] = []
    private(set) var values: [UnsafePointer<CChar>?] = unsafe []
    private(set) var lengths: [Int32] = []
    private(set) var formats: [Int32] = []

    /// Describes the parameters of `storage`; the pointers are good while it is unchanged.
    mutating func fill(_ storage: PostgresParameters.Storage) {
        types.removeAll(keepingCapacity: true)
        unsafe values.removeAll(keepingCapacity: true)
        lengths.removeAll(keepingCapacity: true)
        formats.removeAll(keepingCapacity: true)
        let base = unsafe storage.buffer.bytes.baseAddress
        for slot in storage.slots {
            types.append(slot.type.oid)
            let start = unsafe slot.length < 0 ? nil : base.map { unsafe $0 + slot.offset }
            unsafe values.append(unsafe start?.assumingMemoryBound(to: CChar.self))
            lengths.append(Int32(clamping: max(0, slot.length)))
            formats.append(1)
        }
    }
}
