// --help, made from the tables of verbs and options.

/// Writes help for verbs and groups.
enum HelpText {
    /// Help for one verb.
    static func lines(_ verb: Verb) -> [String] {
        var lines = [usage(verb), "", sentence(verb.summary)]
        if !verb.details.isEmpty {
            lines += [""] + verb.details.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        }
        lines += ["", "Options:"] + table((verb.options + [.help]).map { (spelling($0), $0.help) })
        lines += ["", "Examples:"]
        for example in verb.examples { lines += ["  \(example.command)", "      \(example.meaning)"] }
        return lines
    }

    /// Help for a group, or for pgpush itself.
    static func lines(_ group: VerbGroup) -> [String] {
        let command = full(group.name)
        var lines = ["Usage: \(command) VERB [OPTION]...", "", sentence(group.summary), "", "Verbs:"]
        lines += table(group.members.map { ($0.word, $0.summary) })
        lines += ["", "Options:"]
        var options = [Option.help]
        if group.name.isEmpty { options.append(.version) }
        lines += table(options.map { (spelling($0), $0.help) })
        lines += ["", "Examples:"]
        for example in examples(group).prefix(6) { lines += ["  \(example.command)", "      \(example.meaning)"] }
        if group.name.isEmpty { lines += ["", environment, "", exitCodes] }
        return lines + ["", "'\(command) VERB --help' explains a verb."]
    }

    /// The first example of each verb below the group.
    private static func examples(_ group: VerbGroup) -> [Verb.Example] {
        group.members.flatMap { member in
            switch member {
            case .verb(let verb): Array(verb.examples.prefix(1))
            case .group(let group): Array(examples(group).prefix(1))
            }
        }
    }

    private static func usage(_ verb: Verb) -> String {
        "Usage: \(full(verb.name)) [OPTION]..." + (verb.operands.isEmpty ? "" : " \(verb.operands)")
    }

    private static func full(_ name: String) -> String { name.isEmpty ? "pgpush" : "pgpush \(name)" }

    private static func sentence(_ summary: String) -> String {
        summary.prefix(1).uppercased() + summary.dropFirst() + "."
    }

    private static func spelling(_ option: Option) -> String {
        let letter = option.letter.map { "-\($0), " } ?? "    "
        return letter + option.dashed + (option.value.map { " \($0)" } ?? "") + (option.repeats ? " ..." : "")
    }

    /// Two columns, the second wrapped within 100.
    private static func table(_ rows: [(left: String, right: String)]) -> [String] {
        let indent = min(34, (rows.map(\.left.count).max() ?? 0) + 4)
        return rows.flatMap { row in
            let left = "  \(row.left)"
            let wrapped = wrap(row.right, to: 100 - indent)
            let margin = String(repeating: " ", count: indent)
            if left.count + 2 > indent { return [left] + wrapped.map { margin + $0 } }
            let first = left + String(repeating: " ", count: indent - left.count) + (wrapped.first ?? "")
            return [first] + wrapped.dropFirst().map { margin + $0 }
        }
    }

    private static func wrap(_ text: String, to width: Int) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }

    private static let environment = """
        The database is named by DATABASE_URL (a libpq connection string or URI) or by the PG* variables.
        Other variables: DATABASE_DIRECT_URL, PGPUSH_SCHEMA, APNS_KEY_PATH, APNS_KEY_ID, APNS_TEAM_ID, APNS_BUNDLE_ID;
        PGPUSH_CONFIG names a JSON file that describes several apps.
        """

    private static let exitCodes = """
        Exit codes: 0 done, 1 failed, 2 usage, 3 nothing matched, 4 configuration or credentials,
        5 database unreachable, 6 APNs refused or unreachable, 130 interrupted.
        """
}

extension Option {
    /// On pgpush itself.
    static let version = Option("version", letter: "V", "show the version and exit")
}
