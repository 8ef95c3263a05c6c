// What of a server's message may stand in a log. Most of PostgreSQL's messages name objects and limits, and what they say about a
// row stands in DETAIL and CONTEXT, which are never logged. Two kinds quote values in the message itself: complaints about data,
// and whatever somebody's own trigger or function raises, which is often "user % has no …".

extension PostgresError {
    /// The message without values of rows: what it quotes is left out, or the whole of it when others have written it.
    package var discreetMessage: String {
        if sqlState.isEmpty || sqlState.hasPrefix("PN") { return message }
        if isOthersText { return "a text that is not PostgreSQL's was left out\(raisedAt.map { "; \($0)" } ?? "")" }
        return message.withoutQuoted(keepingNames: !quotesData)
    }

    /// Whether somebody's function wrote the message, and not the server.
    private var isOthersText: Bool {
        switch sqlState.prefix(2) {
        // RAISE without a code, external routines, and the notices of both.
        case "P0", "38", "39": true
        case "00", "01": !context.isEmpty
        default: !SQLState.isStandard(sqlState) || context.firstLine.hasSuffix(" at RAISE")
        }
    }

    /// Data exceptions, and what is said about the syntax and the names in SQL that a function put together from values.
    private var quotesData: Bool { sqlState.hasPrefix("22") || ["42601", "42602", "42622"].contains(sqlState) }

    /// The function and the line that raised it, as the first line of CONTEXT names them; other lines may hold values.
    private var raisedAt: String? {
        let line = context.firstLine
        return line.hasPrefix("PL/pgSQL function ") && line.hasSuffix(" at RAISE") ? "raised by \(line)" : nil
    }
}

extension String {
    fileprivate var firstLine: String { split(whereSeparator: \.isNewline).first.map(String.init) ?? "" }

    /// The text with an ellipsis for what stands between double quotes; names of objects may be kept.
    func withoutQuoted(keepingNames: Bool = false) -> String {
        let parts = split(separator: "\"", omittingEmptySubsequences: false)
        // A value with quotes in it makes any pairing a guess, so all from the first quote to the last goes.
        let quoted = parts.indices.filter { $0 % 2 == 1 }
        guard parts.count > 1 else { return self }
        if keepingNames, parts.count % 2 == 1, quoted.allSatisfy({ parts[$0].isName }) { return self }
        return "\(parts[0])…\(parts.count > 2 ? parts[parts.count - 1] : "")"
    }
}

extension Substring {
    /// Whether it can be the name of a table, a column, a role or a setting as people choose them.
    fileprivate var isName: Bool {
        utf8.count < 64
            && utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x24, 0x2d, 0x2e, 0x5f: true
                default: false
                }
            }
    }
}
