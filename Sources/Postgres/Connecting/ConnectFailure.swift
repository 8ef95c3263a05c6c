// Why a connection could not be made. libpq 15 tells the SQLSTATE of a refused connection nowhere but in the text of its message,
// and there only when the verbosity was raised before the answer came; what libpq itself finds wrong (it never speaks
// anything but English here, because nobody calls setlocale) has no SQLSTATE at all.

enum ConnectFailure {
    /// Reads `PQerrorMessage` of a failed connection that had verbosity VERBOSE.
    ///
    /// `needsPassword` is what `PQconnectionNeedsPassword` says; `target` names the server for people.
    static func error(message: String, needsPassword: Bool, target: String) -> PostgresError {
        let refusal = serverRefusal(in: message)
        var error = PostgresError(code(refusal?.state ?? "", message, needsPassword), "")
        error.sqlState = refusal?.state ?? ""
        error.message = "\(target): \(refusal?.text ?? ownWords(message))"
        error.hint = hint(error.code, needsPassword)
        return error
    }

    /// The more telling of two failures at different servers: what a person must repair comes before what may pass.
    static func worse(_ first: PostgresError?, _ second: PostgresError) -> PostgresError {
        guard let first else { return second }
        return weight(second.code) > weight(first.code) ? second : first
    }

    private static func weight(_ code: PostgresError.Code) -> Int {
        switch code {
        case .authentication: 4
        case .unknownDatabase: 3
        case .untrusted, .configuration: 2
        case .readOnly: 1
        default: 0
        }
    }

    private static func code(_ state: String, _ message: String, _ needsPassword: Bool) -> PostgresError.Code {
        switch state.prefix(2) {
        case "28", "42": return .authentication
        case "3D": return .unknownDatabase
        case "08": return poolerRefusal(message) ?? .unreachable
        case "": break
        default: return .unreachable
        }
        if needsPassword || message.contains("no password supplied") { return .authentication }
        if message.contains("session is read-only") || message.contains("server is in hot standby mode") {
            return .readOnly
        }
        if message.contains("invalid ") && message.contains(" value: ") { return .configuration }
        return isAboutTrust(message) ? .untrusted : .unreachable
    }

    /// pgbouncer gives every refusal the state 08P01; only its words tell what may pass from what a person must repair.
    private static func poolerRefusal(_ message: String) -> PostgresError.Code? {
        if message.contains("authentication failed") || message.contains("no such user") { return .authentication }
        if message.contains("unsupported startup parameter") { return .configuration }
        if message.contains("no such database") || message.contains(" does not exist") { return .unknownDatabase }
        return nil
    }

    private static func isAboutTrust(_ message: String) -> Bool {
        message.contains("certificate") || message.contains("server does not support SSL")
            || message.contains("incorrect server signature")
    }

    private static func hint(_ code: PostgresError.Code, _ needsPassword: Bool) -> String {
        switch code {
        case .authentication:
            needsPassword
                ? "give a password in the connection string, in PGPASSWORD or in a password file"
                : "check user and password in DATABASE_URL or the PG* variables, and the server's pg_hba.conf"
        case .unknownDatabase: "check the database name in DATABASE_URL or PGDATABASE"
        case .untrusted: "check sslmode, sslrootcert and the server's certificate"
        case .readOnly: "name every server of the cluster, the writable one among them"
        default: ""
        }
    }

    /// State and text of the server's last FATAL, which libpq writes as `SEVERITY:  STATE: text`.
    private static func serverRefusal(in message: String) -> (state: String, text: String)? {
        var found: (String, String)?
        for line in message.split(whereSeparator: \.isNewline) {
            guard let (state, text) = serverRefusal(inLine: line) else { continue }
            found = (state, text)
        }
        return found
    }

    private static func serverRefusal(inLine line: Substring) -> (state: String, text: String)? {
        let characters = Array(line.utf8)
        // The shortest is ":  XXXXX: ", ten bytes.
        guard characters.count >= 10 else { return nil }
        for start in 0...(characters.count - 10) {
            guard characters[start...].starts(with: ":  ".utf8), characters[(start + 8)...].starts(with: ": ".utf8)
            else { continue }
            let state = characters[(start + 3)..<(start + 8)]
            guard state.allSatisfy({ isStateCharacter($0) }) else { continue }
            let text = characters[(start + 10)...]
            return (String(decoding: state, as: UTF8.self), String(decoding: text, as: UTF8.self))
        }
        return nil
    }

    private static func isStateCharacter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
    }

    /// libpq's message without the place that it starts with, which the caller names in its own way, and without the advice
    /// for people at a terminal, which is indented.
    private static func ownWords(_ message: String) -> String {
        let lines = message.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("\t") }
        let line = lines.map(\.trimmed).joined(separator: " ")
        let marker = " failed: "
        for start in line.indices where line[start...].hasPrefix(marker) {
            return String(line[line.index(start, offsetBy: marker.count)...])
        }
        return line
    }
}
