// One option of a verb: what getopt_long needs to recognise it and what --help needs to explain it. Verbs declare
// tables of these; nothing else in the program knows how an option is spelled.

/// A command line option, with or without a value.
struct Option: Sendable, Hashable {
    /// The long name, without the dashes.
    let name: String
    /// The one-letter form, if there is one.
    let letter: Character?
    /// How help calls the value; nil for a flag.
    let value: String?
    /// One sentence for help, in lower case and without a full stop.
    let help: String
    /// Whether each occurrence adds a value; otherwise the last one wins.
    let repeats: Bool

    init(_ name: String, letter: Character? = nil, value: String? = nil, repeats: Bool = false, _ help: String) {
        self.name = name
        self.letter = letter
        self.value = value
        self.help = help
        self.repeats = repeats
    }

    /// How messages call it.
    var dashed: String { "--\(name)" }
}

/// A mistake on the command line, found before anything was tried; ends with exit code 2.
struct UsageError: Error, Equatable {
    let message: String
    init(_ message: String) { self.message = message }
}
