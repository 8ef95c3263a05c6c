// The one place where a PGconn is owned. Everything else calls libpq through this thin layer, which knows pointers and nothing
// of queues or deadlines.
//
// A handle is made on a helper thread and then moves to its loop; it is never used by two threads at once.

import CLibPQ
import Glibc
import Telemetry

/// A connection of libpq; closes it with its last reference.
@safe final class LibPQ: @unchecked Sendable {
    let connection: OpaquePointer
    /// Where the server's notices go; libpq would print them on standard error.
    let notices: NoticeSink
    /// Room for describing parameters.
    var scratch = SendScratch()

    /// Begins to connect (`PQconnectStartParams`); nil when memory is short.
    init?(keywords: [(keyword: String, value: String)], logger: Logger) {
        let names = CStringArray(keywords.map(\.keyword))
        let values = CStringArray(keywords.map(\.value))
        guard let connection = unsafe PQconnectStartParams(names.pointer, values.pointer, 0) else { return nil }
        unsafe self.connection = unsafe connection
        notices = NoticeSink(logger: logger)
        unsafe PQsetNoticeReceiver(connection, receiveNotice, Unmanaged.passUnretained(notices).toOpaque())
    }

    deinit { unsafe PQfinish(connection) }

    /// The descriptor, or a negative number when there is none.
    var descriptor: Int32 { unsafe PQsocket(connection) }

    /// Whether libpq has given the connection up.
    var isBad: Bool { unsafe PQstatus(connection) == CONNECTION_BAD }

    /// Where the server stands between BEGIN and COMMIT.
    var transactionStatus: PGTransactionStatusType { unsafe PQtransactionStatus(connection) }

    /// What libpq last complained about, on one line.
    var errorMessage: String { unsafe String(cString: PQerrorMessage(connection)).singleLine }

    /// The first line of it: the rest of a lost connection's message is advice for people at a terminal.
    var firstErrorLine: String {
        let text = unsafe String(cString: PQerrorMessage(connection))
        return text.split(whereSeparator: \.isNewline).first.map { String($0.trimmed) } ?? ""
    }

    /// The process id of the server's side, or of a pooler that pretends to have one.
    var backendPID: Int32 { unsafe PQbackendPID(connection) }

    /// What the server reported about a setting, for example `server_version`; nil when it reports nothing of that name.
    func parameter(_ name: String) -> String? {
        unsafe PQparameterStatus(connection, name).map { unsafe String(cString: $0) }
    }
}

// MARK: - Notices

/// Takes the notices of one connection: RAISE NOTICE, warnings, and the server's last words before it hangs up.
final class NoticeSink {
    private let logger: Logger
    /// The error that the server sent while no call was under way, usually why it ends the connection.
    private(set) var lastError: PostgresError?

    init(logger: Logger) { self.logger = logger }

    func receive(_ result: OpaquePointer) {
        let notice = unsafe PostgresError(result: result)
        let isError = ["ERROR", "FATAL", "PANIC"].contains(notice.severity)
        if isError { lastError = notice }
        let level: LogLevel =
            switch notice.severity {
            case "WARNING": .warning
            case "NOTICE", "INFO", "LOG": .info
            case "DEBUG": .debug
            default: isError ? .info : .debug
            }
        logger.log(
            level, "the server says",
            [
                .serverSeverity: notice.severity, .sqlState: notice.sqlState, .serverMessage: notice.discreetMessage,
            ])
    }
}

/// The `PQnoticeReceiver` of every connection; called from within other calls of libpq, so it only takes notes.
private func receiveNotice(_ sink: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
    guard let sink = unsafe sink, let result = unsafe result else { return }
    unsafe Unmanaged<NoticeSink>.fromOpaque(sink)._withUnsafeGuaranteedRef { sink in unsafe sink.receive(result) }
}

// MARK: - Strings for C

/// A null-terminated array of C strings, freed with the object.
@safe final class CStringArray {
    let pointer: UnsafeMutablePointer<UnsafePointer<CChar>?>
    private let count: Int

    init(_ strings: [String]) {
        count = strings.count
        unsafe pointer = .allocate(capacity: count + 1)
        for (index, string) in strings.enumerated() {
            unsafe (pointer + index).initialize(to: UnsafePointer(strdup(string)))
        }
        unsafe (pointer + count).initialize(to: nil)
    }

    deinit {
        for index in 0..<count { unsafe free(UnsafeMutablePointer(mutating: pointer[index])) }
        unsafe pointer.deallocate()
    }
}

extension LogKey {
    static let serverSeverity = LogKey("db.severity")
    static let serverMessage = LogKey("db.message")
    static let sqlState = LogKey("db.sqlstate")
}
