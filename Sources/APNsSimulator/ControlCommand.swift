// The control language: one command a line, one answer a line. A command may begin with `#tag`, which its answer then
// repeats, so that a test can wait for one thing and change the weather meanwhile.

/// A control command.
package enum ControlCommand: Equatable, Sendable {
    case help
    case set(name: String, value: String)
    case get(name: String?)
    case calm
    case counts
    case connections
    case await(Milestone, count: Int, milliseconds: Int)
    case goAway(Target)
    case close(Target)
    case abort(Target)
    case finish(Target)
    case mute(Target)
    case alert(Target)
    case answerHeld
    case expireTokens
    case revoke(key: String, isRevoked: Bool)
    case forget
    case quit

    /// Which connections are meant.
    package enum Target: Equatable, Sendable {
        case all
        case connection(Int)
    }

    /// Something to wait for.
    package enum Milestone: String, CaseIterable, Sendable {
        /// Requests that arrived, that were answered, that were accepted, that wait, that ended unanswered.
        case requests, answered, accepted, held, unanswered
        /// TCP connections that were ever accepted, connections that were ever opened, that have ended, that are open.
        case knocks, opened, closed, open
    }

    /// The lines of `help` and of `--help`: a command and what it does.
    package static let manual: [(String, String)] = [
        ("set NAME VALUE", "change the weather; the names are those of the options below"),
        ("get [NAME]", "the present value, or all of them"),
        ("calm", "back to the weather of the start"),
        ("counts", "all counts, as JSON"),
        ("connections", "the open connections, as JSON"),
        (
            "await WHAT N MS",
            "answer when there are at least N, or with an error after MS milliseconds; WHAT is "
                + Milestone.allCases.map(\.rawValue).joined(separator: ", ")
        ),
        ("goaway [N]", "GOAWAY to all connections, or to connection N, as the goaway- settings describe it"),
        ("close [N]", "TLS close and TCP end, without GOAWAY"),
        ("abort [N]", "TCP reset"),
        ("finish [N]", "TCP end without a word"),
        ("alert [N]", "a fatal TLS alert and TCP end"),
        ("mute [N]", "the connection stays open and is dead"),
        ("answer-held", "answer at once, with 200, what waits"),
        ("expire-tokens", "all provider tokens seen so far have expired; newer ones are good"),
        ("revoke KEY, restore KEY", "a signing key does not count any more, or again"),
        ("forget", "set all counts to zero, and let magic tokens that work once work again"),
        ("help", "these lines"),
        ("quit", "end the simulator"),
    ]

    /// Reads a line without its tag.
    ///
    /// - Throws: what is wrong with it, for people.
    package init(_ line: String) throws(SimulatorError) {
        let words = line.split(separator: " ", omittingEmptySubsequences: true).map(String.init)
        guard let verb = words.first else { throw .usage("an empty command") }
        let arguments = Array(words.dropFirst())
        guard let command = try ControlCommand.read(verb, arguments) else {
            throw .usage("“\(line)” is not understood; try help")
        }
        self = command
    }

    private static func read(_ verb: String, _ arguments: [String]) throws(SimulatorError) -> ControlCommand? {
        switch (verb, arguments.count) {
        case ("set", 2...): return try readSet(arguments[0], arguments.dropFirst().joined(separator: " "))
        case ("get", 0...1): return .get(name: arguments.first)
        case ("await", 3): return readAwait(arguments)
        case ("goaway", 0...1): return readTarget(arguments).map(ControlCommand.goAway)
        case ("close", 0...1): return readTarget(arguments).map(ControlCommand.close)
        case ("abort", 0...1): return readTarget(arguments).map(ControlCommand.abort)
        case ("finish", 0...1): return readTarget(arguments).map(ControlCommand.finish)
        case ("alert", 0...1): return readTarget(arguments).map(ControlCommand.alert)
        case ("mute", 0...1): return readTarget(arguments).map(ControlCommand.mute)
        case ("revoke", 1): return .revoke(key: arguments[0], isRevoked: true)
        case ("restore", 1): return .revoke(key: arguments[0], isRevoked: false)
        case (_, 0): return simple[verb]
        default: return nil
        }
    }

    private static let simple: [String: ControlCommand] = [
        "help": .help, "calm": .calm, "counts": .counts, "connections": .connections, "answer-held": .answerHeld,
        "expire-tokens": .expireTokens, "forget": .forget, "quit": .quit,
    ]

    private static func readSet(_ name: String, _ value: String) throws(SimulatorError) -> ControlCommand {
        guard let setting = WeatherSetting.named(name) else { throw .usage("there is no setting \(name)") }
        var trial = Weather()
        guard setting.apply(&trial, value) else { throw .usage("\(name) wants \(setting.argument), not “\(value)”") }
        return .set(name: name, value: value)
    }

    private static func readAwait(_ words: [String]) -> ControlCommand? {
        guard let what = Milestone(rawValue: words[0]), let count = Int(words[1]), let time = Int(words[2]), count >= 0,
            (0...600_000).contains(time)
        else { return nil }
        return .await(what, count: count, milliseconds: time)
    }

    private static func readTarget(_ words: [String]) -> Target? {
        guard let word = words.first, word != "all" else { return .all }
        return Int(word).map(Target.connection)
    }
}
