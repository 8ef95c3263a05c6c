// Option parsing by getopt_long, so that pgpush reads its command line as every other GNU command does: `--name=value`
// and `--name value`, unambiguous abbreviations, bundled letters, `--` ends the options, options may follow operands.
// getopt keeps its position in global variables, hence the lock; its own messages are off, since ours name the verb.

@unsafe @preconcurrency import CLinux
import Telemetry

/// Parses argument vectors against a table of options.
enum OptionParser {
    /// Where operands may stand.
    enum Order {
        /// Anywhere among the options.
        case mixed
        /// The first operand ends the options; what follows is left alone, for the next level of a command.
        case stopAtOperand
    }

    /// One parse at a time. (Only tests parse from several threads.)
    private static let turn = Lock(())
    /// getopt answers with this plus the index of the option in the table; above any letter.
    private static let firstCode: Int32 = 256

    /// Reads `words` (without the command's own name).
    ///
    /// - Throws: `UsageError` for an unknown or ambiguous option, a missing value, or a value that is not wanted.
    static func parse(
        _ words: [String], _ options: [Option], order: Order = .mixed
    ) throws(UsageError) -> Arguments {
        try turn.withLock { (_) throws(UsageError) in try run(words, options, order) }
    }

    private static func run(
        _ words: [String], _ options: [Option], _ order: Order
    ) throws(UsageError) -> Arguments {
        let vector = CStrings(["pgpush"] + words)
        let table = LongOptions(options, firstCode: firstCode)
        // A leading ':' tells a missing value from an unknown option; a leading '+' forbids permutation.
        let short = (order == .stopAtOperand ? "+:" : ":") + options.map(\.short).joined()
        var found = Arguments()
        optind = 0
        opterr = 0
        while true {
            let code = unsafe getopt_long(vector.count, vector.pointers, short, table.pointer, nil)
            if code == -1 { break }
            switch code {
            case 0x3F:  // '?'
                throw unknown(vector.word(optind - 1), options)
            case 0x3A:  // ':'
                throw UsageError("option '\(option(optopt, options)?.dashed ?? vector.word(optind - 1))' needs a value")
            default:
                guard let option = option(code, options) else { throw unknown(vector.word(optind - 1), options) }
                found.add(option, unsafe optarg.map { unsafe String(cString: $0) })
            }
        }
        found.operands = vector.words(from: optind)
        return found
    }

    private static func option(_ code: Int32, _ options: [Option]) -> Option? {
        let index = Int(code - firstCode)
        if options.indices.contains(index) { return options[index] }
        return options.first { option in option.letter.map { Int32($0.asciiValue ?? 0) == code } ?? false }
    }

    private static func unknown(_ word: String, _ options: [Option]) -> UsageError {
        // A flag that was given a value is reported with the flag's own code.
        if optopt >= firstCode, let option = option(optopt, options) {
            return UsageError("option '\(option.dashed)' takes no value")
        }
        if optopt != 0, let scalar = Unicode.Scalar(UInt32(bitPattern: optopt)) {
            return UsageError("unknown option '-\(Character(scalar))'")
        }
        let name = String(word.drop { $0 == "-" }.prefix { $0 != "=" })
        let starting = options.filter { $0.name.hasPrefix(name) }
        if !name.isEmpty, starting.count > 1 {
            return UsageError("option '--\(name)' is ambiguous: \(starting.map(\.dashed).joined(separator: ", "))")
        }
        let hint = Suggestion.nearest(to: name, among: options.map(\.name)).map { "; did you mean '--\($0)'?" } ?? ""
        return UsageError("unknown option '--\(name)'\(hint)")
    }
}

extension Option {
    /// The letter as getopt's short option string wants it.
    fileprivate var short: String { letter.map { String($0) + (value == nil ? "" : ":") } ?? "" }
}

/// An argument vector in C's form; getopt permutes its pointers.
@safe private final class CStrings {
    let count: Int32
    let pointers: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private let original: [UnsafeMutablePointer<CChar>?]

    init(_ words: [String]) {
        count = Int32(words.count)
        unsafe pointers = .allocate(capacity: words.count + 1)
        unsafe original = unsafe words.map { unsafe strdup($0) }
        for index in words.indices { unsafe pointers[index] = unsafe original[index] }
        unsafe pointers[words.count] = nil
    }

    deinit {
        unsafe original.forEach { unsafe free($0) }
        unsafe pointers.deallocate()
    }

    func word(_ index: Int32) -> String {
        guard index >= 0, index < count, let pointer = unsafe pointers[Int(index)] else { return "" }
        return unsafe String(cString: pointer)
    }

    func words(from index: Int32) -> [String] { (index..<max(index, count)).map(word) }
}

/// The table of long options in C's form, ended by a row of zeros.
@safe private final class LongOptions {
    let pointer: UnsafeMutablePointer<option>
    private let names: [UnsafeMutablePointer<CChar>?]

    init(_ options: [Option], firstCode: Int32) {
        unsafe names = unsafe options.map { unsafe strdup($0.name) }
        unsafe pointer = .allocate(capacity: options.count + 1)
        for (index, row) in options.enumerated() {
            unsafe (pointer + index).initialize(
                to: option(
                    name: names[index], has_arg: row.value == nil ? no_argument : required_argument, flag: nil,
                    val: firstCode + Int32(index)))
        }
        unsafe (pointer + options.count).initialize(to: option(name: nil, has_arg: 0, flag: nil, val: 0))
    }

    deinit {
        unsafe names.forEach { unsafe free($0) }
        unsafe pointer.deallocate()
    }
}
