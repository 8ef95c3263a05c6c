// Reading the command line: options, times, ids, suggestions.

import PushStore
import Testing

@testable import pgpush

@Suite("Command line options") struct CommandLineOptions {
    private static let options = [
        Option("user", letter: "u", value: "ID", repeats: true, "user"), Option("title", value: "TEXT", "title"),
        Option("limit", letter: "n", value: "N", "limit"), Option("json", "json"), Option("json-lines", "lines"),
        Option("yes", letter: "y", "yes"),
    ]

    private func parse(_ words: [String], _ order: OptionParser.Order = .mixed) throws -> Arguments {
        try OptionParser.parse(words, Self.options, order: order)
    }

    private func problem(_ words: [String]) -> String? {
        do throws(UsageError) {
            _ = try OptionParser.parse(words, Self.options)
            return nil
        } catch {
            return error.message
        }
    }

    @Test func valuesAndFlags() throws {
        let found = try parse(["--user", "7", "--user=8", "-u9", "-u", "10", "--title=a=b", "-y", "--json", "42"])
        #expect(found.texts(Self.options[0]) == ["7", "8", "9", "10"])
        #expect(found.text(Self.options[1]) == "a=b")
        #expect(found.has(Self.options[5]) && found.has(Self.options[3]))
        #expect(!found.has(Self.options[4]))
        #expect(found.operands == ["42"])
    }

    @Test func lastOneWins() throws {
        #expect(try parse(["--title", "a", "--title", "b"]).text(Self.options[1]) == "b")
    }

    @Test func optionsMayFollowOperands() throws {
        let found = try parse(["1", "--json", "2", "-n", "3", "4"])
        #expect(found.operands == ["1", "2", "4"])
        #expect(found.text(Self.options[2]) == "3")
    }

    @Test func doubleDashEndsOptions() throws {
        let found = try parse(["--", "--json", "-y"])
        #expect(found.operands == ["--json", "-y"])
        #expect(!found.has(Self.options[3]))
    }

    @Test func stopsAtTheVerb() throws {
        let found = try parse(["-y", "list", "--json"], .stopAtOperand)
        #expect(found.operands == ["list", "--json"])
        #expect(!found.has(Self.options[3]))
    }

    @Test func abbreviations() throws {
        #expect(try parse(["--tit", "x"]).text(Self.options[1]) == "x")
        // An exact name is never ambiguous.
        #expect(try parse(["--json"]).has(Self.options[3]))
        #expect(problem(["--js"]) == "option '--js' is ambiguous: --json, --json-lines")
    }

    @Test func emptyAndUnusualValues() throws {
        #expect(try parse(["--title", ""]).text(Self.options[1])?.isEmpty == true)
        #expect(try parse(["--title="]).text(Self.options[1])?.isEmpty == true)
        #expect(try parse(["--title", "--json"]).text(Self.options[1]) == "--json")
        #expect(try parse(["--title", "日本 👩‍👩‍👧"]).text(Self.options[1]) == "日本 👩‍👩‍👧")
    }

    @Test func mistakes() {
        #expect(problem(["--titel", "x"]) == "unknown option '--titel'; did you mean '--title'?")
        #expect(problem(["--nothing-like-it"]) == "unknown option '--nothing-like-it'")
        #expect(problem(["x", "--bogus=3", "y"]) == "unknown option '--bogus'")
        #expect(problem(["-yq"]) == "unknown option '-q'")
        #expect(problem(["--title"]) == "option '--title' needs a value")
        #expect(problem(["-n"]) == "option '--limit' needs a value")
        #expect(problem(["--json=1"]) == "option '--json' takes no value")
        #expect(problem(["-é"]) != nil)
    }

    @Test func parsersDoNotDisturbOneAnother() async {
        await withTaskGroup(of: Bool.self) { group in
            for number in 0..<64 {
                group.addTask {
                    let found = try? OptionParser.parse(["a", "--user", "\(number)", "b", "--json"], Self.options)
                    return found?.texts(Self.options[0]) == ["\(number)"] && found?.operands == ["a", "b"]
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    @Test func numbersAndWords() throws {
        let found = try parse(["--limit", "12", "--title", "warn"])
        #expect(try found.integer(Self.options[2], 1...100) == 12)
        #expect(throws: UsageError("--limit takes a whole number from 1 to 5, not '12'")) {
            try found.integer(Self.options[2], 1...5)
        }
        #expect(throws: UsageError.self) { try found.integer(Self.options[1], 1...5) }
        #expect(throws: UsageError("--title is one of warning, error, not 'warn'; did you mean 'warning'?")) {
            try found.choice(Self.options[1], ["warning", "error"])
        }
    }

    /// A process has 1 to 16 connections, and each of its lanes needs one of its own.
    @Test func lanesAndConnections() throws {
        func sizes(_ words: String...) throws -> [Int] {
            let (lanes, connections) = try WorkerPlan.sizes(
                OptionParser.parse(words, [.lanes, .connections]), usualLanes: 3)
            return [lanes, connections]
        }
        #expect(try sizes() == [3, 4])
        #expect(try sizes("--lanes", "2") == [2, 4])
        #expect(try sizes("--lanes", "16") == [16, 16])
        #expect(try sizes("--connections", "2") == [2, 2])
        #expect(try sizes("--lanes", "8", "--connections", "8") == [8, 8])
        #expect(
            throws: UsageError(
                "--lanes 5 is more than --connections 4: each lane sends over connections of its own")
        ) { try sizes("--lanes", "5", "--connections", "4") }
        #expect(throws: UsageError.self) { try sizes("--lanes", "17") }
        #expect(throws: UsageError.self) { try sizes("--connections", "17") }
    }

    @Test(arguments: ["0", "-1", "1.5", "abc", "", "9223372036854775808", "1 "])
    func idsThatAreNone(_ text: String) {
        var arguments = Arguments()
        arguments.operands = [text]
        #expect(throws: UsageError.self) { try arguments.identifier(0) }
    }

    @Test func suggestions() {
        #expect(Suggestion.nearest(to: "enqeue", among: ["list", "enqueue"]) == "enqueue")
        #expect(Suggestion.nearest(to: "resch", among: ["list", "reschedule"]) == "reschedule")
        #expect(Suggestion.nearest(to: "xyz", among: ["list", "enqueue"]) == nil)
        #expect(Suggestion.distance(Array("abcd"), Array("abdc")) == 1)
    }

    /// Every option of every verb must be reachable: no name or letter twice, all parseable.
    @Test func verbTablesAreSound() throws {
        for verb in allVerbs(VerbCatalogue.root) {
            let options = verb.options + [.help]
            #expect(Set(options.map(\.name)).count == options.count, "\(verb.name)")
            let letters = options.compactMap(\.letter)
            #expect(Set(letters).count == letters.count, "\(verb.name)")
            for option in options {
                let words = option.value == nil ? [option.dashed] : [option.dashed, "x"]
                #expect(try OptionParser.parse(words, options).has(option), "\(verb.name) \(option.dashed)")
            }
            #expect(!verb.examples.isEmpty, "\(verb.name)")
            for example in verb.examples { #expect(example.command.contains("pgpush \(verb.name)")) }
            #expect(HelpText.lines(verb).allSatisfy { $0.count <= 120 }, "\(verb.name)")
        }
    }

    private func allVerbs(_ group: VerbGroup) -> [Verb] {
        group.members.flatMap { member in
            switch member {
            case .verb(let verb): [verb]
            case .group(let inner): allVerbs(inner)
            }
        }
    }
}

@Suite("Times on the command line") struct CommandLineTimes {
    private func read(_ text: String) throws -> TimeArgument { try TimeArgument(text, for: "--at") }

    @Test func relative() throws {
        #expect(try read("now").moment == .now)
        #expect(try read("+90s").moment == .fromNow(seconds: 90))
        #expect(try read("+2h30m").moment == .fromNow(seconds: 9_000))
        #expect(try read("+1w2d").moment == .fromNow(seconds: 777_600))
        #expect(try read("+999999999w").moment == .fromNow(seconds: 604_799_999_395_200))
    }

    @Test(arguments: [
        ("2026-03-08T09:30:00+01:00", true), ("2026-03-08 09:30Z", true), ("2026-03-08T09:30:00.123456-0530", true),
        ("2026-03-08 09:30 Europe/Berlin", true), ("2026-03-08 09:30+01", true), ("2024-02-29 00:00", false),
        ("2026-11-01 01:30", false), ("2026-03-08t23:59:59", false),
    ])
    func absolute(_ text: String, _ namesZone: Bool) throws {
        let time = try read(text)
        #expect(time.moment == .at(text))
        #expect(time.namesZone == namesZone)
    }

    @Test(arguments: [
        "", "+", "+5", "+m", "+5x", "+1m1h", "+5m5m", "+1000000000s", "-5m", "tomorrow", "infinity", "-infinity",
        "epoch",
        "03/04/2026", "2026-02-29 10:00", "2026-13-01 10:00", "2026-00-10 10:00", "2026-04-31 10:00", "2026-03-08",
        "2026-03-08 24:00", "2026-03-08 10:60", "2026-03-08 10:00:60", "2026-03-08 10:00:00.",
        "2026-03-08 10:00:00.1234567",
        "2026-03-08 10:00 +", "2026-03-08 10:00+16:00", "2026-03-08 10:00;DROP", "0000-01-01 00:00", "2026-03-08T1:00",
        "２０２６-03-08 10:00", "now ", "2026-03-08 10:00\u{0}",
    ])
    func refused(_ text: String) {
        #expect(throws: UsageError.self) { try TimeArgument(text, for: "--at") }
    }
}
