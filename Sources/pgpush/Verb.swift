// A verb as data: what it is called, what it takes, what it explains and what it does. --help is made from this, and so is
// the parsing, so that the two cannot differ.

import PushStore

/// One command of pgpush.
struct Verb: Sendable {
    /// An example for help.
    struct Example: Sendable {
        let command: String
        let meaning: String

        init(_ command: String, _ meaning: String) {
            self.command = command
            self.meaning = meaning
        }
    }

    /// The word or words after `pgpush`, such as `devices list`.
    let name: String
    /// One line for the list of verbs, without a full stop.
    let summary: String
    /// The operands as the usage line shows them, such as `ID…`.
    var operands = ""
    /// How many operands may be given.
    var operandCount = 0...0
    /// What else must be said, wrapped to 100 columns by hand.
    var details = ""
    let options: [Option]
    let examples: [Example]
    let run: @Sendable (Invocation) throws -> ExitCode
}

/// Verbs under a common first word, or all of them.
struct VerbGroup: Sendable {
    /// The words so far: empty for pgpush itself.
    let name: String
    let summary: String
    let members: [Member]

    enum Member: Sendable {
        case verb(Verb)
        case group(VerbGroup)

        var name: String {
            switch self {
            case .verb(let verb): verb.name
            case .group(let group): group.name
            }
        }

        var summary: String {
            switch self {
            case .verb(let verb): verb.summary
            case .group(let group): group.summary
            }
        }

        /// The last word of the name: what is typed at this level.
        var word: String { name.split(separator: " ").last.map(String.init) ?? name }
    }
}

/// One call of a verb.
struct Invocation: Sendable {
    let verb: Verb
    let arguments: Arguments
    let environment: [String: String]
    let console: Console

    /// Whether data is wanted as JSON.
    var wantsJSON: Bool { arguments.has(.json) }
}

extension Option {
    /// On every verb.
    static let help = Option("help", letter: "h", "show this help and exit")
    /// On every verb that prints data.
    static let json = Option("json", "print JSON: one object, or one line for each row")
    /// On every verb that uses the database.
    static let schema = Option("schema", value: "NAME", "where pgpush lives in the database (PGPUSH_SCHEMA; public)")
    /// On verbs that would ask.
    static let yes = Option("yes", letter: "y", "do not ask, not even on a terminal")
}
