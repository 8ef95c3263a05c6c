// The command line by getopt_long, with the options that the simulator's own tables name.

import APNsSimulator
@unsafe @preconcurrency import CLinux

/// Reads the command line of this process.
enum CommandLineReader {
    static let version = "apns-simulator 0.1.0"

    private struct Known {
        let name: String
        let hasArgument: Bool
    }

    private static let known: [Known] =
        [Known(name: "help", hasArgument: false), Known(name: "version", hasArgument: false)]
        + SimulatorOption.table.map { Known(name: $0.name, hasArgument: $0.argument != nil) }
        + WeatherSetting.table.map { Known(name: $0.name, hasArgument: true) }

    /// The options; nil when the text that was asked for has been printed.
    static func read() throws -> SimulatorOptions? {
        var options = SimulatorOptions()
        for (name, value) in try scan() {
            switch name {
            case "help":
                put(HelpText.whole + "\n", on: STDOUT_FILENO)
                return nil
            case "version":
                put(version + "\n", on: STDOUT_FILENO)
                return nil
            default: try options.take(name, value)
            }
        }
        return options
    }

    /// All options in their order; a plain word or an unknown option is an error.
    private static func scan() throws -> [(String, String?)] {
        // getopt keeps pointers to the names while it scans, so they are copied to where they stay.
        let names = unsafe known.map { unsafe strdup($0.name) }
        defer { for place in known.indices { unsafe free(names[place]) } }
        var table = unsafe zip(names, known).map { name, option in
            unsafe CLinux.option(
                name: name, has_arg: option.hasArgument ? required_argument : no_argument, flag: nil, val: 0)
        }
        unsafe table.append(unsafe CLinux.option())
        opterr = 0
        var found: [(String, String?)] = []
        while true {
            var place: Int32 = -1
            let result = unsafe getopt_long(CommandLine.argc, CommandLine.unsafeArgv, ":", table, &place)
            if result == -1 { break }
            guard result == 0, known.indices.contains(Int(place)) else { throw complaint(result) }
            found.append((known[Int(place)].name, unsafe optarg.map { unsafe String(cString: $0) }))
        }
        guard optind >= CommandLine.argc else {
            throw SimulatorError.usage("“\(CommandLine.arguments[Int(optind)])” is one word too many")
        }
        return found
    }

    private static func complaint(_ result: Int32) -> SimulatorError {
        let index = max(1, Int(optind) - 1)
        let word = CommandLine.arguments.indices.contains(index) ? CommandLine.arguments[index] : ""
        return .usage(
            result == Int32(UInt8(ascii: ":")) ? "\(word) wants a value" : "\(word) is no option, or not one only")
    }
}
