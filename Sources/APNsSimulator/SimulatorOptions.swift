// Everything that can be chosen at the start, and the table of options that `--help` and getopt_long are made from.
// The switches of the weather (WeatherSettings.swift) are options too.

/// What a simulator is started with.
package struct SimulatorOptions: Sendable {
    package var address = "127.0.0.1"
    /// The port of the production service (and of the sandbox, when that has none of its own); 0: any.
    package var port: UInt16 = 2197
    /// The port of the sandbox; nil: the same port, told apart by the host that is asked for.
    package var sandboxPort: UInt16?
    /// Ports where channels are managed, and nothing else; nil: they are managed at the ports of the services.
    package var managePort: UInt16?
    package var sandboxManagePort: UInt16?
    package var folder: String?
    package var keyID = "SIMKEY0001"
    package var teamID = "SIMTEAM001"
    package var bundleIDs: [String] = []
    package var keys: [KeyOption] = []
    package var certificates: [CertificateOption] = []
    package var isStrict = false
    package var minimumTokenLength = 64
    package var journalPath: String?
    package var journalBodies = JournalBodyForm.full
    package var controlSocket: String?
    package var controlsByInput = false
    package var environmentFile: String?
    package var authentication = Authentication.token
    package var seed: UInt64 = 1
    package var weather = Weather()

    /// The defaults.
    package init() {}

    /// The bundle ids that are registered; one of the simulator's own unless others were named.
    package var effectiveBundleIDs: [String] { bundleIDs.isEmpty ? ["com.example.pgpush"] : bundleIDs }

    /// The folder of the credentials: the one that was named, or one under `home`, the value of HOME; a usage error without
    /// either.
    package func effectiveFolder(home: String?) throws(SimulatorError) -> String {
        if let folder { return folder }
        guard let home, !home.isEmpty else { throw .usage("HOME is not set: say --ca-dir DIR") }
        return home + "/.local/share/apns-simulator"
    }

    /// Takes one option; `value` is nil for those that have none.
    package mutating func take(_ name: String, _ value: String?) throws(SimulatorError) {
        if let setting = WeatherSetting.named(name) {
            guard setting.apply(&weather, value ?? "") else {
                throw .usage("--\(name) wants \(setting.argument), not “\(value ?? "")”")
            }
            return
        }
        guard let option = SimulatorOption.named(name) else { throw .usage("unknown option --\(name)") }
        guard option.apply(&self, value ?? "") else {
            throw .usage("--\(name) wants \(option.argument ?? "no value"), not “\(value ?? "")”")
        }
    }
}

/// How a worker that is given the variables signs in; the simulator takes both.
package enum Authentication: String, Sendable, CaseIterable { case token, certificate, both }

/// A further key: `id=…,team=…,file=…[,environment=…][,topics=a+b][,related=ID]`.
package struct KeyOption: Equatable, Sendable {
    package var id = ""
    package var teamID = ""
    package var file = ""
    package var environment: SimulatedEnvironment?
    package var topics: Set<String>?
    package var related: Set<String> = []

    /// Reads the text of the option; nil when a part is unknown or a needed one is missing.
    package init?(_ text: String) {
        for part in text.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2, take(pair[0], pair[1]) else { return nil }
        }
        guard isTenCharacters(id), isTenCharacters(teamID), !file.isEmpty else { return nil }
    }

    private mutating func take(_ name: String, _ value: String) -> Bool {
        switch name {
        case "id": id = value
        case "team": teamID = value
        case "file": file = value
        case "environment":
            environment = SimulatedEnvironment(rawValue: value)
            return environment != nil
        case "topics": topics = Set(value.split(separator: "+").map(String.init))
        case "related": related = Set(value.split(separator: "+").map(String.init))
        default: return false
        }
        return true
    }

    /// The registered key.
    package func load() throws -> RegisteredKey {
        var key = try CredentialFolder.key(id: id, teamID: teamID, file: file)
        key.environment = environment
        key.topics = topics
        key.related = related
        return key
    }
}

/// A client certificate to be made: `name=…[,topics=a+b][,environment=…][,days=N]`.
package struct CertificateOption: Equatable, Sendable {
    package var name = ""
    /// As Apple's extension lists them; nil: the first app's, with those of all its push types but `location`.
    package var topics: [String]?
    package var environments = Set(SimulatedEnvironment.allCases)
    /// How long it is good; negative: since when it is not.
    package var days = 365

    /// Reads the text of the option; nil when a part is unknown or the name is missing.
    package init?(_ text: String) {
        for part in text.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2, take(pair[0], pair[1]) else { return nil }
        }
        // It becomes the name of files.
        guard !name.isEmpty, !name.hasPrefix("."), PushRules.isTopic(name) else { return nil }
    }

    private mutating func take(_ part: String, _ value: String) -> Bool {
        switch part {
        case "name": name = value
        case "topics": topics = value.split(separator: "+").map(String.init)
        case "environment":
            guard let only = SimulatedEnvironment(rawValue: value) else { return false }
            environments = [only]
        case "days":
            guard let number = Int(value), (-3650...3650).contains(number) else { return false }
            days = number
        default: return false
        }
        return topics.map { !$0.isEmpty && $0.allSatisfy(PushRules.isTopic) } ?? true
    }
}

/// Whether the text has the form of Apple's key and team ids.
func isTenCharacters(_ text: String) -> Bool {
    text.utf8.count == 10 && text.utf8.allSatisfy { isDigit($0) || (0x41...0x5A).contains($0) }
}

/// One option that is not a switch of the weather.
package struct SimulatorOption: Sendable {
    package let name: String
    /// What its value looks like; nil when it has none.
    package let argument: String?
    package let summary: String
    let apply: @Sendable (inout SimulatorOptions, String) -> Bool

    /// The option with this name.
    static func named(_ name: String) -> SimulatorOption? { table.first { $0.name == name } }

    /// All options, in the order of `--help`.
    package static let table: [SimulatorOption] = [
        text("address", "IP", "listen on this address (127.0.0.1)") { $0.address = $1 },
        port("port", "production's port, 0 = any (2197); also the sandbox's, unless that has its own") { $0.port = $1 },
        port("sandbox-port", "the sandbox's port, 0 = any") { $0.sandboxPort = $1 },
        port("manage-port", "a port for channel management alone, 0 = any (the services' own ports answer that too)") {
            $0.managePort = $1
        },
        port("sandbox-manage-port", "the same for the sandbox, which else shares it, told apart by the host") {
            $0.sandboxManagePort = $1
        },
        text("ca-dir", "DIR", "keep CA, certificate and .p8 here; made when missing (~/.local/share/apns-simulator)") {
            $0.folder = $1
        },
        text("print-env", "FILE", "write the variables that a pgpush worker needs; - = stdout") {
            $0.environmentFile = $1
        },
        SimulatorOption(
            name: "auth", argument: Authentication.allCases.map(\.rawValue).joined(separator: "|"),
            summary: "what --print-env gives: the key, a certificate for the app, or both, which pgpush refuses (token)"
        ) { options, value in
            guard let authentication = Authentication(rawValue: value) else { return false }
            options.authentication = authentication
            return true
        },
        text("key-id", "ID", "id of the key in DIR (SIMKEY0001)", where: isTenCharacters) { $0.keyID = $1 },
        text("team-id", "ID", "its team (SIMTEAM001)", where: isTenCharacters) { $0.teamID = $1 },
        text(
            "bundle-id", "ID", "an app that pushes may go to; may be repeated (com.example.pgpush)",
            where: PushRules.isTopic
        ) {
            $0.bundleIDs.append($1)
        },
        SimulatorOption(
            name: "key", argument: "id=…,team=…,file=…[,environment=…][,topics=a+b][,related=ID]",
            summary: "a further key; may be repeated"
        ) { options, value in
            guard let key = KeyOption(value) else { return false }
            options.keys.append(key)
            return true
        },
        SimulatorOption(
            name: "issue", argument: "name=…[,topics=a+b][,environment=…][,days=N]",
            summary:
                "make a client certificate, DIR/NAME.pem, .key, .p12 (password simulator); N < 0: expired; may be repeated"
        ) { options, value in
            guard let certificate = CertificateOption(value) else { return false }
            options.certificates.append(certificate)
            return true
        },
        flag("strict", "refuse what Apple accepts and then may not deliver (see warnings in the journal)") {
            $0.isStrict = true
        },
        SimulatorOption(name: "min-token-length", argument: "N", summary: "shortest device token, in digits (64)") {
            options, value in
            guard let length = Int(value), (1...512).contains(length) else { return false }
            options.minimumTokenLength = length
            return true
        },
        text("journal", "FILE", "append one JSON line for each request and connection") { $0.journalPath = $1 },
        SimulatorOption(
            name: "journal-body", argument: JournalBodyForm.allCases.map(\.rawValue).joined(separator: "|"),
            summary: "how bodies appear in it (full)"
        ) { options, value in
            guard let form = JournalBodyForm(rawValue: value) else { return false }
            options.journalBodies = form
            return true
        },
        text("control-socket", "PATH", "listen for control commands on a Unix socket") { $0.controlSocket = $1 },
        flag("control-stdin", "read control commands from stdin, answer on stdout; end of input ends the simulator") {
            $0.controlsByInput = true
        },
        SimulatorOption(name: "seed", argument: "N", summary: "the seed of everything that goes by chance (1)") {
            options, value in
            guard let seed = UInt64(value) else { return false }
            options.seed = seed
            return true
        },
    ]

    private static func text(
        _ name: String, _ argument: String, _ summary: String,
        where isRight: @escaping @Sendable (String) -> Bool = { !$0.isEmpty },
        _ put: @escaping @Sendable (inout SimulatorOptions, String) -> Void
    ) -> SimulatorOption {
        SimulatorOption(name: name, argument: argument, summary: summary) { options, value in
            guard isRight(value) else { return false }
            put(&options, value)
            return true
        }
    }

    private static func port(
        _ name: String, _ summary: String, _ put: @escaping @Sendable (inout SimulatorOptions, UInt16) -> Void
    ) -> SimulatorOption {
        SimulatorOption(name: name, argument: "PORT", summary: summary) { options, value in
            guard let port = UInt16(value) else { return false }
            put(&options, port)
            return true
        }
    }

    private static func flag(
        _ name: String, _ summary: String, _ put: @escaping @Sendable (inout SimulatorOptions) -> Void
    ) -> SimulatorOption {
        SimulatorOption(name: name, argument: nil, summary: summary) { options, value in
            put(&options)
            return value.isEmpty
        }
    }

    init(
        name: String, argument: String?, summary: String,
        apply: @escaping @Sendable (inout SimulatorOptions, String) -> Bool
    ) {
        self.name = name
        self.argument = argument
        self.summary = summary
        self.apply = apply
    }
}
