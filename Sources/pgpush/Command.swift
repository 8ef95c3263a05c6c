// The executable: finds the verb, runs it, turns what went wrong into a message and an exit code.

import CLinux
import PushStore

/// The entry point.
@main struct Command {
    static func main() {
        let environment = EnvironmentVariables.current()
        let command = Command(environment: environment, console: Console(environment: environment))
        exit(command.run(Array(CommandLine.arguments.dropFirst())).rawValue)
    }

    let environment: [String: String]
    let console: Console

    /// Runs `pgpush` with these words.
    func run(_ words: [String]) -> ExitCode {
        // A socket whose peer has gone is reported by its error code, never by a signal.
        pgpush_ignore_sigpipe()
        Interrupt.install()
        return enter(VerbCatalogue.root, words)
    }

    private func enter(_ group: VerbGroup, _ words: [String]) -> ExitCode {
        let command = group.name.isEmpty ? "pgpush" : "pgpush \(group.name)"
        do throws(UsageError) {
            let top = group.name.isEmpty ? [Option.help, .version] : [.help]
            let arguments = try OptionParser.parse(words, top, order: .stopAtOperand)
            if arguments.has(.help) { return show(HelpText.lines(group)) }
            if arguments.has(.version) { return show(["pgpush \(Version.text)"]) }
            guard let word = arguments.operands.first else {
                HelpText.lines(group).forEach(console.note)
                return .usage
            }
            let rest = Array(arguments.operands.dropFirst())
            // `pgpush help devices list` is `pgpush devices list --help`.
            if word == "help", group.name.isEmpty { return enter(group, rest + ["--help"]) }
            switch group.members.first(where: { $0.word == word }) {
            case .verb(let verb): return perform(verb, rest)
            case .group(let inner): return enter(inner, rest)
            case nil:
                let near = Suggestion.nearest(to: word, among: group.members.map(\.word))
                throw UsageError("no such verb: '\(word)'" + (near.map { "; did you mean '\($0)'?" } ?? ""))
            }
        } catch {
            return report(error, command)
        }
    }

    private func perform(_ verb: Verb, _ words: [String]) -> ExitCode {
        let command = "pgpush \(verb.name)"
        do {
            let arguments = try OptionParser.parse(words, verb.options + [.help])
            if arguments.has(.help) { return show(HelpText.lines(verb)) }
            try checkOperands(verb, arguments.operands)
            return try verb.run(
                Invocation(verb: verb, arguments: arguments, environment: environment, console: console))
        } catch let error as UsageError {
            return report(error, command)
        } catch {
            let failure = CommandFailure(any: error)
            failure.lines(command: command, style: console.noteStyle).forEach(console.note)
            return failure.code
        }
    }

    private func checkOperands(_ verb: Verb, _ operands: [String]) throws(UsageError) {
        if verb.operandCount.contains(operands.count) { return }
        if operands.count < verb.operandCount.lowerBound { throw UsageError("\(verb.operands) is missing") }
        let surplus = operands.dropFirst(verb.operandCount.upperBound).first ?? ""
        throw UsageError("'\(surplus)' is one word too many; put blanks into quotes")
    }

    private func show(_ lines: [String]) -> ExitCode {
        console.data(lines)
        return .done
    }

    private func report(_ error: UsageError, _ command: String) -> ExitCode {
        console.note("\(command): \(DisplayText.cleaned(error.message))")
        console.note("'\(command) --help' explains what it takes.")
        return .usage
    }
}

/// The version of the program.
enum Version {
    static let text = "0.1.0"
}
